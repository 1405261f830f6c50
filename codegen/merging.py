"""Roles that do the same become one function, which each of them calls with what is its own.

Bodies are the same if they are equal but for variables that come from outside, what their own
variables are called, and integers that grow by the same from role to role: those depend on the
parameter ``instance``, 0 for the first of the roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from schedgen.codegen.generalize import (
    Rules,
    UnequalError,
    common_comment,
    common_name,
    distinct_name,
    generalized,
)
from schedgen.codegen.ir import Code, Function, Line, Node, code
from schedgen.codegen.numbers import Affine, Number, progression
from schedgen.codegen.printing import WIDTH, written
from schedgen.codegen.terms import AllFacts, Shape, Term, names_in, variables


@dataclass(frozen=True, slots=True)
class Body:
    """A role before it is a function of the file.

    Attributes:
        role: what the function is called.
        warps: how many warps run it.
        operations: what they do, in words.
        arguments: variables of the kernel that it uses, with their types.
        terms: its statements.
        teams: how many times as many warps run it, in turn.
    """

    role: str
    warps: int
    operations: tuple[str, ...]
    arguments: Mapping[str, str]
    terms: tuple[Term, ...]
    teams: int = 1

    @property
    def variables(self) -> frozenset[str]:
        """Those that it gives a value."""
        return variables(self.terms)

    @property
    def shape(self) -> tuple[int, int, list[Shape]]:
        """What roles have in common that may be one function."""
        facts = AllFacts({*self.variables, *self.arguments}, comments=False)
        return self.warps, len(self.operations), [facts.of(term).shape for term in self.terms]


@dataclass(frozen=True, slots=True)
class Call:
    """How a role is called; ``numbered``: the last argument says which of several roles it is."""

    function: str
    arguments: tuple[str, ...]
    numbered: bool = False


CONSTANT = "cutlass.Constexpr"
"""The type of a parameter that is known when a function is compiled."""

Give = Callable[[str, Sequence[str]], str]
"""Makes the name of a function: what it should be, and the roles that call it."""


def merged(bodies: Sequence[Body], give: Give) -> tuple[list[Function], dict[str, Call]]:
    """Functions for all roles, in the order of the first role of each, and how roles call them."""
    functions, calls = list[Function](), dict[str, Call]()
    for group in _groups(bodies):
        roles = [body.role for body in group]
        name = give(common_name(roles), roles) if len(group) > 1 else roles[0]
        merge = _Merge(group)
        function, given = merge.function(name)
        functions.append(function)
        for role, arguments in zip(roles, given, strict=True):
            calls[role] = Call(name, arguments, numbered=bool(merge.instance))
    return functions, calls


def _groups(bodies: Sequence[Body]) -> list[list[Body]]:
    """Roles that are one function."""
    found = list[tuple[object, list[Body]]]()
    for body in bodies:
        shape = body.shape
        for other, group in found:
            if shape == other and _unify([*group, body]):
                group.append(body)
                break
        else:
            found.append((shape, [body]))
    return [group for _, group in found]


def _unify(group: Sequence[Body]) -> bool:
    try:
        _Merge(group).terms()
    except UnequalError:
        return False
    return True


class _Merge(Rules):
    """What stands for the statements of several roles."""

    def __init__(self, group: Sequence[Body]) -> None:
        self.group = group
        self.own = [body.variables for body in group]
        self.taken = {name for body in group for name in (*names_in(body.terms), *body.arguments)}
        self.parameters: dict[tuple[str, ...], str] = {}
        """Arguments of the roles -> the parameter for them."""
        self.renamed: dict[tuple[str, ...], str] = {}
        """The same for variables of the roles."""
        self.instance = ""

    def terms(self) -> tuple[Term, ...]:
        """Their statements. Raises UnequalError."""
        return generalized([body.terms for body in self.group], self)

    def function(self, name: str) -> tuple[Function, list[tuple[str, ...]]]:
        """The function, and what each role gives it."""
        terms = self.terms()
        first = self.group[0].arguments
        given = sorted(self.parameters, key=lambda names: [*first].index(names[0]))
        parameters = [(self.parameters[names], first[names[0]]) for names in given]
        arguments = [list(each) for each in zip(*given, strict=True)] or [[] for _ in self.group]
        if self.instance:
            parameters.append((self.instance, CONSTANT))
            for number, each in enumerate(arguments):
                each.append(str(number))
        words = wrap(self._described(), WIDTH - 4, break_on_hyphens=False)
        body: tuple[Node, ...] = (*(Line(code("{}", line)) for line in words), *terms)
        made = Function("@cute.jit", name, tuple(parameters), body)
        return made, [tuple(each) for each in arguments]

    def _described(self) -> str:
        warps = self.group[0].warps
        text = f"{warps} warp{'s' if warps > 1 else ''}"
        if self.group[0].teams > 1:
            text = f"{self.group[0].teams} teams of {text} take tiles in turn"
        if len(self.group) > 1:
            *roles, last = (body.role for body in self.group)
            text += f" each of {', '.join(roles)} and {last}"
        each = zip(*(body.operations for body in self.group), strict=True)
        return f'"""{text}: {" ".join(map(common_comment, each))}."""'

    # -- rules ---------------------------------------------------------------------------------

    def name(self, names: tuple[str, ...]) -> str:
        own = {name in mine for name, mine in zip(names, self.own, strict=True)}
        outside = {name in body.arguments for name, body in zip(names, self.group, strict=True)}
        equal = len(set(names)) == 1
        if len(own) > 1 or len(outside) > 1 or (not equal and own == outside):
            raise UnequalError(f"{names}")
        if outside == {True}:
            return self._parameter(names)
        return self._renamed(names) if own == {True} else names[0]

    def _parameter(self, names: tuple[str, ...]) -> str:
        if names not in self.parameters:
            types = {body.arguments[name] for name, body in zip(names, self.group, strict=True)}
            if len(types) > 1:
                raise UnequalError(f"{names} are {types}")
            self.parameters[names] = self._made(names)
        return self.parameters[names]

    def _renamed(self, names: tuple[str, ...]) -> str:
        """One variable of each role for each of the others."""
        if names not in self.renamed:
            for place, name in enumerate(names):
                if any(other[place] == name for other in self.renamed):
                    raise UnequalError(f"{name} is {names} and another")
            self.renamed[names] = self._made(names)
        return self.renamed[names]

    def _made(self, names: tuple[str, ...]) -> str:
        if len(set(names)) == 1:
            return names[0]
        made = distinct_name(common_name(names), self.taken)
        self.taken.add(made)
        return made

    def number(self, numbers: tuple[Number, ...]) -> Affine:
        step = progression(numbers)
        if step is None:
            raise UnequalError(f"{numbers}")
        if step and not self.instance:
            self.instance = distinct_name("instance", self.taken)
            self.taken.add(self.instance)
        return numbers[0].value.along(self.instance, step)

    def comment(self, comments: tuple[Code, ...]) -> Code:
        return code("{}", common_comment([written(comment) for comment in comments]))
