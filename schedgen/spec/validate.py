"""Checks YAML data against a pydantic model, and says in plain words where and how it differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ValidationError

from schedgen.errors import Diagnostic, SpecError, suggest
from schedgen.spec.model_keys import allowed_keys
from schedgen.spec.source import Source

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ModelT = TypeVar("ModelT", bound=BaseModel)
_Path: TypeAlias = tuple[str | int, ...]

# What pydantic's complaints about types mean: what was expected, and how to write it.
_TYPES = {
    "bool_type": ("true or false", "write true or false"),
    "int_type": ("a whole number", "write a number without quotes"),
    "string_type": ("text", "write text, in quotes if it looks like a number"),
    "list_type": ("a list", "write a list: [...]"),
    "dict_type": ("a mapping", "write a mapping: {key: value}"),
    "model_type": ("a mapping", "write a mapping: {key: value}"),
    "model_attributes_type": ("a mapping", "write a mapping: {key: value}"),
}
_LENGTHS = {
    "too_short": ("entries: {actual_length}, but at least {min_length} are needed", "add some"),
    "too_long": ("entries: {actual_length}, but no more than {max_length} fit", "remove some"),
    "string_too_short": ("an empty text means nothing here", "write a name, or delete the key"),
    "string_too_long": ("{shown} has more than {max_length} characters", "shorten it"),
}
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class _Problem:
    """One of pydantic's errors, at the value at ``path`` or, ``on_key``, at its key."""

    kind: str
    path: _Path
    on_key: bool
    name: str  # of the missing or unknown key
    value: object
    context: dict[str, Any]
    text: str


def validate(source: Source, model: type[ModelT]) -> ModelT:
    """Return ``source`` as a ``model``.

    Raises:
        SpecError: with every structural mistake.
    """
    empty = set(_empty(source.data, ()))
    diagnostics: list[Diagnostic] = []
    try:
        found = model.model_validate(source.data)
    except ValidationError as error:
        for problems in _by_place(source, error):
            path, kind = problems[0].path, problems[0].kind
            if kind == "extra_forbidden":
                empty.discard(path)
            if path not in empty:
                diagnostics.append(_diagnostic(source, model, problems))
        diagnostics.extend(_no_value(source, path) for path in empty)
        raise SpecError(diagnostics) from None
    if empty:
        raise SpecError(_no_value(source, path) for path in empty)
    return found


def _empty(data: object, path: _Path) -> Iterator[_Path]:
    """Yield the paths of all values that are null, which YAML takes an empty value for."""
    if data is None:
        yield path
    elif isinstance(data, dict):
        for key, value in cast("dict[str, object]", data).items():
            yield from _empty(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(cast("list[object]", data)):
            yield from _empty(value, (*path, number))


def _no_value(source: Source, path: _Path) -> Diagnostic:
    message = f"'{path[-1]}' has no value" if isinstance(path[-1], str) else "this item is empty"
    return source.diagnostic("missing-value", message, path, fix="write a value, or delete it")


def _by_place(source: Source, error: ValidationError) -> list[list[_Problem]]:
    """Group errors by place: for a value, a union reports one for each of its members."""
    places: dict[tuple[object, ...], list[_Problem]] = {}
    for detail in error.errors(include_url=False):
        problem = _problem(source.data, detail)
        places.setdefault((problem.path, problem.on_key, problem.name), []).append(problem)
    return list(places.values())


def _problem(data: object, detail: ErrorDetails) -> _Problem:
    kind, location, name = detail["type"], detail["loc"], ""
    if kind == "missing":
        location, name = location[:-1], str(location[-1])
    elif kind == "extra_forbidden":
        name = str(location[-1])
    elif kind == "union_tag_invalid":
        location = (*location, "kind")
    on_key = bool(location) and (kind == "extra_forbidden" or location[-1] == "[key]")
    path = tuple(_path(data, location))
    return _Problem(
        kind, path, on_key, name, detail["input"], detail.get("ctx") or {}, detail["msg"]
    )


def _path(data: object, location: tuple[str | int, ...]) -> Iterator[str | int]:
    """Yield the elements of a location that lead somewhere: pydantic mixes in tags of unions."""
    node, tagged = data, False
    for number, element in enumerate(location):
        if isinstance(node, dict):
            mapping = cast("dict[str, object]", node)
            is_tag = not tagged and mapping.get("kind") == element and location[number + 1 :]
            tagged = bool(is_tag)
            if is_tag or element not in mapping:
                continue
            node, tagged = mapping[str(element)], False
            yield element
        elif isinstance(node, list) and isinstance(element, int):
            node = cast("list[object]", node)[element]
            yield element


def _diagnostic(source: Source, model: type[BaseModel], problems: list[_Problem]) -> Diagnostic:
    """Return the diagnostic for all ``problems`` of one place."""
    first = problems[0]
    rule, message, fix = _unusual(source, model, first) or _wrong_value(problems)
    return source.diagnostic(rule, message, first.path, key=first.on_key, fix=fix)


def _unusual(
    source: Source, model: type[BaseModel], problem: _Problem
) -> tuple[str, str, str] | None:
    """Return rule, message and fix of a mistake in keys, names or kinds; None for any other."""
    match problem.kind:
        case "missing":
            name = problem.name
            return "missing-key", f"the key '{name}' is missing", f"add '{name}: ...' here"
        case "union_tag_not_found":
            return "missing-key", "the key 'kind' is missing", "add 'kind: ...' here"
        case "extra_forbidden":
            keys = allowed_keys(model, source.data, problem.path[:-1])
            fix = suggest(problem.name, keys) or f"the keys here are {', '.join(keys)}"
            return "unknown-key", f"'{problem.name}' is not a key that can stand here", fix
        case "string_pattern_mismatch":
            fix = "a name consists of letters, digits and underscores, and starts with no digit"
            return "bad-name", f"{_shown(problem.value)} is not a name", fix
        case "string_type" if _extent(problem.path):
            message = f"extents of arguments have names, {_shown(problem.value)} is none"
            fix = (
                "put a parameter here, and the number under 'parameters': "
                f"{{default: {problem.value}}}"
            )
            return "wrong-type", message, fix
        case "union_tag_invalid":
            tags = str(problem.context["expected_tags"]).replace("'", "").split(", ")
            tag = str(problem.context["tag"])
            fix = suggest(tag, tags) or f"one of {', '.join(tags)}"
            return "unknown-kind", f"{_shown(tag)} is not an operation kind", fix
        case _:
            return None


def _extent(path: _Path) -> bool:
    """Whether a value is an extent in the shape of an argument."""
    return len(path) == 4 and (path[0], path[2]) == ("arguments", "shape")


def _wrong_value(problems: list[_Problem]) -> tuple[str, str, str]:
    """Return rule, message and fix for a value that is none of what could stand there."""
    expected: dict[str, str] = {}
    for problem in problems:
        if problem.kind in _TYPES:
            words, fix = _TYPES[problem.kind]
            expected[words] = fix
        elif problem.kind == "literal_error":
            words = str(problem.context["expected"])
            close = suggest(
                str(problem.value), words.replace("'", "").replace(" or ", ", ").split(", ")
            )
            expected[words] = close or f"write {words}"
        elif problem.kind in _LENGTHS:
            template, fix = _LENGTHS[problem.kind]
            message = template.format(shown=_shown(problem.value), **problem.context)
            return "wrong-length", message, fix
        else:
            text = f"{problem.text[:1].lower()}{problem.text[1:].rstrip('.')}"
            return "wrong-type", f"{text}, got {_shown(problem.value)}", "change the value"
    only_words = all(problem.kind == "literal_error" for problem in problems)
    rule = "unknown-value" if only_words else "wrong-type"
    words = ", ".join(expected).replace("true or false", "true, false")
    words = " or ".join(words.rsplit(", ", maxsplit=1))
    message = f"expected {words}, got {_shown(problems[0].value)}"
    return (
        rule,
        message,
        next(iter(expected.values())) if len(expected) == 1 else "write one of these",
    )


def _shown(value: object) -> str:
    """Return a value for a message: as it stands in YAML if it is short, else what it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…")
