"""How a command ends that did not come to its end: with a message, never with a bare traceback."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from schedgen import __version__
from schedgen.errors import SchedgenError

INTERNAL = 70
"""Exit status of a bug in schedgen (EX_SOFTWARE of sysexits.h)."""


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """``command``, which ends with a message and an exit status whatever is raised in it: what is
    raised on purpose says its status, and all else is a bug.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except SchedgenError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(error.status) from None
        except BrokenPipeError:  # who read the output has seen enough
            raise
        except Exception as error:
            typer.echo(_told(error), err=True)
            raise typer.Exit(INTERNAL) from None

    return run


def _told(error: Exception) -> str:
    """A request to report ``error``, whose traceback goes to a file."""
    text = "".join(traceback.format_exception(error))
    head = f"schedgen {__version__}, Python {sys.version.split()[0]}\n{' '.join(sys.argv)}\n\n"
    said = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="schedgen-error-", suffix=".txt", delete=False
        ) as file:
            file.write(head + text)
        where = f"the traceback is in {file.name}"
    except OSError:
        where = f"the traceback:\n{text}"
    return (
        f"internal error: {what}\n  this is a bug in schedgen; fix: report it with the spec and "
        f"the command line; {where}"
    )
