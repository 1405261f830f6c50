"""Writes Python data as YAML text in the style of the shipped specs.

Specs that are built in Python are read from this text, so that every mistake in them has a line
and a column like those in files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any, cast

from schedgen.errors import SchedgenError
from schedgen.spec.yaml_nodes import MAX_DEPTH

_WIDTH = 96
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_@.+*/()<>= -]*(?<! )|-inf|[0-9]+/[0-9]+")
_WORDS = re.compile(r"true|false|null|~", re.IGNORECASE)


def yaml_text(data: Mapping[str, Any], name: str) -> str:
    """Return ``data`` as YAML: mappings, lists, strings, numbers, booleans and None.

    Raises:
        SchedgenError: with the path of keys to a value that cannot be written.
    """
    return "".join(f"{line}\n" for line in _block(data, name, ()))


def _block(node: Any, name: str, path: tuple[str | int, ...]) -> list[str]:
    """Return the lines of a mapping or list, one entry after the other."""
    if len(path) > MAX_DEPTH:
        raise _error(name, path, f"this is nested more than {MAX_DEPTH} deep")
    lines: list[str] = []
    if isinstance(node, Mapping):
        for key, value in cast("Mapping[Any, Any]", node).items():
            lines.extend(_entry(f"{_flow(key, name, path)}:", value, name, (*path, key)))
    else:
        for number, value in enumerate(cast("list[Any]", node)):
            lines.extend(_entry("-", value, name, (*path, number)))
    return lines


def _entry(head: str, value: Any, name: str, path: tuple[str | int, ...]) -> list[str]:
    """Return the lines of an entry: a single one if little is nested in it and it fits."""
    depth = _depth(value)
    inline = (2 if len(path) > 1 else 0) if isinstance(value, Mapping) else 1
    if depth <= inline or not value:
        line = f"{head} {_flow(value, name, path)}"
        if depth == 0 or not value or len(line) + 2 * len(path) <= _WIDTH:
            return [line]
    inner = [f"  {line}" for line in _block(value, name, path)]
    if head == "-":
        return [f"- {inner[0][2:]}", *inner[1:]]
    return [head, *inner]


def _depth(node: Any, limit: int = 4) -> int:
    """Return how deep collections are nested in ``node``, counting up to ``limit``."""
    if limit == 0 or not isinstance(node, Mapping | list | tuple):
        return 0
    if isinstance(node, Mapping):
        parts = list(cast("Mapping[Any, Any]", node).values())
    else:
        parts = list(cast("list[Any]", node))
    return 1 + max((_depth(part, limit - 1) for part in parts), default=0)


def _flow(node: Any, name: str, path: tuple[str | int, ...]) -> str:
    """Return ``node`` on one line."""
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case Real():  # also Fraction and numpy's numbers
            return str(node)
        case str():
            text = str(node)
            plain = _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text)
            return text if plain else json.dumps(text, ensure_ascii=False)
        case Mapping():
            pairs = cast("Mapping[Any, Any]", node).items()
            inside = (f"{_flow(k, name, path)}: {_flow(v, name, (*path, k))}" for k, v in pairs)
            return f"{{{', '.join(inside)}}}"
        case list() | tuple():
            items = enumerate(cast("list[Any]", node))
            return f"[{', '.join(_flow(item, name, (*path, n)) for n, item in items)}]"
        case _:
            raise _error(name, path, f"a {type(node).__name__} cannot be part of a spec")


def _error(name: str, path: tuple[str | int, ...], message: str) -> SchedgenError:
    where = ".".join(map(str, path[:MAX_DEPTH])) or "the top level"
    return SchedgenError(f"{name}: {where}: {message}; use mappings, lists, text and numbers")
