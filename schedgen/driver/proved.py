"""A solved schedule with its program and proof: what `schedgen solve` hands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from schedgen.driver.checking import barrier_rows
from schedgen.driver.found import Solution
from schedgen.program.model import MEETINGS, Program
from schedgen.proof.prove import ProvenProgram, Refuted, prove
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.pace import Pace, pace
from schedgen.synchronize.synthesize import synthesize

QUICK = ("graph", "execution")
"""Methods that take less than a second or two; Z3 takes several."""


@dataclass(frozen=True)
class Proved:
    """A program, its proof, and its pace at the high and low end of the latencies."""

    proven: ProvenProgram
    pace: dict[str, Pace]
    seconds: float

    def extra(self) -> dict[str, Any]:
        """What `schedgen solve --json` adds to the schedule."""
        program = self.proven.program
        return {
            "proof": self.proven.proof.summary(),
            "barriers": [asdict(row) for row in barrier_rows(program)],
            "program_cycles": {end: at.cycles for end, at in self.pace.items()},
            "synchronize_seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """What `schedgen solve` prints about the program."""
        program, proof = self.proven.program, self.proven.proof
        orders = [barrier for barrier in program.barriers if barrier.kind == "pace"]
        barriers = [b for b in program.barriers if b.kind not in ("pace", *MEETINGS)]
        slots = sum(barrier.slots for barrier in barriers)
        kept = f", {len(orders)} to keep the order on {', '.join(program.paced)}" if orders else ""
        high = self.pace["high"]
        took = ", ".join(f"{v.method} {v.seconds:.2f} s" for v in proof.verdicts)
        return [
            f"  program      {len(barriers)} barriers in {slots} mbarriers{_meetings(program)}"
            f"{kept}, {len(program.removals)} orders that need none",
            f"  proof        race-free, deadlock-free, phase-safe for all trip counts, tiles and "
            f"latencies; {took}",
            f"  program runs {high.cycles:g} cycles per iteration with high latencies, "
            f"{self.pace['low'].cycles:g} with low ones",
        ]


@dataclass(frozen=True)
class Unproved:
    """A schedule without a proven program, and why. The schedule is what it is."""

    reason: str

    def extra(self) -> dict[str, Any]:
        """What `schedgen solve --json` adds to the schedule."""
        return {"proof": {"proven": False, "reason": self.reason}, "barriers": []}

    def lines(self) -> list[str]:
        """What `schedgen solve` prints about the program."""
        return [f"  program      NOT PROVEN: {self.reason}"]


def _meetings(program: Program) -> str:
    """How many there are, and at how many of these warps of several roles meet."""
    kinds = [barrier.kind for barrier in program.barriers if barrier.kind in MEETINGS]
    if not kinds:
        return ""
    several = f" ({kinds.count('roles')} of several roles)" if "roles" in kinds else ""
    return f", {len(kinds)} meeting{'s' if len(kinds) > 1 else ''} of warps{several}"


def attempt(
    solution: Solution, methods: tuple[str, ...] = QUICK, units: Sequence[str] = ()
) -> Proved | Unproved:
    """`prove_solution`, or why there is no proven program."""
    try:
        return prove_solution(solution, methods, units)
    except (ProgramError, Refuted) as error:
        return Unproved(str(error))


def prove_solution(
    solution: Solution, methods: tuple[str, ...] = QUICK, units: Sequence[str] = ()
) -> Proved:
    """Synchronizes the schedule of ``solution``, in its order on ``units``, and proves the
    program.

    Raises ProgramError (no barrier can order what has to be) or Refuted.
    """
    begin = perf_counter()
    problem = solution.problem
    program = synthesize(problem.kernel, solution.schedule, problem.machine, units)
    seconds = perf_counter() - begin
    proven = prove(program, methods, quick=methods == QUICK)
    return Proved(proven, {end: pace(program, end) for end in ("high", "low")}, seconds)
