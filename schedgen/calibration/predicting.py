"""What a machine model says of an experiment: its kernel, and cycles per iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from schedgen.calibration.experiments import Experiment
from schedgen.driver.inputs import default_extents
from schedgen.driver.solution import Solution, solve
from schedgen.execution.contended import cycles_per_iteration
from schedgen.expressions import references
from schedgen.kernel import Kernel
from schedgen.machine import Constant, Machine
from schedgen.synchronize.synthesize import synthesize


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles per iteration of a program whose roles share units in turn, and in step
    (`schedgen.execution.contended`), all constants at the middle of their intervals.
    """

    in_turn: float
    in_step: float

    @property
    def middle(self) -> float:
        """Nothing keeps roles to either end: what is expected lies between them."""
        return (self.in_turn + self.in_step) / 2


def solved(experiment: Experiment, machine: Machine) -> Solution:
    """The schedule whose kernel is measured: that of ``machine`` at the high end of its latencies.

    Raises:
        SpecError, Infeasible: the experiment has no schedule on it.
    """
    return solve(experiment.read(), machine, settings=experiment.settings, advise=False)


def predicted(solution: Solution, machine: Machine, pace: Sequence[str] = ()) -> Predicted:
    """What the program of a schedule takes with the prices of ``machine``, its roles kept to their
    order on the units ``pace``.

    Operations with a condition count for nothing: they are there for what seldom happens.

    Raises:
        ProgramError: roles cannot be kept to their order on one of ``pace``.
        SchedgenError: ``machine`` does not price one of its operations.
    """
    kernel, exact = solution.problem.kernel, middles(machine)
    program = synthesize(kernel, solution.schedule, exact, pace)
    seldom = {operation.name for operation in kernel.operations if operation.when is not None}
    turn, step = (
        cycles_per_iteration(program, exact, manner, without=seldom)
        for manner in ("in turn", "in step")
    )
    return Predicted(turn, step)


def middles(machine: Machine) -> Machine:
    """The machine with each constant at the middle of its interval."""
    return with_constants(machine, {c.name: (c.low + c.high) / 2 for c in machine.constants})


def with_constants(machine: Machine, numbers: Mapping[str, Fraction]) -> Machine:
    """The machine with other values of some constants."""

    def changed(constant: Constant) -> Constant:
        number = numbers.get(constant.name)
        return constant if number is None else replace(constant, low=number, high=number)

    return replace(machine, constants=tuple(map(changed, machine.constants)))


def extents(kernel: Kernel, trips: int) -> dict[str, int]:
    """Sizes of tensors for one output tile of so many iterations."""
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    blocks = {axis.extent: axis.block for axis in kernel.grid}
    fixed = dict(kernel.parameters)
    walked = {n.name for n in references(kernel.trip_count)} if kernel.trip_count else set[str]()
    found = default_extents(kernel, {})
    for name in found:
        if name in walked:
            found[name] = trips * steps.get(name, 1)
        elif name in blocks and name not in fixed:
            found[name] = blocks[name]
    return found
