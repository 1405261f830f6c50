"""From a spec or a schedule to the file of a kernel: solves, proves, emits, formats.

Which schedule of a spec is the one to compile is decided in `schedgen.driver.selecting`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import file_name
from schedgen.codegen.style import PLAIN, Style
from schedgen.program.digest import program_digest

if TYPE_CHECKING:
    from schedgen.driver.found import Solution
    from schedgen.machine import Machine
    from schedgen.proof.prove import ProvenProgram
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store
    from schedgen.synchronize.synthesize import Synchronized

LINTERS = "# ruff: noqa\n# type: ignore\n"
"""What generated files begin with: they are not for linters."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Emission:
    """A kernel's file and what it was made from. ``plain`` is its text before it is formatted,
    ``style`` how it is written.
    """

    name: str
    text: str
    plain: str
    solution: Solution
    synchronized: Synchronized
    proven: ProvenProgram
    style: Style = PLAIN


def emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    latencies: str = "high",
    pace: Sequence[str] = (),
) -> Emission:
    """The file of ``spec`` on ``machine``, from the best schedule for the ``high`` or ``low`` end
    of latencies, which is looked for in ``store`` first; the others as of `written`.

    Raises:
        SpecError, Infeasible: there is no schedule.
        What `written` raises.
    """
    from schedgen.driver.restoring import remember, solved

    solution = solved(spec, machine, settings, progress, store=store, latencies=latencies)
    made = written(solution, settings, progress, events=events, methods=methods, pace=pace)
    if store is not None:
        remember(store, program_digest(made.proven.program), solution.schedule)
    return made


def written(
    solution: Solution,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    methods: tuple[str, ...] | None = None,
    pace: Sequence[str] = (),
    early: bool = False,
    style: Style = PLAIN,
) -> Emission:
    """The file of the schedule in ``solution``, its program proven by ``methods``, else by all.

    On the units ``pace`` roles are kept to the order of the schedule. ``early``: where it waits for
    products (`synchronized`); ``style``: how it is written. With ``events`` its kernel records when
    operations and waits begin and end. ``settings`` name the file.

    Raises:
        ProgramError, Refuted: there is no proven program.
        EmitError: no emitter knows how to write it.
    """
    from schedgen.codegen.emit import emit
    from schedgen.driver.proved import QUICK
    from schedgen.proof.prove import METHODS, prove
    from schedgen.synchronize.synthesize import synchronized

    problem = solution.problem
    if progress is not None:
        progress("proving the program")
    found = synchronized(problem.kernel, solution.schedule, problem.machine, pace, early=early)
    proven = prove(found.program, methods or METHODS, quick=methods == QUICK)
    kernel = problem.kernel
    name = file_name(kernel.name, proven.program.arch, settings, proven.program.paced)
    name = name.replace(".py", "_events.py") if events else name
    plain = LINTERS + emit(proven, kernel, events=events, style=style)
    return Emission(name, formatted(plain), plain, solution, found, proven, style)


def restyled(emitted: Emission, style: Style, *, events: bool = False) -> Emission:
    """``emitted`` with its program written in another way; as it is if that is the same text.

    Raises EmitError.
    """
    from schedgen.codegen.emit import emit

    if style == emitted.style:
        return emitted
    kernel = emitted.solution.problem.kernel
    plain = LINTERS + emit(emitted.proven, kernel, events=events, style=style)
    if plain == emitted.plain:
        return emitted
    return replace(emitted, text=formatted(plain), plain=plain, style=style)


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
