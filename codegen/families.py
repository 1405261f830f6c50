"""Variables that differ in one index as a tuple, so that a loop can choose among them.

``sBias_0`` to ``sBias_7`` become ``sBias[0]`` to ``sBias[7]``: parameters as a tuple of them,
variables that lines one after the other make as what a comprehension makes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from schedgen.codegen.generalize import Turns, common_name, distinct_name, generalized_code
from schedgen.codegen.ir import Block, Code, Line, Name, code, joined
from schedgen.codegen.numbers import Affine, Number, follows, progression
from schedgen.codegen.terms import AllFacts, Term, assigned_by, names_in

_FEWEST = 3
"""Variables of a family."""
_INDEX = re.compile(r"(?<=_)\d+(?=_|$)")
_COUNTER = "i"


@dataclass(frozen=True, slots=True)
class Family:
    """``name[n]`` is what ``members[n]`` was."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Families:
    """Those that one ``line`` makes; ``lines`` are what made their members, none for parameters."""

    families: tuple[Family, ...]
    line: Line
    lines: tuple[Line, ...] = ()


def of_parameters(terms: Sequence[Term], parameters: Mapping[str, str]) -> list[Families]:
    """Families of the parameters of a role, with their types, that it does not change."""
    assigned = {name for term in terms for name in assigned_by(term)}
    groups: dict[tuple[str, str, str], dict[int, str]] = {}
    for name, kind in parameters.items():
        for match in _INDEX.finditer(name) if name not in assigned else ():
            key = name[: match.start()], name[match.end() :], kind
            groups.setdefault(key, {})[int(match.group())] = name
    found, taken = list[Families](), {*names_in(terms), *parameters}
    given = set[str]()
    for group in sorted(groups.values(), key=len, reverse=True):
        numbers = sorted(group)
        members = tuple(group[number] for number in numbers)
        counts = numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        if len(members) >= _FEWEST and counts and not given & {*members}:
            given |= {*members}
            family = _family(members, taken)
            line = code("{} = ({})", Name(family.name), joined(", ", map(Name, members)))
            found.append(Families((family,), Line(line)))
    return found


def _family(members: Sequence[str], taken: set[str]) -> Family:
    name = distinct_name(common_name(members), taken)
    taken.add(name)
    return Family(name, tuple(members))


# -- what lines make -------------------------------------------------------------------------------


def of_lines(terms: Sequence[Term]) -> list[Families]:
    """Families of variables that lines of a role make one after the other, and nothing else."""
    often = [name for term in terms for name in assigned_by(term)]
    found, taken, at = list[Families](), {*names_in(terms)}, 0
    while at < len(terms):
        run = [] if _COUNTER in taken else _run(terms[at:])
        names = [_names(line) for line in run]
        if len(run) >= _FEWEST and all(often.count(n) == 1 for each in names for n in each):
            families = tuple(_family(members, taken) for members in zip(*names, strict=True))
            found.append(Families(families, _comprehension(families, run), tuple(run)))
        at += max(len(run), 1)
    return found


def _run(terms: Sequence[Term]) -> list[Line]:
    """Lines from the first one on that make variables with one index more each, by expressions
    that differ in integers at most.
    """
    facts, run, steps = AllFacts(()), list[Line](), list[int | None]()
    for term in terms:
        if not isinstance(term, Line) or not _names(term):
            break
        if run and not _next(run[-1], term):
            break
        first = facts.of(Line(_expression(run[0] if run else term)))
        mine = facts.of(Line(_expression(term)))
        pairs = [*zip(_numbers(first.atoms), _numbers(mine.atoms), strict=False)]
        if len(run) == 1:
            steps = [progression(pair) for pair in pairs]
        together = (
            step is not None and follows(one, step, len(run), other)
            for (one, other), step in zip(pairs, steps, strict=False)
        )
        if first.shape != mine.shape or (run and not all(together)):
            break
        run.append(term)
    return run


def _numbers(atoms: Sequence[Name | Number]) -> list[Number]:
    return [atom for atom in atoms if isinstance(atom, Number)]


def _names(line: Line) -> list[str]:
    """The variables that a line makes."""
    text = next((part for part in line.code.parts if isinstance(part, str) and "=" in part), "")
    return assigned_by(line) if text.startswith(" = ") else []


def _expression(line: Line) -> Code:
    """What a line makes them of."""
    parts = line.code.parts
    at = next(n for n, part in enumerate(parts) if isinstance(part, str) and "=" in part)
    rest = cast("str", parts[at]).removeprefix(" = ")
    return Code((rest, *parts[at + 1 :]) if rest else parts[at + 1 :])


def _next(one: Line, other: Line) -> bool:
    """Whether the names of a line are those of the one before with an index that is one more."""
    names, more = _names(one), _names(other)
    return len(names) == len(more) and all(map(_one_more, names, more))


def _one_more(name: str, other: str) -> bool:
    return any(
        f"{name[: match.start()]}{int(match.group()) + 1}{name[match.end() :]}" == other
        for match in _INDEX.finditer(name)
    )


def _comprehension(families: Sequence[Family], run: Sequence[Line]) -> Line:
    expressions = [_expression(line) for line in run]
    found = generalized_code(expressions, Turns(_COUNTER, 0, set()))
    counts = any(isinstance(part, Number) and part.value.terms for part in found.parts)
    each = code("[{} for {} in range({})]", found, _COUNTER if counts else "_", len(run))
    names = joined(", ", (Name(family.name) for family in families))
    return Line(code("{} = {}" if len(families) == 1 else "{} = zip(*{})", names, each))


# -- their members as elements ---------------------------------------------------------------------

_Places = Mapping[str, tuple[Family, int]]


def indexed(terms: Sequence[Term], of: Collection[Families]) -> tuple[Term, ...]:
    """Statements of a role with members of families as elements, and these made where they can."""
    places = {
        member: (family, number)
        for each in of
        for family in each.families
        for number, member in enumerate(family.members)
    }
    made = {id(each.lines[0]): each.line for each in of if each.lines}
    gone = {id(line) for each in of for line in each.lines}
    found: list[Term] = [each.line for each in of if not each.lines]
    for term in terms:
        if id(term) in made:
            found.append(made[id(term)])
        elif id(term) not in gone:
            found.append(_elements_of(term, places))
    return tuple(found)


def _elements_of(term: Term, places: _Places) -> Term:
    match term:
        case Line(line):
            return Line(_elements(line, places))
        case Block(head, body):
            inner = (_elements_of(each, places) for each in cast("tuple[Term, ...]", body))
            return Block(_elements(head, places), tuple(inner))
        case _:
            return term


def _elements(line: Code, places: _Places) -> Code:
    parts = list[object]()
    for part in line.parts:
        if isinstance(part, Name) and part.text in places:
            family, number = places[part.text]
            parts += [Name(family.name), "[", Number(Affine(number)), "]"]
        else:
            parts.append(part)
    return joined("", cast("list[str | Name]", parts))


def chosen(terms: Sequence[Term], of: Collection[Families]) -> list[Families]:
    """Those of which a loop chooses elements."""
    names = {family.name for each in of for family in each.families}
    found = {name for term in terms for name in _chosen(term, names)}
    return [each for each in of if any(family.name in found for family in each.families)]


def _chosen(term: Term, names: Collection[str]) -> Iterator[str]:
    match term:
        case Line(line) | Block(head=line):
            for name, _, number in zip(line.parts, line.parts[1:], line.parts[2:], strict=False):
                known = isinstance(name, Name) and name.text in names
                if known and isinstance(number, Number) and number.value.terms:
                    yield cast("Name", name).text
        case _:
            return
    if isinstance(term, Block):
        for each in cast("tuple[Term, ...]", term.body):
            yield from _chosen(each, names)
