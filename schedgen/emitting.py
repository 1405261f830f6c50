"""From a spec to the file of a kernel: solves, proves, emits, formats; compiles, and if registers
do not suffice, asks the solver for a schedule that leaves more of them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import file_name

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.machine import Machine
    from schedgen.proof.prove import ProvenProgram
    from schedgen.solution import Solution
    from schedgen.spec.reader import Spec

ROUNDS = 4
"""Schedules that are tried before a kernel that spills is given up."""
STEP = 16
"""Registers per thread by which the next schedule leaves more beside its tiles."""
_LINTERS = "# ruff: noqa\n# type: ignore\n"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel's file and what it was made from."""

    name: str
    text: str
    solution: Solution
    proven: ProvenProgram


@dataclass(frozen=True, slots=True)
class Attempt:
    """A schedule that was compiled: registers that it left beside tiles, more than the machine
    model says, and what came of it.
    """

    more_registers: int
    report: Report


def emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
) -> Emission:
    """The file of ``spec`` on ``machine``, from the best schedule, proven by all methods.

    With ``events`` its kernel records when operations and waits begin and end.

    Raises:
        SpecError, Infeasible: there is no schedule.
        ProgramError, Refuted: there is no proven program.
        EmitError: no emitter knows how to write it.
    """
    from schedgen.codegen.emit import emit
    from schedgen.program.synthesize import synthesize
    from schedgen.proof.prove import prove
    from schedgen.solution import solve

    solution = solve(spec, machine, settings=settings, progress=progress)
    problem = solution.problem
    if progress is not None:
        progress("proving the program")
    proven = prove(synthesize(problem.kernel, solution.schedule, problem.machine))
    kernel = problem.kernel
    name = file_name(kernel.name, proven.program.arch, settings)
    name = name.replace(".py", "_events.py") if events else name
    text = formatted(_LINTERS + emit(proven, kernel, events=events))
    return Emission(name, text, solution, proven)


def formatted(text: str) -> str:
    """Python ``text`` as ruff writes it. Raises EmitError."""
    options = ["--isolated", "--line-length", "100", "--target-version", "py311"]
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "format", *options, "-"],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if run.returncode:
        raise EmitError(f"ruff cannot format what was emitted: {run.stderr.strip()}")
    return run.stdout


def compiled_emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    first: Emission | None = None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """An emission that compiles within its registers, and all attempts up to it; ``first`` is what
    `emission` gives for these arguments, if that is known.

    A schedule whose kernel spills, or whose products the assembler serializes, is replaced by the
    best one that leaves `STEP` more registers of each thread beside tiles; `ROUNDS` schedules are
    tried.

    Raises:
        EmitError: none of them is better, or no schedule leaves that many registers.
        CompileError: it does not compile.
        What `emission` raises, for the first schedule.
    """
    from schedgen.codegen.report import compile_report
    from schedgen.solution import Infeasible

    attempts: list[Attempt] = []
    for number in range(ROUNDS):
        more = number * STEP
        try:
            machine_now = with_registers(machine, more)
            emitted = None if number else first
            emitted = emitted or emission(spec, machine_now, settings, progress, events=events)
        except Infeasible as error:
            if not attempts:
                raise
            raise EmitError(
                f"{_scarce(attempts)}; with {more} more registers per thread there is no "
                f"schedule: {error}"
            ) from None
        if progress is not None:
            progress("compiling")
        with TemporaryDirectory(prefix="schedgen-") as scratch:
            path = Path(scratch) / emitted.name
            path.write_text(emitted.text, encoding="utf-8")
            report = compile_report(path, Path(scratch) / "compiled")
        attempts.append(Attempt(more, report))
        if not report.local_bytes and not report.serialized:
            return emitted, tuple(attempts)
    raise EmitError(f"{_scarce(attempts)}; fix: choose smaller tiles with --set")


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
    if any(a.report.local_bytes for a in attempts):
        return f"registers do not suffice ({tried})"
    return f"registers do not suffice, or conditions stand around accumulators ({tried})"


def _lack(attempt: Attempt) -> str:
    if attempt.report.local_bytes:
        return f"{attempt.report.local_bytes} bytes are spilled to local memory"
    return "products are serialized"
