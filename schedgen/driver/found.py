"""What solving finds, or why it finds nothing."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.errors import SchedgenError
from schedgen.schedule import Schedule
from schedgen.solver.problem import Problem


class Infeasible(SchedgenError):
    """No schedule exists; the message names the constraint and the smallest change to mend it."""

    status = 1


class OutOfTime(SchedgenError):
    """The time limit ended before any schedule was found."""

    status = 3


@dataclass(frozen=True)
class Solution:
    """A schedule, how long the search took, and the problem that it solves."""

    schedule: Schedule
    problem: Problem
    seconds: float
    explanation: tuple[str, ...] = ()
