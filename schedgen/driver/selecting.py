"""Which schedule of a spec its kernel is made from: the best one whose kernel the compiler accepts.

`schedgen emit`, `schedgen emulate` and `python -m schedgen.kernels.regenerate` all select by this
rule, so that what is checked is what is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schedgen.codegen.errors import EmitError
from schedgen.driver.emitting import Emission, emission, written
from schedgen.errors import SchedgenError
from schedgen.kernel import Space
from schedgen.program.model import Run

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.machine import Machine
    from schedgen.program.model import Program
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store

ROUNDS = 4
"""Schedules that are tried before a kernel that spills is given up."""
_SHOWN = 4
STEP = 16
"""Registers per thread by which the next schedule leaves more beside its tiles."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A schedule that was compiled: registers that it left beside tiles, more than the machine
    model says, and what came of it. ``differences``: where its PTX is not its program; None if that
    was not compared.
    """

    more_registers: int
    report: Report
    differences: tuple[str, ...] | None = None


def selected(
    name: str,
    target: str | None,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    compiled: bool = True,
    conform: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    pace: Sequence[str] = (),
) -> tuple[Emission, tuple[Attempt, ...]]:
    """The kernel of ``name``, a spec or the file of a schedule, and all attempts up to it.

    A schedule is taken as it is: it is verified and its program proven, but nothing is solved.
    With ``compiled`` the compiler has to accept the kernel; without, the best schedule is taken and
    there are no attempts. With ``conform`` what was compiled has to be its program. ``target`` is a
    machine model, by default the first of the spec; ``pace`` as of `written`.

    Raises:
        SchedgenError: the input is wrong.
        What `compiled_emission` raises.
    """
    from schedgen.driver.restoring import is_schedule, read_solution
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    if is_schedule(name):
        if settings:
            raise SchedgenError(
                f"{name}: a schedule fixes all parameters; fix: leave --set {next(iter(settings))} "
                "away, or give the spec"
            )
        solution, chosen = read_solution(name, target)
        emitted = written(solution, chosen, progress, events=events, methods=methods, pace=pace)
        return emitted, (accepted(emitted, store, conform=conform),) if compiled else ()
    spec = read_spec(name)
    machine = read_machine(target or spec.file.targets[0])
    if not compiled:
        first = emission(
            spec, machine, settings, progress,
            events=events, methods=methods, store=store, pace=pace,
        )  # fmt: skip
        return first, ()
    return compiled_emission(
        spec, machine, settings, progress,
        events=events, conform=conform, methods=methods, store=store, pace=pace,
    )  # fmt: skip


def acceptable(report: Report) -> bool:
    """Whether a kernel is to be used: nothing is spilled, no product waits for another, and the
    compiler left registers of products alone behind their fences.
    """
    return not (report.local_bytes or report.serialized or report.unfenced)


def compiled_emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    first: Emission | None = None,
    conform: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    latencies: str = "high",
    pace: Sequence[str] = (),
) -> tuple[Emission, tuple[Attempt, ...]]:
    """An emission that compiles within its registers, and all attempts up to it; ``first`` is what
    `emission` gives for these arguments, if that is known.

    A schedule whose kernel is not `acceptable` is replaced by the best one that leaves `STEP` more
    registers of each thread beside tiles; `ROUNDS` schedules are tried. What ``store`` has is
    neither solved nor compiled again. With ``conform`` its PTX is compared with its program.

    Raises:
        EmitError: none of them is better, or no schedule leaves that many registers; or what was
            compiled is not the program.
        CompileError: it does not compile.
        What `emission` raises, for the first schedule.
    """
    from schedgen.driver.found import Infeasible

    attempts: list[Attempt] = []
    emitted = first
    for number in range(ROUNDS):
        more = number * STEP
        try:
            machine_now = with_registers(machine, more)
            emitted = None if number else first
            emitted = emitted or emission(
                spec, machine_now, settings, progress,
                events=events, methods=methods, store=store, latencies=latencies, pace=pace,
            )  # fmt: skip
        except Infeasible as error:
            if not attempts:
                raise
            raise EmitError(
                f"{_scarce(attempts)}; with {more} more registers per thread there is no "
                f"schedule: {error}"
            ) from None
        if progress is not None:
            progress("compiling")
        attempts.append(_attempt(more, emitted, store, conform=conform))
        if acceptable(attempts[-1].report):
            _require_program(attempts[-1])
            return emitted, tuple(attempts)
    assert emitted is not None
    unfenced = attempts[-1].report.unfenced
    slow = f"{_held(emitted.proven.program)}, or --no-compile for a kernel that is slow"
    fix = unfenced[0].fix if unfenced else slow
    raise EmitError(f"{_scarce(attempts)}\n  fix: {fix}")


def accepted(emitted: Emission, store: Store | None = None, *, conform: bool = False) -> Attempt:
    """The one attempt at a schedule that is given. Raises EmitError if it is not `acceptable`, or,
    with ``conform``, not its program.
    """
    attempt = _attempt(0, emitted, store, conform=conform)
    if acceptable(attempt.report):
        _require_program(attempt)
        return attempt
    raise EmitError(
        f"{_scarce([attempt])}; fix: give the spec instead of this schedule, then one that leaves "
        "more registers is looked for"
    )


def _require_program(attempt: Attempt) -> None:
    if attempt.differences:
        found = "\n  ".join(attempt.differences[:5])
        raise EmitError(
            "the compiler made a kernel that is not its program, or that cannot be compared with "
            f"it:\n  {found}\n  fix: report it; with --no-conform it is written as it is"
        )


def _attempt(more: int, emitted: Emission, store: Store | None, *, conform: bool) -> Attempt:
    """What the compiler makes of ``emitted``, and whether that is its program if it is
    `acceptable`. ``store`` may have both, by the text of the file and the versions of the compiler.
    The files that it wrote are gone. Raises CompileError.
    """
    from pydantic import TypeAdapter

    from schedgen.codegen.compiling import packages
    from schedgen.codegen.report import Report, compile_report

    data: TypeAdapter[Report] = TypeAdapter(Report)
    made_from = [sha256(emitted.text.encode()).hexdigest(), emitted.name, *packages()]
    if store is not None and (kept := store.get("report", made_from)):
        report = data.validate_json(kept)
        if not conform or not acceptable(report):
            return Attempt(more, report)
        if known := store.get("conformance", made_from):
            return Attempt(more, report, tuple(json.loads(known)))
    with TemporaryDirectory(prefix="schedgen-") as scratch:
        path = Path(scratch) / emitted.name
        path.write_text(emitted.text, encoding="utf-8")
        report = compile_report(path, Path(scratch) / "compiled")
        compares = conform and acceptable(report)
        differences = _differences(report.built.ptx, emitted) if compares else None
    if store is not None:
        store.put("report", made_from, data.dump_json(report).decode())
        if differences is not None:
            store.put("conformance", made_from, json.dumps(differences))
    return Attempt(more, report, differences)


def _differences(ptx: Path, emitted: Emission) -> tuple[str, ...]:
    """Where a compiled kernel is not its program, or cannot be compared with it."""
    from schedgen.conform.check import conform
    from schedgen.emulator.ptx.parse import parse

    module = parse(ptx.read_text("utf-8"), emitted.name)
    found = conform(module, emitted.proven.program, emitted.solution.problem.kernel)
    return tuple(finding.text for finding in found.findings)


def with_registers(machine: Machine, more: int) -> Machine:
    """``machine`` with ``more`` registers per thread that warpgroups need beside their tiles."""
    if not more:
        return machine
    roles = tuple(
        role if role.issues_ahead else replace(role, registers=role.registers + more)
        for role in machine.roles
    )
    return replace(machine, roles=roles)


def _held(program: Program) -> str:
    """Which role has most registers, and what it holds there: other tiles take compiling to try."""
    role = max(program.roles, key=lambda role: role.registers)
    runs = (step.action.operation for step in role.steps if isinstance(step.action, Run))
    touched = dict.fromkeys(a.allocation for name in runs for a in program.operation[name].accesses)
    sizes = {name: program.allocation[name].size for name in touched}
    held = {n: s for n, s in sizes.items() if program.allocation[n].space is Space.REGISTERS}
    largest = sorted(held.items(), key=lambda one: -one[1])[:_SHOWN]
    listed = ", ".join(f"{name} {size}" for name, size in largest)
    return f"give role {role.name} less to hold in the registers of a thread ({listed})"


def _scarce(attempts: list[Attempt]) -> str:
    """What registers were too few for."""
    tried = ", ".join(
        _lack(a) + (f" with {a.more_registers} more" if a.more_registers else "") for a in attempts
    )
    if attempts[-1].report.unfenced:
        return f"the compiler moves registers of products across what orders them ({tried})"
    if any(a.report.local_bytes for a in attempts):
        return f"registers do not suffice ({tried})"
    return f"registers do not suffice, or conditions stand around accumulators ({tried})"


def _lack(attempt: Attempt) -> str:
    if attempt.report.local_bytes:
        return f"{attempt.report.local_bytes} bytes are spilled to local memory"
    if attempt.report.unfenced:
        first = attempt.report.unfenced[0]
        return f"{first} with no {first.missing} between them"
    return "products are serialized"
