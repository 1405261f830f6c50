"""Statements as terms that can be compared: their text cut into names, integers and the rest.

A name is a variable, of the role or from outside of it, or something that a file defines or
imports. Attributes, keywords and texts in quotes are the rest, and so are numbers that are no
integers. A statement of several lines is one term.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from schedgen.codegen.ir import (
    Block,
    Call,
    Code,
    Comment,
    Line,
    Name,
    Node,
    Uses,
    Value,
    code,
    inside,
    joined,
)
from schedgen.codegen.lowering import lowered
from schedgen.codegen.numbers import Affine, Number
from schedgen.codegen.printing import written

_TOKEN = re.compile(
    r"""(?P<rest>\"\"\".*?\"\"\"|"[^"]*"|'[^']*'|\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|0x\w+
        |\.\s*[^\W\d]\w*|[^\W\d]\w*=(?!=))
    |(?P<name>[^\W\d]\w*)|(?P<integer>\d+)""",
    re.VERBOSE,
)
_INDEX = re.compile(r"(?P<integer>\b\d+\b)")
_ASSIGNED = re.compile(r"((?:[^\W\d]\w*, )*[^\W\d]\w*) (?:[-+*/%]|//)?= ")
_COUNTED = re.compile(r"for ([^\W\d]\w*) in ")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NOTHING = re.compile(r"(?!)")
_LONG = 88
"""Characters of a line that is written as several."""

Term = Line | Comment | Block | Uses
Shape = tuple[object, ...]


def terms_of(nodes: Iterable[Node]) -> tuple[Term, ...]:
    """The statements of a role as terms. What they use of the library stands at their end."""
    functions = dict[str, None]()
    found = tuple(_terms(lowered(nodes), functions))
    return (*found, Uses(tuple(functions))) if functions else found


def _terms(nodes: Iterable[Node], functions: dict[str, None]) -> Iterator[Term]:
    pending, depth = list[Code](), 0
    for node in nodes:
        match node:
            case Uses(names):
                functions |= dict.fromkeys(names)
            case Line(line):
                pending.append(_tokens(line))
                depth += _opened(pending[-1])
                if not depth:
                    yield Line(_one(pending))
                    pending = []
            case Call(head, arguments, end):
                whole = code("{}({}){}", head, joined(", ", arguments), end)
                yield Line(_tokens(whole))
            case Comment(words):
                yield Comment(_cut(words, _INDEX))
            case Block(head, body):
                yield Block(_tokens(head), tuple(_terms(body, functions)))
            case _:
                raise TypeError(f"{type(node).__name__} is no statement of a role")


def _tokens(line: Code) -> Code:
    return _cut(line, _TOKEN)


def _cut(line: Code, pattern: re.Pattern[str]) -> Code:
    parts = list[str | Value]()
    for part in line.parts:
        for piece in _pieces(part, pattern) if isinstance(part, str) else (part,):
            if isinstance(piece, str) and parts and isinstance(parts[-1], str):
                parts[-1] += piece
            elif piece != "":
                parts.append(piece)
    return Code(tuple(parts))


def _pieces(text: str, pattern: re.Pattern[str]) -> Iterator[str | Value]:
    end = 0
    for match in pattern.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        kind, found = match.lastgroup, match.group()
        if kind == "integer":
            yield Number(Affine(int(found)))
        elif kind == "name" and not keyword.iskeyword(found):
            yield Name(found)
        else:
            yield found
    yield text[end:]


def _opened(line: Code) -> int:
    """How many brackets of a line are left open; those in quotes are none."""
    text = _QUOTED.sub("", "".join(part for part in line.parts if isinstance(part, str)))
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def _one(lines: Sequence[Code]) -> Code:
    """Lines of a statement as one; the comma behind what is last of several is left out."""
    found = lines[0]
    for line in lines[1:]:
        more = _stripped(line)
        closes = isinstance(more.parts[0], str) and more.parts[0][0] in ")]}"
        last = found.parts[-1]
        if closes and isinstance(last, str) and last.endswith(","):
            found = Code((*found.parts[:-1], last[:-1]))
        opened = isinstance(last, str) and last[-1] in "([{"
        found = joined("" if closes or opened else " ", [found, more])
    return _cut(found, _NOTHING)


def _stripped(line: Code) -> Code:
    first, *rest = line.parts
    kept = (first.lstrip(), *rest) if isinstance(first, str) else (first, *rest)
    return Code(tuple(part for part in kept if part != ""))


# -- what a term is made of ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What is to know of a term: terms of equal ``shape`` differ in ``atoms`` only.

    Attributes:
        atoms: its variables and integers, in order.
        assigned: variables that get a value in it.
        counters: those among them that only count its loops.
        lines: how many lines it takes, about.
        uses: how often each variable stands in it.
    """

    shape: Shape
    atoms: tuple[Name | Number, ...]
    assigned: frozenset[str]
    counters: frozenset[str]
    lines: int
    uses: Counter[str]


def variables(terms: Iterable[Term]) -> frozenset[str]:
    """Variables that get a value in terms."""
    return frozenset(name for term in terms for name in assigned_by(term))


def assigned_by(term: Term) -> list[str]:
    """The same of one, each as often as it gets one."""
    within = (name for each in inside(term) for name in assigned_by(cast("Term", each)))
    return [*_given(term), *counter_of(term), *within]


def _given(term: Term) -> list[str]:
    """Variables that a line gives a value."""
    found = _ASSIGNED.match(_begin(term.code)) if isinstance(term, Line) else None
    return [] if found is None else found[1].split(", ")


def _begin(line: Code) -> str:
    """How a line begins, up to what a value or a loop is made of."""
    text = ""
    for part in line.parts:
        text += part.text if isinstance(part, Name) else part if isinstance(part, str) else "0"
        if "=" in text or " in " in text or "(" in text:
            break
    return text


class AllFacts:
    """Facts of terms whose variables are ``known``; other names have to be equal.

    Without ``comments`` it does not matter what these say.
    """

    def __init__(self, known: Collection[str], *, comments: bool = True) -> None:
        self.known, self.comments = {*known}, comments
        self._found: dict[int, tuple[Term, Facts]] = {}
        """By identity, with the term, which has to live as long."""

    def of(self, term: Term) -> Facts:
        """Facts of a term, found once."""
        if id(term) not in self._found:
            self._found[id(term)] = term, self._facts(term)
        return self._found[id(term)][1]

    def _facts(self, term: Term) -> Facts:
        shape, atoms = _split(term, self.known, comments=self.comments)
        within = [self.of(cast("Term", each)) for each in inside(term)]
        counters, given = {*counter_of(term)}, {*_given(term)}
        uses = Counter(atom.text for atom in atoms if isinstance(atom, Name))
        for each in within:
            counters |= each.counters
            given |= each.assigned - each.counters
            uses.update(each.uses)
        return Facts(
            (shape, *(each.shape for each in within)),
            (*atoms, *(atom for each in within for atom in each.atoms)),
            frozenset(given | counters),
            frozenset(counters - given),
            _lines(term) + sum(each.lines for each in within),
            uses,
        )


def counter_of(term: Term) -> tuple[str, ...]:
    """The variable with which a loop counts; none if it is no such loop."""
    found = _COUNTED.match(_begin(term.head)) if isinstance(term, Block) else None
    return () if found is None else (found[1],)


def names_in(terms: Iterable[Term]) -> Counter[str]:
    """How often names stand in terms."""
    found = Counter[str]()
    for term in terms:
        match term:
            case Line(line) | Block(head=line):
                found.update(each.text for each in line.parts if isinstance(each, Name))
            case Comment() | Uses():
                pass
        found += names_in(cast("Iterable[Term]", inside(term)))
    return found


def _split(
    term: Term, known: Collection[str], *, comments: bool
) -> tuple[Shape, tuple[Name | Number, ...]]:
    """A term's own code without its atoms, and these."""
    match term:
        case Uses(functions):
            return ("uses", functions), ()
        case Comment() if not comments:
            return ("comment",), ()
        case Line(line) | Comment(line) | Block(head=line):
            shape, atoms = list[object]([type(term).__name__]), list[Name | Number]()
            for part in line.parts:
                atom = isinstance(part, Number) or (isinstance(part, Name) and part.text in known)
                if isinstance(part, Name | Number) and atom:
                    atoms.append(part)
                    shape.append(_kind(part))
                else:
                    shape.append(part)
            return tuple(shape), tuple(atoms)


def _kind(atom: Name | Number) -> tuple[object, ...]:
    return ("name",) if isinstance(atom, Name) else ("number", atom.summand, atom.modulus)


def _lines(term: Term) -> int:
    match term:
        case Uses():
            return 0
        case Line(line) | Block(head=line):
            text = written(line)
            return 1 if len(text) <= _LONG else 3 + text.count(", ") // 2
        case Comment():
            return 1
