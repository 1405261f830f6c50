"""Mutants: a correct program with one mistake in it, of every kind that kernels are known for.

Operators are numbered M1 to M19 as in the collection of documented bugs. Three of them have none
here: the fence after initializing barriers (M5) and publishing the tensor-memory allocation (M19)
are not about what roles do for tiles (`operators_frame` has them), and tensor maps are never
rewritten (M9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from schedgen.benchmarks.mutants import operators_sizes as sizes
from schedgen.benchmarks.mutants import operators_steps as steps
from schedgen.benchmarks.mutants.sites import Maker, Site
from schedgen.findings import Claim
from schedgen.program.model import Arrive, Commit, FenceKind, Program, Wait, WaitGroup

RACE, DEADLOCK, PHASE = Claim.RACE, Claim.DEADLOCK, Claim.PHASE
COUNT, CAPACITY = Claim.COUNT, Claim.CAPACITY


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of mistake. ``numbers`` are those of the collection, '' if it is beyond it.

    ``claims``: what a method may say about it; anything else would be luck.
    """

    name: str
    numbers: str
    make: Maker
    claims: frozenset[Claim]


def _operator(name: str, numbers: str, make: Maker, *claims: Claim) -> Operator:
    return Operator(name, numbers, make, frozenset(claims))


OPERATORS = (
    _operator("wait removed", "M7 M15", steps.without(Wait), RACE, PHASE, COUNT),
    _operator("arrive removed", "M15 M16", steps.without(Arrive), DEADLOCK, COUNT),
    _operator("commit removed", "M15 M16", steps.without(Commit), DEADLOCK, COUNT),
    _operator("wait_group removed", "M8", steps.without(WaitGroup), RACE),
    _operator("wait::st removed", "M1", steps.without_fence(FenceKind.TMEM_STORED), RACE),
    _operator("wait::ld removed", "M3", steps.without_fence(FenceKind.TMEM_LOADED), RACE),
    _operator("proxy fence removed", "M2 M4", steps.without_fence(FenceKind.ASYNC_PROXY), RACE),
    _operator(
        "tcgen05 fence removed",
        "",
        steps.without_fence(FenceKind.TMEM_BEFORE, FenceKind.TMEM_AFTER),
        RACE,
    ),
    _operator("wgmma fence removed", "", steps.without_fence(FenceKind.REGISTERS), RACE),
    _operator("wait one later", "", steps.late_wait, RACE, PHASE, DEADLOCK),
    _operator("wait behind use", "", steps.wait_behind_use, RACE, PHASE, DEADLOCK),
    _operator("wait hoisted", "M18", steps.hoisted_wait, DEADLOCK, PHASE, RACE),
    _operator("signal one earlier", "", steps.early_signal, RACE, PHASE),
    _operator("signal before use", "", steps.signal_before_use, RACE, PHASE),
    _operator("signal behind wait", "", steps.late_signal, DEADLOCK, PHASE, RACE),
    _operator("fence behind signal", "M6", steps.fence_behind_signal, RACE),
    _operator("fence before wait", "M6", steps.fence_before_wait, RACE),
    _operator("wait_group behind signal", "M8", steps.late_wait_group, RACE),
    _operator("wait_group behind product", "M8", steps.overtaken_wait_group, RACE),
    _operator("wait_group of one less", "M8", steps.wrong_wait_group, RACE),
    _operator("phase flipped", "M10", steps.flipped_phase, RACE, PHASE, DEADLOCK, COUNT),
    _operator("wait number", "M10", steps.wrong_number, RACE, PHASE, DEADLOCK, COUNT),
    _operator("signal number", "M10", steps.wrong_signal, RACE, PHASE, DEADLOCK, COUNT),
    _operator("count", "M11", sizes.wrong_count, COUNT, DEADLOCK),
    _operator("arrivals of few", "M11", sizes.fewer_arrivals, RACE, PHASE),
    _operator("meeting removed", "", steps.without_meeting, RACE),
    _operator("pace removed", "", steps.without_pace),
    _operator("meeting of each warp", "", steps.narrow_meeting, RACE),
    _operator("meeting of one role", "", steps.lonely_meeting, RACE),
    _operator("barrier", "M12", steps.wrong_barrier, RACE, PHASE, DEADLOCK, COUNT),
    _operator("registers", "M13", sizes.too_many_registers, CAPACITY),
    _operator("bytes", "M14", sizes.wrong_bytes, COUNT, DEADLOCK),
    _operator("guard", "M16 M18", steps.wrong_guard, *Claim),
    _operator("address", "M17", sizes.wrong_address, CAPACITY),
    _operator("slot", "M17", sizes.wrong_slot, RACE),
    _operator("wait too many", "M18", steps.extra_wait, DEADLOCK, PHASE, COUNT),
    _operator("barrier depth", "", sizes.barrier_depth, PHASE, DEADLOCK, COUNT, RACE),
    _operator("allocation depth", "", sizes.allocation_depth, RACE),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """``program`` is ``original`` with the mistake ``what``, at ``site`` if it is in a step."""

    operator: Operator
    what: str
    program: Program
    original: Program
    site: Site | None = None


def mutants(program: Program, operators: Sequence[Operator] = OPERATORS) -> Iterator[Mutant]:
    """``program`` with one mistake after the other, at every place where it can be made."""
    for operator in operators:
        for what, changed, site in operator.make(program):
            if changed != program:  # moving a step past an equal one changes nothing
                yield Mutant(operator, what, changed, program, site)


def sampled(program: Program, each: int) -> Iterator[Mutant]:
    """At most ``each`` mutants of every operator, evenly spread over all of them."""
    for _, group in groupby(mutants(program), key=lambda mutant: mutant.operator.name):
        found = list(group)
        count = min(each, len(found))
        yield from (found[(2 * n + 1) * len(found) // (2 * count)] for n in range(count))
