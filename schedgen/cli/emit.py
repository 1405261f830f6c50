"""`schedgen emit` and `schedgen compile`: kernels as files, and what they take of a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import typer

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.driver.emitting import Emission
    from schedgen.driver.selecting import Attempt

DONE, REFUSED, BAD_INPUT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of ``schedgen emit``: a kernel that the compiler accepts (``compiled``; None: if
    there is one), one that records ``events``, where its ``schedule`` is to be written, whether to
    ``cache``, units on which roles keep their order (``pace``), how it is written (``style``).
    """

    compiled: bool | None
    events: bool
    as_json: bool
    schedule: Path | None = None
    cache: bool = True
    conform: bool = True
    pace: tuple[str, ...] = ()
    style: tuple[str, ...] = ()


def run_emit(
    spec: str,
    target: str | None,
    settings: Mapping[str, str],
    folder: Path,
    write: Callable[[Path, str], None],
    progress: Callable[[str], None],
    wanted: Wanted,
) -> int:
    """Writes the kernel of ``spec``, a spec or the file of a schedule, into ``folder``.

    Returns the exit status: 0 written, 1 there is no schedule, no proof, it spills or is not its
    program, 2 bad input.
    """
    from schedgen.codegen.compiling import packages
    from schedgen.codegen.errors import EmitError
    from schedgen.codegen.style import asked
    from schedgen.driver.found import Infeasible
    from schedgen.driver.selecting import selected
    from schedgen.proof.prove import Refuted
    from schedgen.stored import Store
    from schedgen.synchronize.build import ProgramError

    try:
        emitted, attempts = selected(
            spec,
            target,
            settings,
            progress,
            events=wanted.events,
            compiled=bool(packages()) if wanted.compiled is None else wanted.compiled,
            conform=wanted.conform and not wanted.events,  # no step of a program stores clocks
            store=Store() if wanted.cache else None,
            pace=wanted.pace,
            style=asked(wanted.style),
        )
        folder.mkdir(parents=True, exist_ok=True)
    except (Infeasible, ProgramError, Refuted, EmitError) as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return error.status
    except OSError as error:
        typer.echo(f"{folder}: {error.strerror}", err=True)
        return BAD_INPUT
    path = folder / emitted.name
    if wanted.schedule is not None:
        write(wanted.schedule, emitted.solution.schedule.to_json())
    write(path, emitted.text)
    if wanted.as_json:
        typer.echo(json.dumps(_emitted_data(path, emitted, attempts), indent=1))
    else:
        typer.echo("\n".join(_emitted_text(path, emitted, attempts)))
    return DONE


def run_compile(
    path: Path,
    target: str | None,
    folder: Path | None,
    as_json: bool,
    *,
    conform: bool = True,
    allow: frozenset[str] = frozenset(),
    spec: str | None = None,
    cache: bool = True,
) -> int:
    """Compiles the generated file ``path``, prints what the kernel takes, and compares its PTX with
    its program if ``conform``. ``allow``: kinds of problems that are none. ``spec`` is the
    file of its spec, which has to be given to compare it with a program if it is not a shipped one.
    ``cache``: what was solved before is not solved again.

    Returns the exit status: 0 acceptable, 1 it does not compile, spills, takes too much memory, or
    is not what its program says, 2 bad input.
    """
    from schedgen.codegen.compiling import CompileError
    from schedgen.codegen.facts import read_facts
    from schedgen.codegen.report import compile_report
    from schedgen.conform.report import compared, data, lines
    from schedgen.driver.deriving import Underivable, UnknownSpec, derived
    from schedgen.machine_file import read_machine
    from schedgen.stored import Store

    found, assembly, unknown = None, None, ""
    try:
        facts = read_facts(path)
        arch = read_machine(target).arch if target else facts.target
        if arch != facts.target:
            raise SchedgenError(
                f"{path}: this is for {facts.target}, --target {target} is {arch}; emit it for "
                f"{target}"
            )
        report = compile_report(path, folder or Path(mkdtemp(prefix="schedgen-")))
        if conform:
            try:
                store = Store() if cache else None
                program, kernel = derived(facts, target, str(path), spec, store=store)
                built = report.built
                found, assembly = compared(built.ptx, built.cubin, program, kernel)
            except UnknownSpec as error:
                unknown = str(error)
    except (CompileError, Underivable) as error:
        typer.echo(str(error), err=True)
        return REFUSED
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return BAD_INPUT
    except OSError as error:
        typer.echo(f"{error.filename or folder}: {error.strerror}", err=True)
        return BAD_INPUT
    if as_json:
        conformance: dict[str, Any] = {"not_compared": unknown} if unknown else {}
        if found is not None:
            conformance["conformance"] = data(found, assembly)
        typer.echo(json.dumps(_report_data(report) | conformance, indent=1))
    else:
        told = [f"  conform      not compared: {unknown}"] if unknown else []
        told += [] if found is None else list(lines(found, assembly))
        typer.echo("\n".join([str(path), *_report_text(report), *told]))
    problems = [text for kind, text in report.problems_by_kind if kind not in allow]
    if found is not None and not found.holds:
        problems += [finding.text for finding in found.findings]
    for problem in problems:
        typer.echo(problem, err=True)
    return REFUSED if problems else DONE


def _emitted_data(path: Path, emitted: Emission, attempts: tuple[Attempt, ...]) -> dict[str, Any]:
    schedule, program = emitted.solution.schedule, emitted.proven.program
    return {
        "file": str(path),
        "kernel": program.kernel,
        "target": program.target,
        "arch": program.arch,
        "spec_sha256": program.spec_sha256,
        "ii_cycles": schedule.ii_cycles,
        "proven_optimal": schedule.proven_optimal,
        "proof": emitted.proven.proof.summary(),
        "compiled": [
            {
                **attempt.variation.data,
                "chosen": attempt.chosen,
                "cycles": attempt.cycles,
                "beside_products": None if attempt.overlap is None else attempt.overlap.data,
                "conforms": None if attempt.differences is None else not attempt.differences,
                **_report_data(attempt.report, files=False),
            }
            for attempt in attempts
        ],
    }


def _emitted_text(path: Path, emitted: Emission, attempts: tuple[Attempt, ...]) -> list[str]:
    from schedgen.cli.tried import tried_text

    schedule, program = emitted.solution.schedule, emitted.proven.program
    optimal = "proven optimal" if schedule.proven_optimal else "not proven optimal"
    methods = ", ".join(verdict.method for verdict in emitted.proven.proof.verdicts)
    lines = [
        str(path),
        f"  kernel       {program.kernel} for {program.target} ({program.arch})",
        f"  schedule     {schedule.ii_cycles} cycles per iteration, {optimal}",
        f"  program      {len(program.roles)} roles, {len(program.barriers)} barriers; proven: "
        f"{methods}",
    ]
    if not attempts:
        return [*lines, "  compiled     no: spills and serialized products are not known"]
    lines += tried_text(attempts)
    chosen = next(attempt for attempt in attempts if attempt.chosen)
    compared = chosen.differences is not None  # else it would not have been selected
    verdict = "the program, for all trip counts" if compared else "not compared with the program"
    return [*lines, *_report_text(chosen.report, files=False), f"  conform      {verdict}"]


def _report_data(report: Report, *, files: bool = True) -> dict[str, Any]:
    facts = report.facts
    data: dict[str, Any] = {
        "kernel": facts.kernel,
        "arch": facts.target,
        "registers": report.registers,
        "register_budgets": list(report.budgets),
        "roles": [
            {"name": r.name, "warps": r.warps, "registers": r.registers} for r in facts.roles
        ],
        "local_bytes": report.local_bytes,
        "unfenced": [str(one) for one in report.unfenced],
        "shared_bytes": facts.shared_bytes,
        "tensor_columns": facts.tensor_columns,
        "problems": list(report.problems),
    }
    if files:
        built = report.built
        data |= {"ptx": str(built.ptx), "cubin": str(built.cubin), "object": str(built.object)}
    return data


def _report_text(report: Report, *, files: bool = True) -> list[str]:
    from schedgen.codegen.report import MOST_SHARED_BYTES, MOST_TENSOR_COLUMNS

    facts = report.facts
    width = max([12, *(len(role.name) for role in facts.roles)])
    budgets = ", then " + " or ".join(map(str, report.budgets)) if report.budgets else ""
    lines = [
        f"  registers    {report.registers} per thread{budgets}",
        *(f"    {r.name:<{width}} {r.warps} warps {r.registers:>4} registers" for r in facts.roles),
        f"  spills       {report.local_bytes} bytes of local memory",
        f"  shared       {facts.shared_bytes} of {MOST_SHARED_BYTES} bytes",
        f"  tensor       {facts.tensor_columns} of {MOST_TENSOR_COLUMNS} columns",
    ]
    built = report.built
    return (
        [*lines, f"  ptx          {built.ptx}", f"  cubin        {built.cubin}"] if files else lines
    )
