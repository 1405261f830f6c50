"""Equal roles of neighbouring warpgroups as one branch of the kernel: their warps execute the same
machine code, and compute what differs from which of the roles they are.

In a branch each, the compiler makes a copy of the function for each of them. Loops of two or three
copies do not stay in the instruction caches of an SM: in attention 2 to 4 % of the time of warps on
an H200 went by without their next instruction (docs/adr/0019).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.generalize import common_name, distinct_name
from schedgen.codegen.ir import Code, Function, Piece, called, code, own, walk
from schedgen.codegen.merging import CONSTANT, Call
from schedgen.codegen.numbers import Affine, Number, progression
from schedgen.codegen.plan import View
from schedgen.codegen.source import Source
from schedgen.codegen.style import INSTANCE
from schedgen.layouts import DTYPE_BITS

PLACE = "place"
"""The function of the library for an address that depends on the role."""
_ALIGNED = 1024
"""Bytes to which tiles of shared memory are aligned."""
_KNOWN_BEFORE = re.compile(
    r"range_constexpr\(|make_rmem_tensor\(|make_layout\(|const_expr\(|part_of\("
)
"""Where the compiler has to know a number."""

Made = Mapping[str, View | int]
"""Variables of the kernel by what they are made of: views of shared memory, and pointers to the
first of a barrier's words."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One call for several roles.

    Attributes:
        function: what is called.
        definitions: variables of the branch, with their values, in order.
        arguments: of the call.
        instance: the variable that says which of the roles it is.
    """

    function: str
    definitions: tuple[tuple[str, Code], ...]
    arguments: tuple[str, ...]
    instance: str


def shared(
    calls: Sequence[Call], functions: Mapping[str, Function], made: Made, taken: set[str]
) -> Shared | None:
    """One call for those of several roles, ``taken`` are names that it may not use; None if there
    is none: they call several functions, or something that differs does not grow by the same from
    role to role, or has to be known when the function is compiled.
    """
    names = {call.function for call in calls}
    if len(calls) < 2 or len(names) > 1:
        return None
    function = functions[names.pop()]
    numbered = calls[0].numbered
    if numbered and _known_before(function):
        return None
    instance = distinct_name("instance", taken)
    definitions: dict[str, Code] = {}
    arguments: list[str] = []
    given = [*zip(*(call.arguments for call in calls), strict=True)]
    for values in given[:-1] if numbered else given:
        if len(set(values)) == 1:
            arguments.append(values[0])
            continue
        joint = _joint([made.get(value) for value in values], instance)
        if joint is None:
            return None
        name = distinct_name(common_name(values), {*taken, *definitions})
        definitions[name] = joint
        arguments.append(name)
    arguments += [instance] if numbered else []
    return Shared(function.name, tuple(definitions.items()), tuple(arguments), instance)


def as_variable(function: Function) -> Function:
    """The function of a shared call: it learns when it runs which of the roles it is."""
    *others, (name, kind) = function.parameters
    if kind != CONSTANT:
        return function
    return replace(function, parameters=(*others, (name, "Int32")))


def write(source: Source, call: Shared, first: int, roles: Sequence[str]) -> None:
    """Its lines in the branch of warps from ``first`` on."""
    *some, last = roles
    source.comment(f"{', '.join(some)} and {last}, in the same instructions")
    source.add(code(f"{call.instance} = {{}}", called(INSTANCE, "warp", first)))
    for name, value in call.definitions:
        source.add(code("{} = {}", name, value))
    source.call(call.function, call.arguments)


def _known_before(function: Function) -> bool:
    """Whether the compiler has to know which of the roles a function is for."""
    name = function.parameters[-1][0]
    return any(
        _KNOWN_BEFORE.search("".join(part for part in each.parts if isinstance(part, str)))
        for node in walk(function.body)
        for each in own(node)
        if any(isinstance(v, Number) and dict(v.value.terms).get(name) for v in each.values)
    )


def _joint(values: Sequence[View | int | None], instance: str) -> Code | None:
    """What each of the roles has, as one value."""
    first = values[0]
    if isinstance(first, int):
        words = [value for value in values if isinstance(value, int)]
        at = _along(words, instance) if len(words) == len(values) else None
        return None if at is None else code("barriers + {}", at)
    views = [value for value in values if isinstance(value, View)]
    if first is None or len(views) < len(values):
        return None
    if any(replace(view, name=first.name, address=first.address) != first for view in views):
        return None
    addresses = [view.address for view in views]
    at = _along(addresses, instance)
    if at is None:
        return None
    aligned = gcd(_ALIGNED, *addresses)
    return view_at(first, called(PLACE, "shared", at, str(aligned)))


def _along(numbers: Sequence[int], instance: str) -> Number | None:
    values = [Number(Affine(number)) for number in numbers]
    step = progression(values)
    return None if step is None else Number(values[0].value.along(instance, step))


def view_at(view: View, pointer: Piece) -> Code:
    """A view as an expression."""
    dtype = DTYPES[view.dtype]
    if view.vector:
        stride = view.stride * 8 // DTYPE_BITS[view.dtype]
        sizes = f"{view.rows * view.columns}, {view.slots}, {stride}"
        return called("vectors_at", pointer, sizes, dtype)
    if view.slots > 1 and view.stride != view.rows * view.row_bytes:
        # Tiles of another shape share the slots.
        stride = view.stride * 8 // DTYPE_BITS[view.dtype]
        sizes = f"{view.rows}, {view.columns}, {view.slots}, {stride}"
        return called("tiles_apart", pointer, sizes, dtype)
    sizes = f"{view.rows}, {view.columns}, {view.slots}"
    return called("tiles_at", pointer, sizes, dtype)
