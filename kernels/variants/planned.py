"""Calls of variants as planned operators.

Which tensors a kernel is passed for expressions, how they are converted, and whether all of that
fits together, follows from the signature of a call. So what is asked for is an operator of its own
(`schedgen.kernels.operators`): a call with a signature that was seen before costs what a call of a
shipped kernel costs, and a look at the expressions' text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from torch import Tensor
from torch.compiler import is_compiling

from schedgen.kernels import operators
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants.calling import Asked, Given

Named = Mapping[str, Any]
"""Arguments of a call by name: tensors, integers and floats."""
Results = tuple[Tensor, ...]
_SHOWN = 16
_GIVEN, _SINKS = "given ", "sinks"
"""What names of tensors and numbers of expressions begin with, and that of sinks, in a call."""


@dataclass(frozen=True, slots=True)
class Function:
    """What variants of one spec are called by.

    Attributes:
        name: what its operators are called by.
        compute: results for a variant and arguments; its checks are made once for a signature.
        room: what it returns, without values.
        results: how many tensors that are.
    """

    name: str
    compute: Callable[[Asked, Named], Results]
    room: Callable[[Named], Results]
    results: int = 2


def of_caller(sinks: Tensor | None, given: Given) -> dict[str, Any]:
    """What callers pass beside operands, named so that it cannot be taken for these."""
    found = {_GIVEN + name: value for name, value in given.items()}
    return found if sinks is None else {_SINKS: sinks, **found}


def from_caller(named: Named) -> tuple[Tensor | None, dict[str, Any]]:
    """The opposite of `of_caller`, of all arguments of a call."""
    given = {n.removeprefix(_GIVEN): x for n, x in named.items() if n.startswith(_GIVEN)}
    return named.get(_SINKS), given


def call(function: Function, wanted: Asked, named: Named) -> Results:
    """What ``function`` computes: as planned, where torch has nothing to know of its tensors.

    Raises what it raises.
    """
    arguments = tuple(named.values())
    if is_compiling() or not operators.plain(arguments):
        return function.compute(wanted, named)
    takes = tuple((name, _kind(value)) for name, value in named.items())
    return _operator(function, wanted, takes)(*arguments)


def _kind(value: object) -> str:
    return "Tensor" if isinstance(value, Tensor) else "int" if isinstance(value, int) else "float"


@cache
def _operator(function: Function, wanted: Asked, takes: tuple[tuple[str, str], ...]) -> Operator:
    """The operator of calls with arguments of these names and types."""
    digest = sha256(repr((wanted, takes)).encode()).hexdigest()[:_SHOWN]
    names = [name for name, _ in takes]

    def compute(*arguments: Any) -> Results:
        return function.compute(wanted, dict(zip(names, arguments, strict=True)))

    def room(*arguments: Any) -> Results:
        return function.room(dict(zip(names, arguments, strict=True)))

    schema = ", ".join(f"{kind} a{number}" for number, (_, kind) in enumerate(takes))
    name = f"{function.name}_{digest}"
    returns = ", ".join(["Tensor"] * function.results)
    return Operator(f"{name}({schema}) -> ({returns})", compute, room)
