"""Parse events of a YAML 1.2 text, the only place that touches ruamel.

ruamel scans and parses; resolving tags and constructing objects is never asked of it. Whatever it
raises leaves here as a `SpecError` in plain words.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from schedgen.errors import SpecError
from schedgen.spec.text import TextFile
from schedgen.spec.yaml_problems import Position, Problem, explain

_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#.*)?\r?\n)*%")


class Kind(Enum):
    """What an event announces."""

    DOCUMENT = "document"
    MAPPING = "mapping"
    SEQUENCE = "sequence"
    END = "end"  # of the innermost mapping or sequence
    SCALAR = "scalar"
    ALIAS = "alias"


_KINDS = {
    "DocumentStartEvent": Kind.DOCUMENT,
    "MappingStartEvent": Kind.MAPPING,
    "MappingEndEvent": Kind.END,
    "SequenceStartEvent": Kind.SEQUENCE,
    "SequenceEndEvent": Kind.END,
    "ScalarEvent": Kind.SCALAR,
    "AliasEvent": Kind.ALIAS,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One step through a YAML text.

    Attributes:
        kind: what happens here.
        start: line and column of its first character, from 1.
        end: line and column after its last character; of a collection, after its opening bracket.
        text: value of a scalar, unquoted and unescaped.
        plain: a scalar that is neither quoted nor a block.
        flow: a mapping or sequence in brackets.
        anchor: name of the anchor (``&name``) or alias (``*name``), if any.
        tagged: whether it carries an explicit tag (``!name``).
    """

    kind: Kind
    start: Position
    end: Position
    text: str = ""
    plain: bool = False
    flow: bool = False
    anchor: str | None = None
    tagged: bool = False


def parse_events(text: str, lines: TextFile) -> Iterator[Event]:
    """Yield the events of `text`, a YAML stream without forbidden characters.

    Raises:
        SpecError: the text is not YAML, or starts with a directive such as ``%YAML 1.1``.
    """
    directive = _DIRECTIVE.match(text)
    if directive is not None:
        at = lines.span((text.count("\n", 0, directive.end()) + 1, 1))
        message = "YAML directives are not allowed in a spec"
        raise lines.error("yaml-directive", message, at, "delete the line; specs are YAML 1.2")

    from ruamel.yaml import YAML
    from ruamel.yaml.docinfo import DocInfo

    loader = YAML(typ="safe", pure=True)
    loader.doc_infos.append(DocInfo())  # where the parser notes directives
    _, parser = loader.get_constructor_parser(text)
    brackets: list[Position] = []  # where each flow collection that is still open starts
    while True:
        try:
            raw = parser.get_event() if parser.check_event() else None
        except Exception as error:
            # Not only YAMLError: an escape beyond Unicode, for one, raises OverflowError.
            raise _failure(error, lines, loader.reader, brackets) from None
        if raw is None:
            return
        event = _convert(raw)
        if event is not None:
            _track(brackets, event)
            yield event


def _convert(raw: Any) -> Event | None:
    """Return our event for one of ruamel's, or None for those that nobody needs."""
    kind = _KINDS.get(type(raw).__name__)
    if kind is None:
        return None
    return Event(
        kind,
        _position(raw.start_mark),
        _position(raw.end_mark),
        text=getattr(raw, "value", ""),
        plain=kind is Kind.SCALAR and raw.style is None,
        flow=bool(getattr(raw, "flow_style", False)),
        anchor=getattr(raw, "anchor", None),
        tagged=getattr(raw, "ctag", None) is not None,
    )


def _track(brackets: list[Position], event: Event) -> None:
    """Keep `brackets` up to date: flow collections contain only flow collections."""
    if event.flow:
        brackets.append(event.start)
    elif event.kind is Kind.END and brackets:
        brackets.pop()


def _failure(error: Exception, lines: TextFile, reader: Any, brackets: list[Position]) -> SpecError:
    """Return the explanation of an exception that ruamel raised."""
    context, what = getattr(error, "context", None), getattr(error, "problem", None)
    start_mark, mark = getattr(error, "context_mark", None), getattr(error, "problem_mark", None)
    problem = Problem(
        ": ".join(part for part in (context, what) if part) or f"{type(error).__name__}: {error}",
        at=_position(mark or start_mark or reader),
        start=None if start_mark is None else _position(start_mark),
        bracket=brackets[-1] if brackets else None,
    )
    return SpecError([explain(problem, lines)])


def _position(mark: Any) -> Position:
    """Return line and column, from 1, of anything that counts them from 0."""
    return mark.line + 1, mark.column + 1
