"""`schedgen emulate`: a generated kernel on the CPU, checked for results and races."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.comparing import Compared
    from schedgen.driver.emulating import Compiled, Outcome
    from schedgen.emulator.machine.policies import Policy
    from schedgen.kernel import Kernel
    from schedgen.stored import Store

CLEAN, WRONG, BAD_INPUT = 0, 1, 2

SCHEDULES = ("round-robin", "random", "adversarial")


@dataclass(frozen=True)
class Limits:
    """What one execution may take, by the names of the options; a kernel that takes more is taken
    to loop forever. None: the emulator's default.

    Attributes:
        limit: warp instructions.
        stall: seconds of processor time without progress.
        seconds: by the clock; None: any.
    """

    limit: int | None = None
    stall: float | None = None
    seconds: float | None = None

    def check(self) -> None:
        """Raises SchedgenError if one is not above 0, or is no number."""
        units = {"limit": "warp instructions", "stall": "seconds", "seconds": "seconds"}
        for name, value in asdict(self).items():
            if value is not None and not 0 < value < math.inf:
                raise SchedgenError(
                    f"--{name} {value:g}: write a number of {units[name]} above 0, or leave it away"
                )


def policies(schedule: str, seeds: int) -> Iterator[tuple[str, Policy]]:
    """Names and orders of execution to try."""
    from schedgen.emulator.machine.policies import Adversarial, RoundRobin, Seeded

    if schedule == "round-robin":
        yield schedule, RoundRobin()
        return
    for seed in range(seeds):
        made = Seeded(seed) if schedule == "random" else Adversarial(seed)
        yield f"{schedule}, seed {seed}", made


def run_emulate(
    spec: str,
    target: str,
    settings: dict[str, str],
    extents: dict[str, int],
    *,
    schedule: str,
    seeds: int,
    races: bool,
    banks: bool = False,
    switches: dict[str, str],
    limits: Limits,
    as_json: bool,
    compile_: bool = True,
    cache: bool = True,
    pace: tuple[str, ...] = (),
    style: tuple[str, ...] = (),
    progress: Callable[[str], None] | None = None,
) -> int:
    """Solves, proves, emits, compiles and executes; prints what was found. ``spec`` may be the file
    of a schedule, which is not solved again, or a generated file: then that is what is executed,
    and ``settings`` are those it was emitted with.

    Without ``compile_`` a spec's best schedule is executed, whatever the compiler says of it;
    without ``cache`` nothing is taken from earlier commands, or left for later ones.

    ``banks``: whether bank conflicts are counted, which executes everything twice.

    ``pace``: units on which roles are kept to the order of the schedule; ``style``: how it is
    written (`schedgen.codegen.style`).

    ``switches`` are readings of the ISA, by number or name: see docs/emulator.md. ``limits`` hold
    for each execution.

    Returns the exit status: 0 clean and correct, 1 wrong or racy, or nothing that could be emitted,
    2 bad input.
    """
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.emulating import compiled, generated_switches
    from schedgen.driver.found import Infeasible
    from schedgen.driver.inputs import default_extents
    from schedgen.emulator.machine.switches import chosen
    from schedgen.emulator.race.bank_text import bank_data, bank_lines
    from schedgen.proof.prove import Refuted
    from schedgen.stored import Store
    from schedgen.synchronize.build import ProgramError

    if schedule not in SCHEDULES:
        typer.echo(f"--schedule {schedule}: use {', '.join(SCHEDULES)}", err=True)
        return BAD_INPUT
    try:
        limits.check()
        readings = chosen(switches, generated_switches())
        if is_generated(spec):
            for option, given in (("pace", pace), ("style", style)):
                if given:
                    raise SchedgenError(
                        f"--{option} {given[0]}: {spec} is emitted already; give the spec or its "
                        "schedule"
                    )
            made_of = from_file(spec, target, settings)
        else:
            store = Store() if cache else None
            made_of = from_spec(
                spec, target, settings,
                compiled=compile_, store=store, pace=pace, style=style, progress=progress,
            )  # fmt: skip
        kernel, arch = made_of.kernel, made_of.arch
        default_extents(kernel, extents)
    except (Infeasible, ProgramError, Refuted) as error:
        typer.echo(str(error), err=True)
        return WRONG
    except EmitError as error:  # a file that is none is bad input
        typer.echo(str(error), err=True)
        return BAD_INPUT if is_generated(spec) else WRONG
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return error.status
    rows: list[dict[str, Any]] = []
    with compiled(
        made_of.text, kernel, arch, races=races, banks=banks, switches=readings, **asdict(limits)
    ) as made:
        for row in _executed(made, extents, policies(schedule, seeds)):
            rows.append(row)
            if not as_json:
                typer.echo("\n".join(_lines(row)))
                sys.stdout.flush()
    counts = made.banks
    if counts is not None and not as_json:
        typer.echo("\n".join(bank_lines(counts)))
    if as_json:
        data: dict[str, Any] = {
            "kernel": kernel.name,
            "target": made_of.target,
            "arch": arch,
            "limits": asdict(limits),
            **({} if counts is None else {"banks": bank_data(counts)}),
        }
        typer.echo(json.dumps(data | {"runs": rows}, indent=1))
    return WRONG if any(map(_wrong, rows)) else CLEAN


def _executed(
    made: Compiled, extents: Mapping[str, int], under: Iterable[tuple[str, Policy]]
) -> Iterator[dict[str, Any]]:
    """A row for each order of execution."""
    for name, policy in under:
        begin = perf_counter()
        try:
            outcome = made.run(extents, policy)
        except SchedgenError as error:
            taken = round(perf_counter() - begin, 2)
            yield {"schedule": name, "failure": str(error), "seconds": taken}
        else:
            yield _row(name, outcome, perf_counter() - begin)


def _wrong(row: Mapping[str, Any]) -> bool:
    return "failure" in row or not row["correct"] or bool(row["findings"])


@dataclass(frozen=True)
class Made:
    """The text of a generated file, what it should compute, and what it is for."""

    text: str
    kernel: Kernel
    arch: str
    target: str


def is_generated(spec: str) -> bool:
    """Whether it is a file that `schedgen emit` wrote, and no spec."""
    return spec.endswith(".py")


def from_spec(
    spec: str,
    target: str,
    settings: dict[str, str],
    *,
    compiled: bool = True,
    store: Store | None = None,
    pace: tuple[str, ...] = (),
    style: tuple[str, ...] = (),
    progress: Callable[[str], None] | None = None,
) -> Made:
    """A generated file: what `schedgen emit` writes for a spec or
    for the file of a schedule, which is taken as it is.
    """
    from schedgen.codegen.style import asked
    from schedgen.driver.proved import QUICK
    from schedgen.driver.restoring import is_schedule
    from schedgen.driver.selecting import selected

    look = compiled and not is_schedule(spec)
    emitted, _ = selected(
        spec, target or None, settings, progress,
        compiled=look, methods=QUICK, store=store, pace=pace, style=asked(style),
    )  # fmt: skip
    program = emitted.proven.program
    return Made(emitted.text, emitted.solution.problem.kernel, program.arch, program.target)


def from_file(path: str, target: str, settings: dict[str, str]) -> Made:
    """A generated file as it is, with what it should compute: the shipped spec that it names, with
    its settings.

    Raises SchedgenError if the file is none, or if the spec takes other arguments.
    """
    from schedgen.codegen.facts import read_facts
    from schedgen.driver.binding import kernels_of
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    facts = read_facts(Path(path))
    chosen = {**dict(facts.settings), **settings}
    spec = read_spec(facts.kernel)
    machine = read_machine(target or facts.machine)
    kernel = kernels_of(spec, machine, chosen)[0]
    wanted = {a.name: (a.passed, a.dtype) for a in kernel.arguments}
    found = {p.name: (p.extents, p.dtype) for p in facts.parameters}
    if wanted != found:
        differs = next(name for name in {**wanted, **found} if wanted.get(name) != found.get(name))
        raise SchedgenError(
            f"{path}: argument '{differs}' is {found.get(differs)}, but {wanted.get(differs)} in "
            f"{facts.kernel} with {chosen or 'its defaults'}; fix: --set what it was emitted with"
        )
    return Made(Path(path).read_text("utf-8"), kernel, facts.target, machine.name)


def _row(name: str, outcome: Outcome, seconds: float) -> dict[str, Any]:
    report = outcome.report
    return {
        "schedule": name,
        "extents": dict(outcome.extents),
        "correct": outcome.correct,
        "matches": outcome.matches,
        "errors": outcome.errors,
        "allowed": outcome.allowed,
        "results": {name: _result(result) for name, result in outcome.results.items()},
        "elements": [result.text(name) for name, result in outcome.results.items()],
        "reservations": outcome.reservations,
        "findings": None if report.findings is None else len(report.errors),
        "report": report.text,
        "warp_instructions": report.statistics.instructions,
        "asynchronous_operations": report.statistics.operations,
        "seconds": round(seconds, 2),
    }


def _result(result: Compared) -> dict[str, Any]:
    """How a tensor compares with the reference, as data; numbers as text, which may be NaN."""
    worst = result.worst
    numbers = {} if worst is None else {k: str(getattr(worst, k)) for k in ("found", "wanted")}
    return {
        "elements": result.elements,
        "differ": result.differ,
        "nan": result.nan,
        "nan_wanted": result.nan_wanted,
        "unknown": result.unknown,
        "worst": None if worst is None else {"at": list(worst.at), **numbers},
    }


def _lines(row: dict[str, Any]) -> Iterator[str]:
    if "failure" in row:
        yield f"{row['schedule']}: FAILED"
        yield from (f"  {line}" for line in row["failure"].splitlines())
        return
    sizes = " ".join(f"{name}={size}" for name, size in row["extents"].items())
    races = {None: "races not checked", 0: "no races"}.get(
        row["findings"], f"{row['findings']} RACES"
    )
    verdict = (
        "correct" if row["correct"] else "AS THE SPEC SAYS, BUT" if row["matches"] else "WRONG"
    )
    yield f"{row['schedule']}: {verdict}, {races}"
    yield f"  {sizes}"
    yield from (f"  {line}" for line in (*row["elements"], *row["reservations"]))
    yield (
        f"  {row['warp_instructions']} warp instructions, {row['asynchronous_operations']} "
        f"asynchronous operations, {row['seconds']} s"
    )
    yield from (f"  {line}" for line in row["report"].splitlines())
