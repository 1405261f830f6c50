"""Settings of a spec that have a schedule where the present ones have none; each was tried.

Parameters that say what is computed stay: those that arguments have in shapes or types, and
conditions. Of the others a word goes back to what the spec says, and a number becomes smaller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from schedgen.dependence import derive
from schedgen.driver.binding import kernels_of
from schedgen.errors import SchedgenError
from schedgen.expressions import ExpressionError
from schedgen.kernel import Kernel, Region, Ring
from schedgen.machine import CostError, Machine
from schedgen.solver.problem import ProblemError, build_problem
from schedgen.spec.parameters import literal
from schedgen.spec.reader import Spec
from schedgen.spec.schema import Parameter
from schedgen.spec.values import show

if TYPE_CHECKING:
    from schedgen.driver.found import Solution

Settings = Mapping[str, str]
_SOLVED = 4
"""Settings that are solved, at most: those whose tiles fit into all memories."""
_FEW = 16
"""Numbers up to here become smaller one by one (slots), those above by halves (tiles)."""


def settings_that_help(
    spec: Spec, machine: Machine, settings: Settings, works: Callable[[Settings], bool]
) -> str | None:
    """What to set instead, ``--set tile_n=128 instead of 256``, None if nothing was found.

    The change of one parameter that gives up least, and of which ``works`` is true; that is asked
    with the first choice of what the solver may choose.
    """
    present = _by_storage(spec, machine, settings)
    found: dict[str, tuple[Fraction, str, Settings]] = {}
    for name, old, new in _changes(spec, machine, settings):
        chosen = (
            None if name in found else _fitting(spec, machine, {**settings, name: new}, present)
        )
        if chosen is not None:
            text = f"--set {name}={new} instead of {old}"
            found[name] = _kept(old, new), text, {**settings, name: new, **chosen}
    ranked = sorted(found.values(), key=lambda change: -change[0])
    return next((text for _, text, changed in ranked[:_SOLVED] if works(changed)), None)


def can_be_emitted(solution: Solution) -> bool:
    """Whether there is a file of the schedule, on machines for which files are written at all."""
    from schedgen.codegen.emit import emit
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.proved import prove_solution

    try:
        emit(prove_solution(solution, ("graph",)).proven, solution.problem.kernel)
    except EmitError as error:
        return error.rule == "no-emitter-for-architecture"
    except SchedgenError:
        return False
    return True


def _changes(spec: Spec, machine: Machine, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """(parameter, its value, another value), of one parameter the largest first."""
    for name, parameter in spec.file.parameters.items():
        old = settings.get(name, _default(parameter, machine))
        if old is None or parameter.derive is not None or _computed(spec, name):
            continue
        usual = _default(parameter, machine)
        if old.isdigit():
            yield from ((name, old, str(new)) for new in _smaller(parameter, int(old)))
        elif usual not in (None, old) and old not in ("true", "false"):
            assert usual is not None
            yield name, old, usual


def _default(parameter: Parameter, machine: Machine) -> str | None:
    """What a parameter is if nobody sets it; None where the solver chooses."""
    found = (parameter.on or {}).get(machine.name, parameter.default)
    if found is None:
        return None
    try:
        return show(literal(found))
    except ExpressionError:
        return None


def _computed(spec: Spec, name: str) -> bool:
    """Whether arguments depend on a parameter."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(f"{a.shape} {a.dtype}") for a in spec.file.arguments.values())


def _smaller(parameter: Parameter, old: int) -> Iterator[int]:
    listed = parameter.values or parameter.choose
    if listed is not None:
        numbers = (int(text) for text in map(str, listed) if text.isdigit())
        yield from sorted((n for n in numbers if n < old), reverse=True)
        return
    while old > 1:
        old = old - 1 if old <= _FEW else old // 2
        yield old


def _kept(old: str, new: str) -> Fraction:
    """How much of a number is left; of a word, that goes back, all."""
    return Fraction(int(new), int(old)) if new.isdigit() and old.isdigit() else Fraction(1)


Storage = tuple[tuple[Region, ...], tuple[Ring, ...]]


def _by_storage(
    spec: Spec, machine: Machine, settings: Settings, but: Collection[Storage] = ()
) -> dict[Storage, Kernel]:
    """The kernels that settings stand for, of those with the same storage the first; without those
    whose storage is known.
    """
    found: dict[Storage, Kernel] = {}
    for kernel in kernels_of(spec, machine, settings):
        storage = kernel.regions, kernel.rings
        if storage not in but:
            found.setdefault(storage, kernel)
    return found


def _fitting(
    spec: Spec, machine: Machine, settings: Settings, present: Collection[Storage]
) -> Settings | None:
    """Choices with which the tiles fit into each memory, unlike those of ``present``; None if there
    are none.
    """
    from schedgen.solver.infeasible import too_much

    try:
        for kernel in _by_storage(spec, machine, settings, but=present).values():
            if too_much(build_problem(kernel, machine, derive(kernel), "high")) is None:
                free = {n: v for n, v in kernel.choices if spec.file.parameters[n].choose}
                return {name: show(value) for name, value in free.items() if name not in settings}
    except (SchedgenError, ProblemError, CostError):
        pass
    return None
