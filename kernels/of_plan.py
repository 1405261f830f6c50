"""A plan of several kernels as a function of torch tensors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from torch import Tensor

from schedgen.codegen.facts import Parameter
from schedgen.kernels import operators, plans
from schedgen.kernels.of_spec import (
    Settings,
    SpecKernel,
    fits,
    schema_of,
    spec_kernel,
    target_of_gpu,
    whole,
    worded,
)
from schedgen.kernels.operators import Operator
from schedgen.tensors import Argument

if TYPE_CHECKING:
    from schedgen.driver.plan_model import BoundCall, BoundPlan

log = logging.getLogger("schedgen.kernels")

_SHOWN = 16


class PlanKernel:
    """A plan's kernels, called one after the other, as one function; `schedgen.kernels.kernel`
    makes one.

    It takes tensors and numbers, by position in the order of ``inputs`` or by name, and returns
    what the plan declares of what its kernels compute, in the order of ``outputs``: one tensor, or
    a tuple. It is an operator of torch with a fake implementation, so torch.compile takes it, and
    repeated calls are one plan on the host, see docs/adr/0017.

    Attributes:
        name: what the plan is called.
        inputs: arguments, tensors first.
        outputs: results.
        kernels: what is called, in this order.
    """

    def __init__(self, bound: BoundPlan, kernels: Sequence[SpecKernel]) -> None:
        self.name, self.kernels = bound.name, tuple(kernels)
        self.inputs = tuple(map(_parameter, bound.inputs))
        self.outputs = tuple(map(_parameter, bound.results))
        self._calls = tuple(
            _Call.of(call, kernel) for call, kernel in zip(bound.calls, kernels, strict=True)
        )
        self._operator = self._define(bound)

    def __call__(self, *arguments: Tensor | float, **named: Tensor | float) -> Any:
        """Runs the kernels on the current stream of the tensors' GPU.

        Raises what `SpecKernel` raises.
        """
        names = [parameter.name for parameter in self.inputs]
        given = operators.in_order(names, arguments, named)
        by = self._operator if plans.current() is None else self._operator.in_python
        return by(*given)

    def __repr__(self) -> str:
        arguments, results = (
            ", ".join(parameter.name for parameter in side) for side in (self.inputs, self.outputs)
        )
        called = ", ".join(kernel.facts.kernel for kernel in self.kernels)
        return f"<plan {self.name} of {called}: ({arguments}) -> {results}>"

    def _define(self, bound: BoundPlan) -> Operator:
        """The operator, named by what is called and handed on."""
        files = [kernel.facts.sha256 for kernel in self.kernels]
        digest = sha256(f"{files}{bound}".encode()).hexdigest()[:_SHOWN]
        name = f"{self.name}_{self.kernels[0].facts.target}_{digest}"
        found = operators.defined(name)
        if found is not None:
            return found
        schema = schema_of(name, self.inputs, (), len(self.outputs))
        return Operator(schema, self._run, self._fake, anew=whole(self.inputs))

    def _run(self, *arguments: Any) -> Any:
        return self._called(arguments, SpecKernel.computed)

    def _fake(self, *arguments: Any) -> Any:
        return self._called(arguments, SpecKernel.fake)

    def _called(self, arguments: Sequence[Any], by: Callable[..., Any]) -> Any:
        """The results, each kernel called ``by`` this."""
        extents: dict[str, int] = {}
        for parameter, argument in zip(self.inputs, arguments, strict=True):
            if parameter.extents:
                fits(parameter, argument, extents)
        values = {p.name: a for p, a in zip(self.inputs, arguments, strict=True)}
        for call in self._calls:
            found = by(call.kernel, *call.given(values, extents))
            returned = (found,) if isinstance(found, Tensor) else found
            values |= dict(zip(call.results, returned, strict=True))
        results = tuple(values[parameter.name] for parameter in self.outputs)
        return results[0] if len(results) == 1 else results


@dataclass(frozen=True, slots=True)
class _Call:
    """A kernel, names of what it takes with a factor for numbers, sizes, and names of results."""

    kernel: SpecKernel
    takes: tuple[tuple[str, float | int | None], ...]
    sizes: tuple[str | int, ...]
    results: tuple[str, ...]

    @staticmethod
    def of(call: BoundCall, kernel: SpecKernel) -> _Call:
        tensors, numbers = dict(call.tensors), dict(call.numbers)
        sizes, results = dict(call.sizes), dict(call.results)
        takes: list[tuple[str, float | int | None]] = []
        for one in kernel.inputs:
            if one.extents:
                takes.append((tensors[one.name], None))
            else:
                number = numbers[one.name]
                factor = int(number.factor) if one.whole else float(number.factor)
                takes.append((number.name, factor))
        named = tuple(results[one.name] for one in kernel.outputs)
        return _Call(kernel, tuple(takes), tuple(sizes[e] for e in kernel.free), named)

    def given(self, values: Mapping[str, Any], extents: Mapping[str, int]) -> Iterator[Any]:
        """The arguments of the kernel."""
        for name, factor in self.takes:
            if factor is None or not name:
                yield values[name] if name else factor
            else:  # of a plan of calls only such a product is taken from each call anew
                yield values[name] if factor == 1 else values[name] * factor
        yield from (extents[size] if isinstance(size, str) else size for size in self.sizes)


def plan_kernel(
    name: str, settings: Settings, target: str | None = None, *, pace: Sequence[str] = ()
) -> PlanKernel:
    """The function of the plan ``name``; ``pace`` is of each of its kernels.

    Raises what `schedgen.kernels.kernel` raises.
    """
    from schedgen.driver.plan import bind_plan
    from schedgen.machine_file import read_machine
    from schedgen.spec.plan import read_plan

    read = read_plan(name)
    machine = read_machine(target or target_of_gpu(read.file.plan, read.file.targets))
    bound = bind_plan(read, machine, worded(settings))
    kernels: list[SpecKernel] = []
    for number, call in enumerate(bound.calls, 1):
        log.info("%s: kernel %d of %d, %s", bound.name, number, len(bound.calls), call.spec)
        place = target or machine.name
        kernels.append(spec_kernel(call.spec, dict(call.settings), place, pace=pace))
    with _making:
        return _function(bound, tuple(kernels))


_making = threading.Lock()


@lru_cache(maxsize=256)
def _function(bound: BoundPlan, kernels: tuple[SpecKernel, ...]) -> PlanKernel:
    return PlanKernel(bound, kernels)


def _parameter(argument: Argument) -> Parameter:
    return Parameter(argument.name, argument.passed, argument.dtype)
