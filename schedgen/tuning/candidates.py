"""Settings of a spec in the order of what the model says of them, each kernel once."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import heappop, heappush

from schedgen.bounds import ImpossibleCycle
from schedgen.codegen.emit import misfit
from schedgen.codegen.trees import parsed
from schedgen.driver.binding import kernels_of
from schedgen.driver.found import Infeasible
from schedgen.driver.selecting import with_registers
from schedgen.errors import SchedgenError, SpecError
from schedgen.kernel import Kernel
from schedgen.machine import CostError, Machine
from schedgen.solver.problem import ProblemError
from schedgen.spec.reader import Spec
from schedgen.tuning.basics import Deadline, mean, shown
from schedgen.tuning.estimating import Pace, bound, cycles
from schedgen.tuning.records import Dropped
from schedgen.tuning.shapes import Shape, complete
from schedgen.tuning.space import pace_of, parameters, schedule_of

REPEATED = 0.05
"""By how much settings have to be faster in the model to be tried after others with the same output
tile, and once more so if an iteration is the same, too."""
SIMPLER = 0.005
"""The same for each setting that is not the spec's own: no model is exact to that."""
LONGEST = 160
"""Characters of a reason that are kept."""
_SAID_OF_IT = ("CYCLES_PER_ITERATION", "SETTINGS", "PROGRAM_SHA256")
"""Constants of a generated file that no instruction comes from."""

Settings = Mapping[str, str]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings that may have a schedule: the first of their kernels, and its estimates by shape."""

    settings: dict[str, str]
    kernel: Kernel
    estimates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What settings are judged for.

    Attributes:
        base: settings of all of them.
        shapes: what a user gave, which need not be all extents.
        sms: SMs of the GPU.
    """

    spec: Spec
    machine: Machine
    base: Settings
    shapes: Sequence[Shape]
    sms: int

    def estimates(self, kernel: Kernel, pace: Pace) -> tuple[float, ...]:
        """Cycles for each shape. Raises SchedgenError: the kernel does not cover one."""
        return tuple(
            cycles(kernel, pace, complete(kernel, shape), self.machine, self.sms)
            for shape in self.shapes
        )


def possible(
    problem: Problem,
    settings: Iterable[Settings],
    deadline: Deadline,
    dropped: list[Dropped],
    progress: Progress | None = None,
) -> list[Setting]:
    """Those of ``settings`` that no bound excludes, one for each kernel; the others are
    ``dropped``. What is left when time is over is not looked at.
    """
    found: list[Setting] = []
    known: dict[str, Settings] = {}
    for number, chosen in enumerate(settings):
        if deadline.over:
            break
        if progress is not None:
            progress(f"looking at settings {number + 1}: {shown(chosen)}")
        one = _bounded(problem, dict(chosen), dropped)
        if one is None:
            continue
        same = known.setdefault(_essence(one), chosen)
        if same is not chosen:
            dropped.append(Dropped(one.settings, "same", f"the kernel is that of {shown(same)}"))
        else:
            found.append(one)
    return found


def _bounded(problem: Problem, chosen: dict[str, str], dropped: list[Dropped]) -> Setting | None:
    """The fastest, by its bound, of the kernels that settings stand for."""
    best: tuple[float, Setting] | None = None
    reason = Dropped(chosen, "bind", "there is no kernel")
    try:
        kernels = kernels_of(problem.spec, problem.machine, {**problem.base, **parameters(chosen)})
    except SchedgenError as error:
        dropped.append(replace(reason, reason=first_line(error)))
        return None
    for kernel in kernels:
        misfits = misfit(kernel, problem.machine.arch)
        if misfits is not None:
            reason = Dropped(chosen, "emit", misfits)
            continue
        try:
            latencies, registers = schedule_of(chosen)
            machine = with_registers(problem.machine, registers)
            estimates = problem.estimates(kernel, bound(kernel, machine, latencies))
        except (ProblemError, CostError, ImpossibleCycle, Infeasible) as error:
            reason = Dropped(chosen, "bound", first_line(error))
        except SchedgenError as error:
            reason = Dropped(chosen, "shape", first_line(error))
        else:
            if best is None or mean(estimates) < best[0]:
                best = mean(estimates), Setting(chosen, kernel, estimates)
    if best is None:
        dropped.append(reason)
        return None
    return best[1]


class Queue:
    """Settings by estimate, which is worth less the more candidates with the same sizes of tiles
    there are: of two sizes a GPU says more than a model. Among equals, the order in which they
    came.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Setting, bool]] = []
        self._taken: Counter[object] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, one: Setting, number: int | None = None, *, solved: bool = False) -> None:
        """Adds settings whose estimates are of a bound or, if they are ``solved``, of a schedule;
        those that come back keep their ``number``.
        """
        if number is None:
            number, self._count = self._count, self._count + 1
        heappush(self._heap, (self._worth(one), number, one, solved))

    def get(self) -> tuple[Setting, int, bool]:
        """The next settings, their number, and whether they are solved: then none that are left,
        solved or not, come before them.
        """
        while True:
            worth, number, one, solved = heappop(self._heap)
            if worth == self._worth(one):
                return one, number, solved
            self.put(one, number, solved=solved)

    def take(self, kernel: Kernel) -> None:
        """Says that a candidate has the sizes of ``kernel``."""
        self._taken.update(_sizes(kernel))

    def _worth(self, one: Setting) -> float:
        like = sum(self._taken[sizes] for sizes in _sizes(one.kernel))
        return rank(one.estimates, one.settings) * (1 + REPEATED * like)


def rank(estimates: Sequence[float], settings: Settings) -> float:
    """Cycles that the order of candidates is by, a little more for what is less usual."""
    return mean(estimates) * (1 + SIMPLER * len(settings))


def _sizes(kernel: Kernel) -> tuple[object, object]:
    """Sizes of output tiles, and with them those of an iteration."""
    return kernel.grid, (kernel.grid, kernel.products)


def code_digest(text: str) -> str:
    """SHA-256 of what a generated file executes: equal for files that differ in comments and in
    what they say of themselves.
    """
    kept = [one for one in parsed(text).body if not _says(one)]
    return sha256("\n".join(map(ast.unparse, kept)).encode()).hexdigest()


def _says(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in _SAID_OF_IT
        case _:
            return False


def _essence(one: Setting) -> str:
    """What tells kernels apart but for how their parameters are called, and what they are solved
    for.
    """
    bare = replace(one.kernel, parameters=(), choices=(), decided=(), locations={})
    return sha256(
        repr((bare, schedule_of(one.settings), pace_of(one.settings))).encode()
    ).hexdigest()


def first_line(error: Exception) -> str:
    """What an error says, without where and what to do."""
    if isinstance(error, SpecError):
        first = error.diagnostics[0]
        return f"[{first.rule}] {first.message}"[:LONGEST]
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST]
