"""What a machine model says of an experiment: its kernel, and cycles per iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from schedgen.calibration.experiments import Experiment
from schedgen.driver.inputs import default_extents
from schedgen.driver.solution import Solution, solve
from schedgen.expressions import references
from schedgen.kernel import Kernel
from schedgen.machine import Constant, Machine
from schedgen.synchronize.pace import pace
from schedgen.synchronize.synthesize import synthesize


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles per iteration with all latencies at their low, and at their high ends."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def predicted(experiment: Experiment, machine: Machine) -> Predicted:
    """What the synchronized program takes, or what its busiest unit does if that is more.

    Raises:
        SpecError, Infeasible: the experiment has no schedule on the machine.
    """
    found: list[float] = []
    for end in ("low", "high"):
        solution = solution_of(experiment, at(machine, end))
        found.append(cycles(solution))
    return Predicted(found[0], found[1])


def cycles(solution: Solution) -> float:
    """Cycles per iteration of the program of a schedule, at the high end of its latencies."""
    program = synthesize(solution.problem.kernel, solution.schedule, solution.problem.machine)
    return max(pace(program).cycles, solution.schedule.lower_bound_cycles)


def solution_of(experiment: Experiment, machine: Machine) -> Solution:
    return solve(experiment.read(), machine, settings=experiment.settings, advise=False)


def at(machine: Machine, end: str) -> Machine:
    """The machine with the ``low`` or the ``high`` end of each constant."""
    numbers = {constant.name: getattr(constant, end) for constant in machine.constants}
    return with_constants(machine, numbers)


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
