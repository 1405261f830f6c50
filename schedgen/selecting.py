"""Which schedule of a spec its kernel is made from: the best one whose kernel the compiler accepts.

`schedgen emit`, `schedgen emulate` and `python -m schedgen.kernels.regenerate` all select by this
rule, so that what is checked is what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schedgen.codegen.errors import EmitError
from schedgen.emitting import Emission, emission, written
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.machine import Machine
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store

ROUNDS = 4
"""Schedules that are tried before a kernel that spills is given up."""
STEP = 16
"""Registers per thread by which the next schedule leaves more beside its tiles."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A schedule that was compiled: registers that it left beside tiles, more than the machine
    model says, and what came of it.
    """

    more_registers: int
    report: Report


def selected(
    name: str,
    target: str | None,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    compiled: bool = True,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """The kernel of ``name``, a spec or the file of a schedule, and all attempts up to it.

    A schedule is taken as it is: it is verified and its program proven, but nothing is solved.
    With ``compiled`` the compiler has to accept the kernel; without, the best schedule is taken and
    there are no attempts. ``target`` is a machine model, by default the first of the spec.

    Raises:
        SchedgenError: the input is wrong.
        What `compiled_emission` raises.
    """
    from schedgen.machine_file import read_machine
    from schedgen.restoring import is_schedule, read_solution
    from schedgen.spec.reader import read_spec

    if is_schedule(name):
        if settings:
            raise SchedgenError(
                f"{name}: a schedule fixes all parameters; fix: leave --set {next(iter(settings))} "
                "away, or give the spec"
            )
        solution, chosen = read_solution(name, target)
        emitted = written(solution, chosen, progress, events=events, methods=methods)
        return emitted, (accepted(emitted, store),) if compiled else ()
    spec = read_spec(name)
    machine = read_machine(target or spec.file.targets[0])
    choose = compiled_emission if compiled else _first_emission
    return choose(spec, machine, settings, progress, events=events, methods=methods, store=store)


def _first_emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None,
    *,
    events: bool,
    methods: tuple[str, ...] | None,
    store: Store | None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    made = emission(spec, machine, settings, progress, events=events, methods=methods, store=store)
    return made, ()


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
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """An emission that compiles within its registers, and all attempts up to it; ``first`` is what
    `emission` gives for these arguments, if that is known.

    A schedule whose kernel is not `acceptable` is replaced by the best one that leaves `STEP` more
    registers of each thread beside tiles; `ROUNDS` schedules are tried. What ``store`` has is
    neither solved nor compiled again.

    Raises:
        EmitError: none of them is better, or no schedule leaves that many registers.
        CompileError: it does not compile.
        What `emission` raises, for the first schedule.
    """
    from schedgen.solution import Infeasible

    attempts: list[Attempt] = []
    for number in range(ROUNDS):
        more = number * STEP
        try:
            machine_now = with_registers(machine, more)
            emitted = None if number else first
            emitted = emitted or emission(
                spec, machine_now, settings, progress, events=events, methods=methods, store=store
            )
        except Infeasible as error:
            if not attempts:
                raise
            raise EmitError(
                f"{_scarce(attempts)}; with {more} more registers per thread there is no "
                f"schedule: {error}"
            ) from None
        if progress is not None:
            progress("compiling")
        attempts.append(Attempt(more, reported(emitted, store)))
        if acceptable(attempts[-1].report):
            return emitted, tuple(attempts)
    fix = "compute what is multiplied in a role of its own"
    if not attempts[-1].report.unfenced:
        fix = "choose smaller tiles with --set, or --no-compile for a kernel that is slow"
    raise EmitError(f"{_scarce(attempts)}\n  fix: {fix}")


def accepted(emitted: Emission, store: Store | None = None) -> Attempt:
    """The one attempt at a schedule that is given. Raises EmitError if it is not `acceptable`."""
    attempt = Attempt(0, reported(emitted, store))
    if acceptable(attempt.report):
        return attempt
    raise EmitError(
        f"{_scarce([attempt])}; fix: give the spec instead of this schedule, then one that leaves "
        "more registers is looked for"
    )


def reported(emitted: Emission, store: Store | None = None) -> Report:
    """What the compiler says about ``emitted``; ``store`` may have it, by the text of the file and
    the versions of the compiler. The files that it wrote are gone. Raises CompileError.
    """
    from pydantic import TypeAdapter

    from schedgen.codegen.compiling import packages
    from schedgen.codegen.report import Report, compile_report

    data: TypeAdapter[Report] = TypeAdapter(Report)
    made_from = [sha256(emitted.text.encode()).hexdigest(), emitted.name, *packages()]
    kept = None if store is None else store.get("report", made_from)
    if kept is not None:
        return data.validate_json(kept)
    with TemporaryDirectory(prefix="schedgen-") as scratch:
        path = Path(scratch) / emitted.name
        path.write_text(emitted.text, encoding="utf-8")
        report = compile_report(path, Path(scratch) / "compiled")
    if store is not None:
        store.put("report", made_from, data.dump_json(report).decode())
    return report


def with_registers(machine: Machine, more: int) -> Machine:
    """``machine`` with ``more`` registers per thread that warpgroups need beside their tiles."""
    if not more:
        return machine
    roles = tuple(
        role if role.issues_ahead else replace(role, registers=role.registers + more)
        for role in machine.roles
    )
    return replace(machine, roles=roles)


def _scarce(attempts: list[Attempt]) -> str:
    """What registers were too few for."""
    tried = ", ".join(
        _lack(a) + (f" with {a.more_registers} more" if a.more_registers else "") for a in attempts
    )
    if attempts[-1].report.unfenced:
        return f"the compiler moves registers of products behind their fences ({tried})"
    if any(a.report.local_bytes for a in attempts):
        return f"registers do not suffice ({tried})"
    return f"registers do not suffice, or conditions stand around accumulators ({tried})"


def _lack(attempt: Attempt) -> str:
    if attempt.report.local_bytes:
        return f"{attempt.report.local_bytes} bytes are spilled to local memory"
    if attempt.report.unfenced:
        return f"{attempt.report.unfenced[0]} behind the fence"
    return "products are serialized"
