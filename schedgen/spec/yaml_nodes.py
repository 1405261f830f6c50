"""Composes parse events into a tree of located values, refusing what a spec has no use for.

The accepted language is YAML 1.2's core schema without tags, anchors, aliases and merge keys, one
document at a time (`schedgen.spec.source` tells them apart): nothing is constructed, repeated or
overridden behind the reader's back.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from schedgen.errors import DiagnosticSink, Location, SpecError
from schedgen.spec.text import TextFile, forbidden_character
from schedgen.spec.yaml_events import Event, Kind, parse_events

MAX_DEPTH = 32  # mappings and sequences inside each other
MAX_NODES = 20_000  # mappings, sequences and scalars, keys included
MAX_INTEGER_DIGITS = 18  # such integers, and sums of several, fit the solver's 64 bits

Scalar: TypeAlias = str | int | bool | None
Data: TypeAlias = "Scalar | list[Data] | dict[str, Data]"
_Type = Literal["null", "a boolean", "an integer", "a float", "not finite", "a string"]

_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_PLAIN_TYPES: tuple[tuple[_Type, re.Pattern[str]], ...] = (  # YAML 1.2.2, section 10.3.2
    ("null", re.compile(r"(?:~|null|Null|NULL)?")),
    ("a boolean", re.compile("|".join(_TRUE + _FALSE))),
    ("an integer", re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")),
    ("a float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")),
    ("not finite", re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")),
)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A value without parts; of a float, `value` is its text, to be parsed exactly later."""

    value: Scalar
    text: str  # unquoted and unescaped
    at: Location

    def data(self) -> Scalar:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list of nodes."""

    items: tuple["Node", ...]
    at: Location

    def data(self) -> list[Data]:
        """Return the values, without positions."""
        return [item.data() for item in self.items]


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping from keys, which are strings, to pairs of a key's and a value's node."""

    entries: dict[str, tuple[ScalarNode, "Node"]]
    at: Location

    def data(self) -> dict[str, Data]:
        """Return the values, without positions."""
        return {key: value.data() for key, (_, value) in self.entries.items()}


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def compose(text: str, lines: TextFile) -> MappingNode:
    """Return the tree of a YAML text, whose top level is a mapping.

    Raises:
        SpecError: with everything that is wrong up to the first syntax error, if there is one.
    """
    sink = DiagnosticSink()
    try:
        root = _Composer(parse_events(text, lines), lines, sink).document()
    except SpecError as error:
        raise SpecError([*sink.diagnostics, *error.diagnostics]) from None
    sink.raise_if_any()
    return root


class _Composer:
    """Recursive descent over the events; `sink` gets what does not stop the parser."""

    def __init__(self, events: Iterator[Event], lines: TextFile, sink: DiagnosticSink) -> None:
        self._events = events
        self._lines = lines
        self._sink = sink
        self._count = 0

    def document(self) -> MappingNode:
        if next(self._events, None) is None:
            raise self._empty()
        root = self._node(next(self._events), 1)
        another = next(self._events, None)
        if another is not None:
            raise self._lines.error(
                "yaml-multiple-documents",
                "a second YAML document starts here, on a line of other text",
                self._lines.span(another.start),
                "write '---' on a line of its own",
            )
        if isinstance(root, MappingNode):
            return root
        if isinstance(root, ScalarNode) and not root.text:
            raise self._empty()
        raise self._lines.error(
            "yaml-not-a-mapping",
            f"a spec consists of 'key: value' lines, not of {_describe(root)}",
            root.at,
            "start each entry with its key, and put a space after the ':'",
        )

    def _empty(self) -> SpecError:
        message, fix = "the file has no content", "start from one of the shipped specs"
        return self._lines.error("yaml-empty", message, Location(1, 1), fix)

    def _node(self, event: Event, depth: int) -> Node:
        self._enter(event)
        if event.kind in (Kind.SCALAR, Kind.ALIAS):
            return self._scalar(event)
        if depth > MAX_DEPTH:
            raise self._lines.error(
                "yaml-too-deep",
                f"mappings and lists are nested more than {MAX_DEPTH} deep",
                Location(*event.start),
                "put less inside each other",
            )
        if event.kind is Kind.SEQUENCE:
            return self._sequence(event, depth)
        return self._mapping(event, depth)

    def _scalar(self, event: Event) -> ScalarNode:
        text, at = event.text, self._lines.span(event.start, event.end)
        value: Scalar = text
        match _type_of(event):
            case "null":
                value = None
            case "a boolean":
                value = text in _TRUE
            case "an integer":
                value = self._integer(text, at)
            case "not finite":
                fix = (
                    f"write {text.lower().replace('.', '')}"
                    if "i" in text.lower()
                    else "write a number"
                )
                self._report("yaml-not-finite", f"{text} is not a number a spec can use", at, fix)
            case "a float" | "a string":
                pass
        return ScalarNode(value, text, at)

    def _integer(self, text: str, at: Location) -> int:
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        # Length first: int() is quadratic in it, and refuses some thousands of digits.
        value = int(text, base) if len(text) <= 2 * MAX_INTEGER_DIGITS else None
        if value is None or abs(value) >= 10**MAX_INTEGER_DIGITS:
            message = f"integer {_quote(text)} has more than {MAX_INTEGER_DIGITS} digits"
            self._report("yaml-integer-too-large", message, at, "use a smaller number")
            return 0
        return value

    def _sequence(self, start: Event, depth: int) -> SequenceNode:
        items: list[Node] = []
        while (event := next(self._events)).kind is not Kind.END:
            items.append(self._node(event, depth + 1))
        return SequenceNode(tuple(items), self._span(start, event))

    def _mapping(self, start: Event, depth: int) -> MappingNode:
        entries: dict[str, tuple[ScalarNode, Node]] = {}
        while (event := next(self._events)).kind is not Kind.END:
            key = self._key(event, depth + 1)
            what = next(self._events)
            if what.kind is Kind.SCALAR and what.start == what.end:
                # There is no value, and ruamel tells the position of whatever follows.
                what = replace(what, start=event.start, end=event.end)
            value = self._node(what, depth + 1)
            if key is None:
                continue
            first, _ = entries.setdefault(key.text, (key, value))
            if first is not key:
                self._report(
                    "yaml-duplicate-key",
                    f"duplicate key {_quote(key.text)}, first defined in line {first.at.line}",
                    key.at,
                    "remove or rename one of the two",
                )
        return MappingNode(entries, self._span(start, event))

    def _key(self, event: Event, depth: int) -> ScalarNode | None:
        """Return the key of an entry, or None after reporting that it cannot be one."""
        if event.kind in (Kind.SEQUENCE, Kind.MAPPING):
            node = self._node(event, depth)
            self._report("yaml-key-not-string", f"{_describe(node)} cannot be a key", node.at)
            return None
        self._enter(event)
        text, at = event.text, self._lines.span(event.start, event.end)
        if event.plain and text == "<<":
            fix = "write the entries out, or use parameters"
            self._report("yaml-merge-key", "merge keys are not allowed in a spec", at, fix)
            return None
        kind = _type_of(event)
        if kind == "a string":
            return None if event.kind is Kind.ALIAS else ScalarNode(text, text, at)
        message = f"keys are strings, but {_quote(text)} is {kind}" if text else "a key is missing"
        fix = f"put it in quotes: {_quote(text)}" if text else "write a key before the ':'"
        self._report("yaml-key-not-string", message, at, fix)
        return None

    def _enter(self, event: Event) -> None:
        """Count a node, and report what decorates it: anchors, tags and hidden characters."""
        self._count += 1
        line, column = event.start
        if self._count > MAX_NODES:
            message = f"the file holds more than {MAX_NODES} values"
            fix = "use dimensions to repeat buffers and operations"
            raise self._lines.error("yaml-too-many-nodes", message, Location(line, column), fix)
        if event.anchor is not None:
            what = "aliases" if event.kind is Kind.ALIAS else "anchors"
            at = Location(line, column, len(event.anchor) + 1)
            fix = "use parameters; text that starts with '&' or '*' needs quotes"
            self._report("yaml-anchor", f"{what} are not allowed in a spec", at, fix)
        elif event.tagged:
            tag = self._lines.line(line)[column - 1 :].split(maxsplit=1)[0]
            at = Location(line, column, len(tag))
            fix = "delete it; text that starts with '!' needs quotes"
            self._report("yaml-tag", f"the tag {_quote(tag)} is not allowed in a spec", at, fix)
        hidden = forbidden_character(event.text)
        if hidden is not None:
            message = f"the character {hidden[1]} is not allowed in a spec, not even escaped"
            at = self._lines.span(event.start, event.end)
            self._report("yaml-control-character", message, at, "delete it")

    def _span(self, start: Event, end: Event) -> Location:
        return self._lines.span(start.start, end.end if start.flow else None)

    def _report(self, rule: str, message: str, at: Location, fix: str | None = None) -> None:
        self._sink.error(self._lines.diagnostic(rule, message, at, fix))


def _type_of(event: Event) -> _Type:
    if event.plain:
        for name, pattern in _PLAIN_TYPES:
            if pattern.fullmatch(event.text):
                return name
    return "a string"


def _describe(node: Node) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode():
            return "a single value"


def _quote(text: str) -> str:
    """Return `text` for a message: quoted, on one line and not too long."""
    return repr(text if len(text) <= 40 else text[:39] + "…")
