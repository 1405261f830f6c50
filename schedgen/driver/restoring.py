"""From a schedule that was written down back to a solution: nothing is solved, all is checked.

The kernel is made again from the spec that the schedule names, what was decided is read from the
schedule and verified as if a solver had just found it, and everything that follows from decisions
has to be what the file says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.schedule import Schedule, ScheduleError, read_schedule
from schedgen.spec.reader import Spec

if TYPE_CHECKING:
    from schedgen.stored import Store

Progress = Callable[[str], None]


def is_schedule(name: str) -> bool:
    """Whether ``name`` is a file that 'schedgen solve' wrote: JSON that is no spec."""
    if Path(name).suffix != ".json":
        return False
    try:
        data: object = json.loads(Path(name).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and ("ii_cycles" in data or "program_format" in data)


def read_solution(path: str, target: str | None = None) -> tuple[Solution, dict[str, str]]:
    """The solution in the schedule file ``path``, and the settings that it was solved with as far
    as they differ from the defaults. ``target`` is the machine model if it is a file of one's own.

    Raises SchedgenError if it is no schedule, the spec or the model is another one now, or the
    schedule is wrong.
    """
    from schedgen.driver.checking import rebind
    from schedgen.program.file import is_program

    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchedgenError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if is_program(json.loads(text)):
        raise SchedgenError(
            f"{path}: a program does not say which parameters it was made with; fix: give the "
            "schedule ('schedgen solve -o')"
        )
    try:
        schedule = read_schedule(text, path)
    except ScheduleError as error:
        raise SchedgenError(str(error)) from None
    kernel, machine = rebind(schedule, path, target)
    return restored(schedule, kernel, machine, path), differing(schedule, machine, path)


def differing(schedule: Schedule, machine: Machine, file: str) -> dict[str, str]:
    """The parameters of ``schedule`` that have another value than the spec gives them by itself, or
    than the solver picked: as few settings as give all of them.
    """
    from schedgen.driver.binding import kernels_of
    from schedgen.driver.checking import spec_of

    spec = spec_of(schedule, file)
    found: dict[str, str] = {}
    while True:  # one at a time: a default may follow from what was set before it
        usual = dict(kernels_of(spec, machine, found)[0].parameters)
        differs = next(
            (
                name
                for name, value in schedule.parameters.items()
                if name not in schedule.choices and str(usual.get(name)) != value
            ),
            None,
        )
        if differs is None or differs in found:
            return found
        found[differs] = schedule.parameters[differs]


def restored(schedule: Schedule, kernel: Kernel, machine: Machine, file: str) -> Solution:
    """``schedule`` with the problem that it solves. Raises SchedgenError if it is none of it."""
    from schedgen.dependence import derive
    from schedgen.solver.problem import build_problem
    from schedgen.solver.restore import mistakes

    try:
        problem = build_problem(kernel, machine, derive(kernel), schedule.latencies)
    except SchedgenError as error:
        raise SchedgenError(f"{file}: {error}") from None
    found = mistakes(problem, schedule)
    if found:
        shown = "\n  ".join(found[:5])
        raise SchedgenError(
            f"{file}: this is no schedule of {kernel.name} on {machine.name}:\n  {shown}\n"
            "  fix: solve it again"
        )
    return Solution(schedule, problem, 0.0)


def solved(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    store: Store | None = None,
    advise: bool = True,
    latencies: str = "high",
) -> Solution:
    """`schedgen.driver.solution.solve`, or what it found before for the same spec, machine,
    settings and latencies if ``store`` has it; that is checked like a file of somebody else.
    """

    def anew() -> Solution:
        return solve(
            spec, machine, settings=settings, latencies=latencies, advise=advise, progress=progress
        )

    if store is None:
        return anew()
    made_from = [
        [spec.source.file, spec.source.sha256, dict(settings), latencies],
        [machine.name, machine.sha256, [asdict(role) for role in machine.roles]],
    ]
    kept = store.get("schedule", made_from)
    if kept is not None:
        found = _kept(kept, spec, machine)
        if found is not None:
            return found
    solution = anew()
    store.put("schedule", made_from, solution.schedule.to_json())
    return solution


def remember(store: Store, digest: str, schedule: Schedule) -> None:
    """Keeps the schedule of the program with this SHA-256."""
    store.put("program", digest, schedule.to_json())


def remembered(store: Store, digest: str, spec: Spec, machine: Machine) -> Solution | None:
    """What a program with this SHA-256 was made from, if ``store`` has that, and it is right for
    ``spec`` on ``machine``. The program may be another one all the same.
    """
    kept = store.get("program", digest)
    return None if kept is None else _kept(kept, spec, machine)


def _kept(text: str, spec: Spec, machine: Machine) -> Solution | None:
    """The solution in an entry of the store; None if it is not right, so that it is solved."""
    from schedgen.driver.binding import kernels_of

    try:
        schedule = read_schedule(text)
        kernel = kernels_of(spec, machine, schedule.parameters)[0]
        return restored(schedule, kernel, machine, "<kept>")
    except (SchedgenError, ScheduleError):
        return None
