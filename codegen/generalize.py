"""Anti-unification: the least general statements of which several are instances.

Statements of equal shape differ in variables and integers, and in what comments say. What stands
for those that differ is up to the rules.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import reduce
from itertools import count
from typing import cast

from schedgen.codegen.ir import Block, Code, Comment, LibraryFunction, Line, Name, Uses, inside
from schedgen.codegen.names import RESERVED
from schedgen.codegen.numbers import Affine, Number, progression
from schedgen.codegen.terms import Term


class UnequalError(Exception):
    """Statements that are no instances of one."""


class Rules(ABC):
    """What stands for variables, integers and comments of several statements."""

    @abstractmethod
    def name(self, names: tuple[str, ...]) -> str:
        """A variable for one variable of each. Raises UnequalError."""

    @abstractmethod
    def number(self, numbers: tuple[Number, ...]) -> Affine:
        """An integer for one of each. Raises UnequalError."""

    @abstractmethod
    def comment(self, comments: tuple[Code, ...]) -> Code:
        """A comment for one of each. Raises UnequalError."""


def generalized(bodies: Sequence[Sequence[Term]], rules: Rules) -> tuple[Term, ...]:
    """Statements for those of several bodies of equal shape. Raises UnequalError."""
    return tuple(_term(terms, rules) for terms in zip(*bodies, strict=True))


def _term(terms: tuple[Term, ...], rules: Rules) -> Term:
    match terms[0]:
        case Uses():
            return terms[0]
        case Comment():
            return Comment(rules.comment(tuple(cast("Comment", term).words for term in terms)))
        case Line():
            return Line(generalized_code([cast("Line", term).code for term in terms], rules))
        case Block():
            blocks = cast("tuple[Block, ...]", terms)
            head = generalized_code([block.head for block in blocks], rules)
            bodies = [cast("tuple[Term, ...]", inside(block)) for block in blocks]
            return Block(head, generalized(bodies, rules))


def generalized_code(codes: Sequence[Code], rules: Rules) -> Code:
    """Code for several of equal shape. Raises UnequalError."""
    return Code(tuple(_part(parts, rules) for parts in zip(*(c.parts for c in codes), strict=True)))


def _part(parts: tuple[object, ...], rules: Rules) -> str | Name | LibraryFunction | Number:
    first = parts[0]
    match first:
        case Name():
            return Name(rules.name(tuple(cast("Name", part).text for part in parts)))
        case Number():
            value = rules.number(cast("tuple[Number, ...]", parts))
            return replace(first, value=value)
        case str() | LibraryFunction() if all(part == first for part in parts):
            return first
        case _:
            raise UnequalError(f"{parts}")


class Turns(Rules):
    """What stands for statements of several turns of a loop."""

    def __init__(self, counter: str, origin: int, taken: set[str]) -> None:
        self.counter, self.origin, self.taken = counter, origin, taken
        self.renamed: dict[tuple[str, ...], str] = {}

    def name(self, names: tuple[str, ...]) -> str:
        if len(set(names)) == 1:
            return names[0]
        if names not in self.renamed:
            self.renamed[names] = distinct_name(common_name(names), self.taken)
            self.taken.add(self.renamed[names])
        return self.renamed[names]

    def number(self, numbers: tuple[Number, ...]) -> Affine:
        step = progression(numbers)
        if step is None:
            raise UnequalError(f"{numbers}")
        return numbers[0].value.along(self.counter, step, self.origin)

    def comment(self, comments: tuple[Code, ...]) -> Code:
        return generalized_code(comments, self)


# -- names and comments ----------------------------------------------------------------------------

_WORD = re.compile(r"_*(?:[^\W\d_]+|\d+)")


def common_name(names: Sequence[str]) -> str:
    """What names have in common without the indices that differ: ``sQ_0``, ``sQ_1`` -> ``sQ``."""
    words = [_WORD.findall(name) for name in names]
    if len({len(found) for found in words}) == 1:
        kept = [found[0] for found in zip(*words, strict=True) if len(set(found)) == 1]
    else:
        kept = reduce(_common, ([word for word in w if not word[-1].isdigit()] for w in words))
    found = "".join(kept).strip("_")
    return names[0] if not found or found[0].isdigit() else found


def _common(one: list[str], other: list[str]) -> list[str]:
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [word for block in blocks for word in one[block.a : block.a + block.size]]


def distinct_name(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it if it is ``taken`` or means something everywhere."""
    made = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(name for name in made if name not in taken and name not in RESERVED)


_DIGITS = re.compile(r"(\d+)")
_GONE = "\0"


def common_comment(comments: Sequence[str]) -> str:
    """A comment without the indices that differ: ``EXP[0,1]``, ``EXP[1,1]`` -> ``EXP[1]``.

    Comments that differ in more than that are given one after the other.
    """
    split = [_DIGITS.split(comment) for comment in comments]
    if len({tuple(words[::2]) for words in split}) > 1:
        return "; ".join(dict.fromkeys(comments))
    kept = (each[0] if len(set(each)) == 1 else _GONE for each in zip(*split, strict=True))
    text = re.sub(f"{_GONE},|,?{_GONE}", "", "".join(kept))
    return text.replace("[]", "")
