"""How many of the fastest schedules of the published FlashAttention-4 graph are wrong.

    python benchmarks/fa4_unit.py [--save]

The graph has 14 operations of one cycle on five units and 28 dependences, none of which protects
tensor memory. Plain backtracking lists every schedule of at most two stages (start times 0 to 7).
Wrong are those in which the next QK overwrites P before PV has read it, or S before EXP has; the
checker of concrete schedules, which knows no dependence edges, must reject exactly those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from report import keep, table

from schedgen.dependence import derive
from schedgen.machine_file import read_machine
from schedgen.solver.decisions import Decisions
from schedgen.solver.enumerate import enumerate_schedules
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

STAGES = 2


@dataclass(frozen=True)
class Count:
    """Schedules at one II, and those that overwrite P, S, or that the checker rejects."""

    ii: int
    schedules: int
    overwrite_p: int
    overwrite_s: int
    rejected: int
    seconds: float

    def row(self, graph: str) -> dict[str, object]:
        """This count as a line of the table."""
        return {
            "dependences": graph,
            "II": self.ii,
            "stages": STAGES,
            "schedules": self.schedules,
            "PV reads overwritten P": self.overwrite_p,
            "EXP reads overwritten S": self.overwrite_s,
            "rejected by verify": self.rejected,
            "s": round(self.seconds, 2),
        }


def unit_problem(*, hazards: bool) -> Problem:
    """The published graph, with or without the reuse of tensor memory."""
    spec = read_spec("fa4_unit")
    settings = {"tmem_hazards": "true" if hazards else "false"}
    kernel = bind(spec.source, spec.file, "abstract", settings)[0]
    return build_problem(kernel, read_machine("abstract"), derive(kernel))


def too_late(schedules: Sequence[Decisions], reader: str, writer: str = "QK") -> int:
    """Schedules in which, for a tile, ``writer`` of the next iteration comes before ``reader``."""

    def early(ii: int, start: Mapping[str, int]) -> bool:
        return any(start[f"{writer}[{i}]"] + ii <= start[f"{reader}[{i}]"] for i in range(2))

    return sum(early(made.ii, made.start) for made in schedules)


def count(problem: Problem, judge: Problem, ii: int) -> Count:
    """Enumerates ``problem`` and lets ``judge``, which has all hazards, say what is wrong."""
    begin = perf_counter()
    schedules = list(enumerate_schedules(problem, ii, STAGES))
    seconds = perf_counter() - begin
    rejected = sum(bool(verify(judge, made)) for made in schedules)
    late = [too_late(schedules, reader) for reader in ("PV", "EXP")]
    return Count(ii, len(schedules), late[0], late[1], rejected, seconds)


def main() -> None:
    """Prints the counts at II 3 and 4."""
    judge = unit_problem(hazards=True)
    graphs = {"as published": unit_problem(hazards=False), "with tensor memory": judge}
    rows = [
        count(problem, judge, ii).row(name) for name, problem in graphs.items() for ii in (3, 4)
    ]
    print(table(rows))
    keep("fa4_unit", rows)


if __name__ == "__main__":
    main()
