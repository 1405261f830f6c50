"""The race checker: happens-before over the generic, async and tensor proxies.

It is told what a kernel does (`tracker.Tracker`) and compares each access with those before it to
the same cells: is it ordered after them, in every execution in which the same accesses happen? Not
what the run happened to do first counts, but what the kernel's synchronization makes sure of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace

import numpy as np

from schedgen.emulator.machine.switches import Switches, Verdict
from schedgen.emulator.order.accesses import Accesses, Who
from schedgen.emulator.order.arrivals import Mbarriers
from schedgen.emulator.order.barriers import Atomics, Barriers
from schedgen.emulator.order.exits import Exits
from schedgen.emulator.order.findings import (
    Broken,
    Defect,
    Describe,
    Finding,
    Findings,
    Flaw,
    Severity,
)
from schedgen.emulator.order.footprint import Footprint, Ranges
from schedgen.emulator.order.groups import Group, Source, grouped
from schedgen.emulator.order.knowledge import CAUSAL, PUBLISHED, TENSOR
from schedgen.emulator.order.maps import Maps
from schedgen.emulator.order.operations import Operations
from schedgen.emulator.order.predecessor import Predecessor
from schedgen.emulator.order.state import State
from schedgen.emulator.order.streams import Streams
from schedgen.emulator.order.together import Together
from schedgen.emulator.order.tracker import Cells, Changed, Queue, Space
from schedgen.emulator.order.warps import CLUSTER_SCOPE, CTA_SCOPE, GPU_SCOPE

_LIMIT = 200


class Checker:
    """Finds accesses that nothing orders. Implements `tracker.Tracker`; see there for methods.

    Args:
        warps_per_cta: warps are numbered through the launch, CTA after CTA.
        cluster_of: the number of the cluster of a CTA; None: every CTA is a cluster of its own.
        switches: how ambiguities of the ISA are read (S1, S2, S3, S5, S9 to S13, S15, S17).
        uninitialized: what reading a cell of shared or tensor memory is that nobody wrote.
        limit: how many different findings are kept.
        describe: the text and source of a line of PTX, for reports.
        source: where a line of PTX comes from, to group findings by; each line by default.
        stop: raise an error at the first finding that is no mere advice.
        demoted: rules of which breaches are warnings.
        dependent: the kernel may begin while the one before it still runs.
        before: what that one, and others that may still run, did to global memory; None: anything.
        listener: is told of each finding.
    """

    def __init__(
        self,
        warps_per_cta: int,
        cluster_of: Callable[[int], int] | None = None,
        *,
        switches: Switches | None = None,
        uninitialized: Verdict = Verdict.ERROR,
        limit: int = _LIMIT,
        describe: Describe | None = None,
        source: Source | None = None,
        stop: bool = False,
        demoted: Collection[str] = frozenset(),
        dependent: bool = False,
        before: Footprint | None = None,
        followed: Ranges | None = None,
        listener: Callable[[Finding], None] | None = None,
    ) -> None:
        self._state = State(
            warps_per_cta, cluster_of or _alone, switches or Switches(), limit, stop, demoted,
        )  # fmt: skip
        self._state.findings.listener = listener
        self._describe = describe or _no_text
        self._source = source or _itself
        self._accesses = Accesses(self._state, uninitialized)
        if dependent:
            self._accesses.predecessor = Predecessor(self._state, before, followed)
        self._released: list[Cells] = []
        self._counted: list[Cells] = []
        self._together = Together(self._state)
        self._operations = Operations(self._state, self._accesses)
        self._mbarriers = Mbarriers(self._state, self._operations)
        self._barriers = Barriers(self._state)
        self._atomics = Atomics()
        self._maps = Maps(self._state, self._accesses)
        self._streams = Streams(self._state)
        self._exits = Exits(self._state, self._accesses, self._mbarriers)

    # -- results --------------------------------------------------------------------------------

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each finding once, in the order in which they were met."""
        return tuple(finding for finding, _ in self._state.findings.all())

    @property
    def groups(self) -> tuple[Group, ...]:
        """The findings, those together that are one to a person; errors first."""
        return grouped(self._state.findings.all(), self._source)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that no switch makes advice."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    def footprint(self) -> Footprint:
        """What the launch did to global memory."""
        found = self._state.memory.footprint()
        words = Ranges.touched(self._released), Ranges.touched(self._counted)
        return replace(found, released=words[0], counted=words[1])

    @property
    def inits(self) -> dict[tuple[int, int], int]:
        """The line that initialized each mbarrier, by its CTA and offset."""
        return {one.key: one.init.line for one in self._mbarriers.all() if one.init is not None}

    @property
    def reads_unwritten(self) -> bool:
        """Whether there is an error about a read of what nobody wrote (K9)."""
        return any(isinstance(f, Defect) and f.flaw is Flaw.UNINITIALIZED for f in self.errors)

    def demote(self, flaw: Flaw, needs: str) -> None:
        """Makes defects of a kind warnings: more became known than one execution can tell."""
        self._state.findings.demote(flaw, needs)

    def broken(self, line: int, rule: str, problem: str, *, warning: bool = False) -> None:
        severity = Severity.WARNING if warning else Severity.ERROR
        self._state.findings.add(Broken(line, rule, problem, severity))

    @property
    def kept(self) -> Findings:
        """All that was found, for `join_findings`."""
        return self._state.findings

    def join_findings(self, other: Findings) -> None:
        """Adds what the checker of another execution of the same launch has found."""
        self._state.findings.join(other)

    def report(self) -> str:
        """What was found, for a person."""
        if not self.findings:
            return "no race found"
        texts = [group.text(self._describe) for group in self.groups]
        if beyond := self._state.findings.beyond:
            texts.append(f"… and others, met {beyond} times")
        return "\n\n".join(texts)

    def close(self) -> None:
        """The launch is over: looks at what may have been under way when CTAs exited (N9)."""
        self._exits.check()

    # -- accesses -------------------------------------------------------------------------------

    def generic(
        self,
        warp: int,
        cells: Cells,
        *,
        write: bool,
        line: int,
        atomic: bool = False,
        acquire: bool = False,
        release: bool = False,
        adds: bool = False,
        same: bool = False,
        changed: Changed | None = None,
    ) -> None:
        who = self._who(warp, line, CAUSAL, changed)
        self._accesses.access(who, cells, write=write, atomic=atomic, same=same)
        if release and write and cells.space is Space.GLOBAL:
            self._released.append(cells)
            if adds:
                self._counted.append(cells)
        if atomic:
            executor = self._state.warp(warp)
            self._atomics.access(executor, cells, write=write, acquire=acquire, release=release)

    def together(
        self,
        warps: Sequence[int],
        cells: Sequence[Cells],
        whole: Cells,
        *,
        write: bool,
        line: int,
    ) -> bool:
        return self._together.possible(warps, cells, whole, line, write)

    def entered(self, *, write: bool, line: int, same: Sequence[bool]) -> None:
        self._together.enter(line, write, same)

    def issue(
        self,
        warp: int,
        queue: Queue,
        line: int,
        *,
        together: tuple[int, ...] = (),
        chain: Hashable = None,
    ) -> int:
        return self._operations.issue(warp, queue, line, together, chain)

    def access(self, operation: int, cells: Cells, *, write: bool, atomic: bool = False) -> None:
        self._operations.access(operation, cells, write, atomic)

    def finish(self, operation: int) -> None:
        self._operations.finish(operation)

    def consumed(self, operation: int) -> None:
        self._operations.consumed(operation)

    def allocate(self, warp: int, cells: Cells, line: int) -> None:
        self._accesses.allocate(cells)

    def deallocate(self, warp: int, cells: Cells, line: int, peer: Cells | None = None) -> None:
        # Synchronous: what reached the warp is over, whether or not a fence::after came (C1).
        who = self._who(warp, line, TENSOR)
        after = np.maximum(who.vector, who.view.rows[PUBLISHED])
        self._accesses.deallocate(who._replace(vector=after), cells, peer)

    # -- mbarriers ------------------------------------------------------------------------------

    def barrier_init(self, warp: int, barrier: tuple[int, int], line: int) -> None:
        self._mbarriers.initialize(self._state.warp(warp), barrier, line)

    def barrier_invalidate(self, warp: int, barrier: tuple[int, int], line: int) -> None:
        self._mbarriers.invalidate(self._state.warp(warp), barrier, line)

    def arrive(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None:
        executor = self._state.warp(warp)
        self._mbarriers.arrive(executor, barrier, phase, line, cluster, relaxed)

    def track(self, operation: int, barrier: tuple[int, int], phase: int) -> None:
        self._mbarriers.track(operation, barrier, phase)

    def commit(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        operation: int | None = None,
    ) -> None:
        self._mbarriers.commit(self._state.warp(warp), barrier, phase, line, operation)

    def wait(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None:
        executor = self._state.warp(warp)
        self._mbarriers.wait(executor, barrier, phase, line, cluster, relaxed)

    # -- groups ---------------------------------------------------------------------------------

    def bulk_commit(self, warp: int) -> None:
        self._streams.bulk_commit(self._state.warp(warp))

    def bulk_wait(self, warp: int, pending: int, *, read: bool) -> None:
        self._streams.bulk_wait(self._state.warp(warp), pending, read)

    def group_commit(self, warp: int, queue: Queue) -> None:
        self._streams.group_commit(self._state.warp(warp), queue)

    def group_wait(self, warp: int, queue: Queue, pending: int) -> None:
        self._streams.group_wait(self._state.warp(warp), queue, pending)

    def tmem_wait(self, warp: int, queue: Queue) -> None:
        self._streams.tmem_wait(self._state.warp(warp), queue)

    # -- fences and barriers --------------------------------------------------------------------

    def proxy_fence(self, warp: int, space: Space | None) -> None:
        self._state.warp(warp).proxy_fence(space)

    def map_release(self, warp: int) -> None:
        self._maps.release(warp)

    def map_acquire(self, warp: int, address: int) -> None:
        self._maps.acquire(warp, address)

    def map_use(self, warp: int, cells: Cells, line: int) -> None:
        self._maps.use(warp, cells, line)

    def barrier_init_fence(self, warp: int) -> None:
        self._state.warp(warp).publish_inits()

    def predecessor_count(self, warp: int, cells: Cells) -> bool:
        front = self._accesses.predecessor
        return front is None or front.acquire(warp, cells)

    def predecessor_wait(self, warp: int) -> None:
        if self._accesses.predecessor is not None:
            self._accesses.predecessor.waited(warp)

    def tcgen05_fence(self, warp: int, *, before: bool) -> None:
        self._state.warp(warp).tensor_fence(before=before)

    def thread_fence(self, warp: int, *, cluster: bool, gpu: bool = True) -> None:
        scope = CTA_SCOPE if not cluster else GPU_SCOPE if gpu else CLUSTER_SCOPE
        self._state.warp(warp).fence(scope)

    def signal(
        self,
        warp: int,
        barrier: tuple[int, int],
        generation: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None:
        executor = self._state.warp(warp)
        self._barriers.signal(executor, barrier, generation, line, cluster, relaxed)

    def leave(
        self,
        warp: int,
        barrier: tuple[int, int],
        generation: int,
        *,
        line: int,
        cluster: bool = False,
    ) -> None:
        self._barriers.leave(self._state.warp(warp), barrier, generation)

    def join(self, arrived: tuple[int, ...], leaving: tuple[int, ...], *, cluster: bool) -> None:
        self._barriers.join(arrived, leaving, cluster)

    def _who(self, number: int, line: int, row: int, changed: Changed | None = None) -> Who:
        """An ordinary access by a warp, ordered after what it knows in the sense of ``row``."""
        state = self._state
        warp = state.warp(number)
        rows = warp.touch()
        origin = state.origin(warp, line)
        view = warp.now()
        born = len(state.records)
        return Who(warp.agent, warp.clock, origin, rows[row], view, False, born, changed)


def _alone(cta: int) -> int:
    return cta


def _itself(line: int) -> int:
    return line


def _no_text(line: int) -> str:
    return ""
