"""What the machine model says a candidate takes for a shape, to put candidates in an order.

It is an order more than a prediction: every output tile needs all iterations, and a candidate that
has no program yet takes what no schedule of it can be faster than.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedgen.dependence import derive
from schedgen.driver.found import Infeasible
from schedgen.execution.launched import Tiles, Work, launched
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.program.model import Program
from schedgen.schedule import Schedule
from schedgen.solver.infeasible import too_much
from schedgen.solver.problem import build_problem
from schedgen.solver.search import arithmetic_bound
from schedgen.synchronize.pace import pace
from schedgen.tuning.shapes import tensor_bytes, tiles, trips


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles of an iteration, and of an output tile beside its iterations."""

    iteration: float
    tile: int = 0


def bound(kernel: Kernel, machine: Machine, latencies: str = "high") -> Pace:
    """What no schedule of ``kernel`` can be faster than.

    Raises ProblemError, CostError, ImpossibleCycle, Infeasible: it has no schedule on ``machine``.
    """
    problem = build_problem(kernel, machine, derive(kernel), latencies)
    excess = too_much(problem)
    if excess is not None:
        raise Infeasible(f"it needs more {excess.unit} than the {excess.room} that there are")
    return Pace(arithmetic_bound(problem).cycles)


def paced(schedule: Schedule, program: Program) -> Pace:
    """What a schedule takes as its program, which waits for more, with high latencies whatever it
    was solved for.
    """
    loop = schedule.tile
    iteration = max(schedule.lower_bound_cycles, pace(program).cycles)
    return Pace(iteration, max(0, loop.period_cycles - loop.floor_cycles))


def cycles(
    kernel: Kernel, takes: Pace, shape: Mapping[str, float], machine: Machine, sms: int
) -> float:
    """Cycles of a launch: output tiles in turns of one for each of the ``sms``, and all that is
    around them (`schedgen.execution.launched`).
    """
    work = Work(tiles(kernel, shape), trips(kernel, shape), sms, tensor_bytes(kernel, shape))
    return launched(Tiles(takes.iteration, takes.tile, takes.tile), kernel, machine, work)
