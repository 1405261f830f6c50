"""Tests of phases that have the same outcome in whatever order things happen.

Compilers and authors put a try_wait before the loop that waits. If it always finds its phase
complete, or never, the one with the flipped parity always finds the contrary: a False that the loop
behind it makes up for, or what the run of the mutant shows. Complete it is in every order if all
arrivals of the phase happened before, as the warp knows by other means; and that no further phase
completes is seen in a run in which the warp comes as late as it can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from emulated_mutants.run import Campaign

from schedgen.benchmarks.mutants.kernels import Mutant
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Held, Policy, Rushed
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.knowledge import CAUSAL
from schedgen.emulator.ptx.tree import Kernel

Key = tuple[int, int]
_UNKNOWN = 2**31 - 1
"""A clock that nobody knows: of arrivals that no thread makes."""


@dataclass
class Settled:
    """Whether the tests in a line of the PTX are settled, and which phases they found complete, by
    warp."""

    line: int
    open: bool = False
    found: dict[int, list[tuple[Key, int]]] = field(
        default_factory=dict[int, list[tuple[Key, int]]]
    )


class SettledChecker(Checker):
    """A race checker that looks at what warps know of the arrivals of a phase when they test it."""

    def __init__(self, settled: Settled, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._settled = settled
        self._arrivals: dict[tuple[Key, int], list[tuple[int, int]]] = defaultdict(list)
        """By barrier and phase: column and clock of the warps that arrived."""

    def arrive(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        super().arrive(warp, barrier, phase, **options)
        executor = self._state.warp(warp)
        self._arrivals[barrier, phase].append((executor.agent.column, executor.clock))

    def commit(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        super().commit(warp, barrier, phase, **options)
        self._arrivals[barrier, phase].append((0, _UNKNOWN))

    def track(self, operation: int, barrier: Key, phase: int) -> None:
        super().track(operation, barrier, phase)
        self._arrivals[barrier, phase].append((0, _UNKNOWN))

    def wait(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        if options["line"] == self._settled.line and phase >= 0:
            self._settled.found.setdefault(warp, []).append((barrier, phase))
            known = self._state.warp(warp).rows[CAUSAL]
            self._settled.open |= any(
                column >= known.size or known[column] < clock
                for column, clock in self._arrivals[barrier, phase]
            )
        super().wait(warp, barrier, phase, **options)


class _Emulator(Emulator):
    """Runs launches with such a checker."""

    settled: Settled

    def _new_checker(self, *arguments: Any, **options: Any) -> Checker:
        return SettledChecker(self.settled, *arguments, **options)


def settled(campaign: Campaign, mutant: Mutant, launches: Iterable[int]) -> str:
    """Why a test with a flipped parity does no harm; empty if its outcome may differ."""
    at = mutant.original.body.index(mutant.instruction)
    for number in launches:
        seen = _run(campaign, number, mutant.original, mutant, Held(0, [at]))
        if seen is None or seen.open:
            return ""
    return "the test finds the same phase in every order, so that the flipped one is False, always"


def same_phases(campaign: Campaign, mutant: Mutant, launches: Iterable[int]) -> str:
    """Why a wait for another mbarrier does as well: it waits for the same phases as late and as
    early as can be, and what they tell is all that is needed; empty if it is not so."""
    at = mutant.place()
    if at is None:
        return ""
    for number in launches:
        policies = Held(0, [at]), Rushed(0, [at]), Rushed(0, [at], always=True)
        runs = [_run(campaign, number, mutant.kernel, mutant, policy) for policy in policies]
        first = runs[0]
        if first is None or any(run is None or run.found != first.found for run in runs):
            return ""
    return "the wait for the next mbarrier ends with the same phase in every order; that is enough"


def _run(
    campaign: Campaign, number: int, kernel: Kernel, mutant: Mutant, policy: Policy
) -> Settled | None:
    """What is seen of the line of a mutant; None if there is a fault."""
    emulator = _Emulator(
        policy, "first", campaign.capture.switches,
        rewrite=lambda module: replace(module, kernels={**module.kernels, kernel.name: kernel}),
    )  # fmt: skip
    emulator.settled = Settled(mutant.instruction.line)
    try:
        campaign.execute(number, emulator)
    except EmulationError:
        return None
    return emulator.settled
