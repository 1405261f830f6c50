"""Which keys a model accepts at a place in the data: the candidates for a misspelt key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

_Schema: TypeAlias = dict[str, Any]


def allowed_keys(model: type[BaseModel], data: object, path: Sequence[str | int]) -> list[str]:
    """Return the keys of the mapping at ``path`` of ``data``; empty if any key can stand there."""
    root = _schema(model)
    part, node = root, data
    for element in path:
        part = _child(_resolve(root, part, node), element)
        node = _item(node, element)
    return list(_resolve(root, part, node).get("properties", ()))


@cache
def _schema(model: type[BaseModel]) -> _Schema:
    return model.model_json_schema(by_alias=True)


def _item(node: object, element: str | int) -> object:
    try:
        return cast(Any, node)[element]
    except (KeyError, IndexError, TypeError):
        return None


def _is_mapping(node: object) -> bool:
    return isinstance(node, dict)


def _resolve(root: _Schema, part: _Schema, node: object) -> _Schema:
    """Follow references, and of alternatives the one that ``node`` picks by kind or type."""
    if "$ref" in part:
        return _resolve(root, root["$defs"][part["$ref"].rpartition("/")[2]], node)
    if "discriminator" in part and _is_mapping(node):
        choice = part["discriminator"]
        mapping = cast(dict[str, Any], node)
        target = choice["mapping"].get(mapping.get(choice["propertyName"]))
        return _resolve(root, {"$ref": target}, mapping) if target is not None else {}
    wanted = "object" if _is_mapping(node) else "array"
    for option in part.get("anyOf", ()):
        resolved = _resolve(root, option, node)
        if resolved.get("type") == wanted:
            return resolved
    return part


def _child(part: _Schema, element: str | int) -> _Schema:
    if isinstance(element, int):
        return part.get("items", {})
    if element in part.get("properties", {}):
        return part["properties"][element]
    for named in part.get("patternProperties", {}).values():
        return named
    others: _Schema | bool = part.get("additionalProperties", {})
    return {} if isinstance(others, bool) else others
