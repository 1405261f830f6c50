"""`schedgen solve`: schedule, certificate, synchronized program, proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from schedgen.cli.common import INFEASIBLE, PROVEN, UNPROVEN, Ticker, fail, settings_of, write
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.driver.found import Solution
    from schedgen.driver.proved import Proved, Unproved


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of ``schedgen solve``, as they were given."""

    settings: list[str]
    latencies: str
    time_limit: float | None
    confirm: bool
    explain: bool
    output: Path | None
    program: Path | None
    as_json: bool
    pace: tuple[str, ...] = ()


def run_solve(spec: str, target: str | None, wanted: Wanted) -> int:
    """Solves ``spec``, writes what is wanted and prints the result.

    Returns the exit status: 0 solved and proven, 3 not proven. Ends the command with 1 if there is
    no schedule, 2 on bad input, 3 without a schedule in time.
    """
    from schedgen.driver.proved import Proved

    if wanted.latencies not in ("low", "high"):
        fail(f"--latencies {wanted.latencies}: use low or high")
    solution, proved = _solved(spec, target, wanted)
    _write(solution, proved, wanted)
    _print(solution, proved, wanted)
    proven = solution.schedule.proven_optimal and isinstance(proved, Proved)
    return PROVEN if proven else UNPROVEN


def _solved(spec: str, target: str | None, wanted: Wanted) -> tuple[Solution, Proved | Unproved]:
    from schedgen.driver.found import Infeasible, OutOfTime
    from schedgen.driver.proved import QUICK, attempt
    from schedgen.driver.solution import solve
    from schedgen.machine_file import read_machine
    from schedgen.proof.prove import METHODS
    from schedgen.spec.reader import read_spec

    try:
        read = read_spec(spec)
        machine = read_machine(target or read.file.targets[0])
        with Ticker() as ticker:
            solution = solve(
                read,
                machine,
                settings=settings_of(wanted.settings),
                latencies=wanted.latencies,
                time_limit=wanted.time_limit,
                confirm=wanted.confirm,
                explain=wanted.explain,
                progress=ticker,
            )
            ticker("proving the program")
            methods = METHODS if wanted.confirm else QUICK
            return solution, attempt(solution, methods, wanted.pace)
    except (Infeasible, OutOfTime) as error:
        fail(str(error), INFEASIBLE if isinstance(error, Infeasible) else UNPROVEN)
    except SchedgenError as error:
        fail(str(error), error.status)


def _write(solution: Solution, proved: Proved | Unproved, wanted: Wanted) -> None:
    """The files that were asked for; a program only if it is proven."""
    from schedgen.driver.proved import Proved
    from schedgen.program.file import to_json

    if wanted.output is not None:
        write(wanted.output, solution.schedule.to_json())
    if wanted.program is not None:
        if not isinstance(proved, Proved):
            fail(f"{wanted.program} is not written: {proved.reason}", UNPROVEN)
        proof = proved.proven.proof.summary()
        write(wanted.program, to_json(proved.proven.program, proof={**proof, "seconds": None}))


def _print(solution: Solution, proved: Proved | Unproved, wanted: Wanted) -> None:
    from schedgen.visualize.summary import summary

    schedule = solution.schedule
    if not wanted.as_json:
        text = summary(schedule, solution.seconds, solution.explanation, proved.lines())
        typer.echo(text)
        return
    extra: dict[str, Any] = {"solve_seconds": round(solution.seconds, 3), **proved.extra()}
    if wanted.explain:
        extra["explanation"] = list(solution.explanation)
    typer.echo(schedule.to_json(**extra), nl=False)
