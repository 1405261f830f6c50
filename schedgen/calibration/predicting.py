"""What a machine model says of an experiment: its kernel, and cycles per iteration, output tile or
launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.sizing import Sized, increase, sized
from schedgen.driver.solution import Solution, solve
from schedgen.execution.contended import cycles_per_iteration
from schedgen.execution.issuing import issued
from schedgen.execution.launched import SHARED, Tiles, alone, launched
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.machine_constants import middles
from schedgen.program.model import Program
from schedgen.synchronize.synthesize import synthesize

STEP_SHARE = 1 / 3
"""How far from in turn to in step programs are that share units: fitted to all shipped kernels for
attention (`benchmarks/results/shipped.json`), to the nearest third."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Cycles per iteration of a program whose roles share units in turn, and in step
    (`schedgen.execution.contended`), all constants at the middle of their intervals.
    """

    in_turn: float
    in_step: float

    @property
    def expected(self) -> float:
        """Nothing keeps roles to either end: what is expected lies between them."""
        return self.in_turn + STEP_SHARE * (self.in_step - self.in_turn)


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
    kernel = solution.problem.kernel
    program = synthesize(kernel, solution.schedule, middles(machine), pace)
    return of_program(program, kernel, machine)


def of_program(program: Program, kernel: Kernel, machine: Machine) -> Predicted:
    """The same of a program of ``kernel``. Raises SchedgenError: as `predicted`."""
    exact = middles(machine)
    program = issued(program, kernel, exact)
    seldom = {operation.name for operation in kernel.operations if operation.when is not None}
    turn, step = (
        cycles_per_iteration(program, exact, manner, without=seldom)
        for manner in ("in turn", "in step")
    )
    return Predicted(turn, step)


Known = dict[tuple[object, ...], Tiles]
"""What programs take on one SM, by experiment, by how units are shared, and by prices."""


def said(
    one: Experiment, solution: Solution, machine: Machine, known: Known | None = None
) -> Predicted:
    """What ``machine`` says of an experiment: cycles of an iteration, of an output tile or of a
    launch, whichever there is more of in its long run. What is ``known`` is not computed again.

    Raises SchedgenError: see `predicted`.
    """
    if not one.whole:
        return predicted(solution, machine, one.pace)
    runs = sized(one, solution.problem.kernel)
    known = {} if known is None else known
    turn, step = (
        _more(one, solution, machine, manner, runs, known) for manner in ("in turn", "in step")
    )
    return Predicted(turn, step)


def _more(
    one: Experiment,
    solution: Solution,
    machine: Machine,
    manner: Literal["in turn", "in step"],
    runs: tuple[Sized, Sized],
    known: Known,
) -> float:
    """Cycles by which the long run is longer, for each iteration, output tile or launch."""
    loads = "busy" if one.manner.beside else "far" if one.manner.cold else "near"
    prices = tuple((c.low, c.high) for c in machine.constants if c.name not in SHARED)
    key = one.name, manner, prices
    tiles = known[key] = known.get(key) or tiles_alone(solution, machine, manner, loads, one.pace)
    kernel = solution.problem.kernel
    short, long = (run.launches * launched(tiles, kernel, machine, run.work) for run in runs)
    return (long - short) / increase(one, *runs)


def tiles_alone(
    solution: Solution,
    machine: Machine,
    manner: Literal["in turn", "in step"],
    loads: Literal["near", "far", "busy"] = "near",
    pace: Sequence[str] = (),
) -> Tiles:
    """What a schedule's program takes on one SM, see `schedgen.execution.launched.alone`."""
    kernel, exact = solution.problem.kernel, middles(machine)
    program = synthesize(kernel, solution.schedule, exact, pace)
    seldom = {operation.name for operation in kernel.operations if operation.when is not None}
    return alone(issued(program, kernel, exact), exact, manner, seldom, loads)
