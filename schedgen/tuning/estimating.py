"""What the machine model says a candidate takes for a shape, to put candidates in an order.

It is an order, not a prediction: every output tile needs all iterations, and what the SMs share is
one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedgen.dependence import derive
from schedgen.driver.found import Infeasible
from schedgen.kernel import Kernel, Kind
from schedgen.machine import Machine
from schedgen.program.model import Program
from schedgen.schedule import Schedule
from schedgen.solver.infeasible import too_much
from schedgen.solver.problem import build_problem
from schedgen.solver.search import arithmetic_bound
from schedgen.synchronize.pace import pace
from schedgen.tuning.shapes import tiles, trips

LOADED = 48
"""Bytes that an SM loads in a cycle while all of them do. A machine model is of one SM and does not
have it; products on an H200 were at 37 (output tiles of 128 x 256) to 63 (64 x 128), by the cycles
of `schedgen.kernels.tiling.MEASURED`. It tells large tiles from small ones, and no more."""


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


def cycles(kernel: Kernel, takes: Pace, shape: Mapping[str, float], sms: int) -> float:
    """Cycles of a launch: output tiles in turns of one for each of the ``sms``."""
    turns = -(-tiles(kernel, shape) // sms)
    loaded = sum(o.work.bytes for o in kernel.body if o.kind is Kind.LOAD)
    iteration = max(takes.iteration, loaded / LOADED)
    return turns * (trips(kernel, shape) * iteration + takes.tile)
