"""JSON files of schedgen's own that say their format: written compactly, read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

WIDTH = 120

_T = TypeVar("_T")


def text_of(value: object, key: str, number: int) -> str:
    """The dataclass ``value`` as the text of a file of format ``number``, which ``key`` says."""
    data = {key: number, **_adapter(type(value)).dump_python(value, mode="json")}
    return compact(data) + "\n"


def read(text: str, file: str, kind: type[_T], key: str, number: int, fix: str) -> _T:
    """What `text_of` wrote: a dataclass, with no key missing and none too many.

    Raises SchedgenError: ``text`` is something else; it names the place, the value and the rule.
    """
    from pydantic import ValidationError

    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchedgenError(f"{file}: this is no JSON: {error}; fix: {fix}") from None
    if not isinstance(data, dict) or key not in data:
        raise SchedgenError(f"{file}: it has no '{key}'; fix: {fix}")
    named = cast("dict[str, Any]", data)
    found = named.pop(key)
    if found != number:
        raise SchedgenError(f"{file}: {key} is {found!r}, this schedgen reads {number}; fix: {fix}")
    try:
        return _adapter(kind).validate_json(json.dumps(named), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SchedgenError(
            f"{file}: {where}: {first['input']!r:.80}: {first['msg']}; fix: {fix}"
        ) from None


@cache
def _adapter(kind: type[_T]) -> TypeAdapter[_T]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def compact(data: object, indent: int = 0) -> str:
    """JSON in which only what has parts of its own, or does not fit a line, is on several."""
    line = json.dumps(data, ensure_ascii=False)
    pad = " " * (indent + 1)
    parts = _parts(data)
    if len(line) + indent <= WIDTH and not any(_parts(part) is not None for part in parts or ()):
        return line
    if isinstance(data, dict):
        named = cast("dict[str, object]", data)
        if all(isinstance(value, int) for value in named.values()):
            items = [f"{json.dumps(key)}: {value}" for key, value in named.items()]
            return "{\n" + "\n".join(_filled(items, pad)) + "\n" + pad[1:] + "}"
        rows = [f"{pad}{json.dumps(key)}: {compact(v, indent + 1)}" for key, v in named.items()]
        return "{\n" + ",\n".join(rows) + "\n" + pad[1:] + "}"
    if parts is None:
        return line
    rows = [pad + compact(value, indent + 1) for value in parts]
    return "[\n" + ",\n".join(rows) + "\n" + pad[1:] + "]"


def _parts(data: object) -> list[object] | None:
    """Of an object or an array; None of anything else."""
    if isinstance(data, dict):
        return list(cast("dict[str, object]", data).values())
    return list(cast("list[object]", data)) if isinstance(data, list | tuple) else None


def _filled(items: list[str], pad: str) -> Iterator[str]:
    """Lines with as many ``items`` as fit on each."""
    line = ""
    for number, item in enumerate(items):
        piece = item + ("," if number < len(items) - 1 else "")
        if line and len(pad) + len(line) + 1 + len(piece) > WIDTH:
            yield pad + line
            line = ""
        line = f"{line} {piece}" if line else piece
    yield pad + line
