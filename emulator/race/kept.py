"""Files that `schedgen race` writes and reads again: JSON with a version and a list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from schedgen.errors import SchedgenError

VERSION = 1


def entries(path: Path, option: str, kind: str, listed: str, fix: str) -> list[Any]:
    """The entries of a file.

    Args:
        option: of the command, that names the file.
        kind: the key of the version.
        listed: the key of the list.
        fix: behind each message.

    Raises:
        SchedgenError: there is no such file, or it is another one.
    """
    try:
        data: object = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SchedgenError(f"{option} {path}: {error.strerror}; {fix}") from None
    except UnicodeDecodeError:
        raise SchedgenError(f"{option} {path}: it is no text; {fix}") from None
    except (ValueError, RecursionError) as error:
        raise SchedgenError(f"{option} {path}: this is no JSON: {error}; {fix}") from None
    if not isinstance(data, dict) or kind not in data:
        raise SchedgenError(f"{option} {path}: it has no '{kind}'; {fix}")
    named = cast(dict[str, Any], data)
    if (number := named[kind]) != VERSION:
        raise SchedgenError(
            f"{option} {path}: {kind} is {number!r}, this schedgen reads {VERSION}; {fix}"
        )
    found = named.get(listed)
    if not isinstance(found, list):
        raise SchedgenError(f"{option} {path}: '{listed}' is no list; {fix}")
    return cast(list[Any], found)
