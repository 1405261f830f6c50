"""What would order two accesses that nothing orders: which piece of knowledge is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from schedgen.emulator.machine.switches import label
from schedgen.emulator.order.agents import Agent, Kind
from schedgen.emulator.order.findings import Missing
from schedgen.emulator.order.knowledge import ANYWHERE, CAUSAL, PUBLISHED, Message
from schedgen.emulator.order.records import Record
from schedgen.emulator.order.tracker import Queue, Space
from schedgen.emulator.order.warps import Warp

EXIT = -1
"""In place of a line: the exit of a warp."""


@dataclass(frozen=True, slots=True)
class Need:
    """One sentence, its rule, and the switch that the verdict hangs on."""

    missing: Missing
    text: str
    rule: str
    switch: str | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """``first`` has to be ordered before ``second``, whose warp knew ``view`` (None: unknown)."""

    first: Record
    second: Record
    view: Message | None
    space: Space

    @property
    def reads(self) -> bool:
        """Whether threads read shared memory, behind which a fence of the other side will do."""
        return not self.first.writes and self.space is Space.SHARED

    @property
    def same_warp(self) -> bool:
        return self.first.origin.warp == self.second.origin.warp

    def knows(self, row: int, agent: Agent, clock: int) -> bool:
        return self.view is not None and self.view.knows(row, agent.cluster, agent.column, clock)

    @property
    def one(self) -> str:
        return f"warp {self.first.origin.warp}"

    @property
    def other(self) -> str:
        return f"warp {self.second.origin.warp}"

    @property
    def after(self) -> str:
        return f"after line {self.first.origin.line}"

    @property
    def before(self) -> str:
        line = self.second.origin.line
        return f"before line {line}" if line != EXIT else "before it exits"


class Explainer:
    """Finds out what is missing between two accesses.

    Args:
        warps: all warps that did something.
        fenced: kinds of agents whose accesses belong to the generic proxy.
    """

    def __init__(self, warps: Mapping[int, Warp], fenced: frozenset[Kind]) -> None:
        self._warps = warps
        self._fenced = fenced

    def need(self, earlier: Record, later: Record, view: Message, space: Space, born: int) -> Need:
        """What the pair needs.

        Args:
            view: what the later access's warp knew when it issued it.
            born: number of the first access after that: an earlier access from then on came while
                the later one, asynchronous, was under way, and should have waited for it.
        """
        if earlier.number >= born:
            return self._need(_Case(later, earlier, None, space))
        return self._need(_Case(earlier, later, view, space))

    def _need(self, case: _Case) -> Need:
        match case.first.agent.kind:
            case Kind.GENERIC:
                return self._generic(case)
            case Kind.COPY:
                return self._copy(case)
            case Kind.COMPLETE_TX | Kind.COMPLETE_TX_REMOTE | Kind.STORE_ASYNC:
                return self._phase(case)
            case Kind.REQUESTED:
                return self._requested(case)
            case Kind.BULK_READ | Kind.BULK_WRITE:
                return self._bulk(case)
            case Kind.WGMMA:
                return self._waited(case, "wgmma.commit_group and wgmma.wait_group", "W7")
            case Kind.QUEUE:
                return self._queue(case)
            case Kind.TMEM_LOAD | Kind.TMEM_STORE:
                return self._tensor(case)
            case kind:
                raise AssertionError(f"no access is stamped with {kind.name}")

    def _generic(self, case: _Case) -> Need:
        agent, clock = case.first.agent, case.first.clock
        asynchronous = case.second.agent.kind not in self._fenced
        if asynchronous and case.knows(CAUSAL, agent, clock):
            if case.same_warp:
                text = f"fence.proxy.async in {case.one} {case.after} and {case.before}"
            else:
                text = f"fence.proxy.async in {case.one} {case.after} and {self._hand_over(case)}"
                if case.reads:
                    text += f", or in {case.other} between its wait and line "
                    text += f"{case.second.origin.line}"
            anywhere = case.space is not Space.GLOBAL and case.knows(ANYWHERE, agent, clock)
            return Need(
                Missing.PROXY_FENCE, text, "X6", label("fence_position") if anywhere else None
            )
        fence = f"fence.proxy.async in {case.one} {case.after}, then " if asynchronous else ""
        return Need(Missing.HAND_OFF, fence + self._hand_off(case), "K1" if not fence else "X6")

    def _copy(self, case: _Case) -> Need:
        agent, clock = case.first.agent, case.first.clock
        if case.knows(CAUSAL, agent, clock):
            text = f"fence.proxy.async in {case.one} after the wait that follows line "
            text += f"{case.first.origin.line}, and {self._hand_over(case)}"
            switch = label("copy_proxy")
            if case.space is not Space.GLOBAL and case.knows(ANYWHERE, agent, clock):
                switch = f"{label('fence_position')} or {switch}"  # there is one somewhere
            return Need(Missing.PROXY_FENCE, text, "X6", switch)
        return self._waited(case, "cp.async.commit_group and cp.async.wait_group", "T11")

    def _phase(self, case: _Case) -> Need:
        agent, clock = case.first.agent, case.first.clock
        cta, offset, _ = cast(tuple[int, int, int], agent.owner)
        barrier = f"phase {clock - 1} of the mbarrier at {offset} of CTA {cta}"
        if agent.kind is Kind.STORE_ASYNC and case.knows(CAUSAL, agent, clock):
            text = f"fence.proxy.async in {case.other} after it waited for {barrier}"
            return Need(Missing.PROXY_FENCE, text, "X6", label("store_proxy"))
        text = f"a wait for {barrier} by {case.other} {case.before}"
        remote = agent.kind is Kind.COMPLETE_TX_REMOTE
        text += ", with .acquire.cluster: another CTA issued the copy" if remote else ""
        return Need(Missing.PHASE_WAIT, text, "B12", label("async_scope") if remote else None)

    def _requested(self, case: _Case) -> Need:
        text = f"a release-arrive by {case.one} {case.after} on the mbarrier of the copy, and a "
        text += f"wait for that phase by {case.other} {case.before}"
        return Need(Missing.ARRIVE, text, "B12", label("bulk_clause"))

    def _bulk(self, case: _Case) -> Need:
        read = ".read" if case.first.agent.kind is Kind.BULK_READ else ""
        what = f"cp.async.bulk.commit_group and cp.async.bulk.wait_group{read}"
        return self._waited(case, what, "T8" if read else "T9")

    def _waited(self, case: _Case, wait: str, rule: str) -> Need:
        """Groups: the issuer has to wait, and others have to learn that it did."""
        issuer = self._warps[case.first.origin.warp]
        at = issuer.waited_at(case.first.agent, case.first.clock)
        if case.same_warp:
            text = f"{wait} in {case.one} {case.after} and {case.before}"
            return Need(Missing.GROUP_WAIT, text, rule)
        handed = case.knows(CAUSAL, issuer.agent, case.first.origin.clock)
        if at is None or handed:
            text = f"{wait} in {case.one} {case.after} and {self._hand_over(case)}"
            return Need(Missing.GROUP_WAIT, text, rule)
        return Need(
            Missing.HAND_OFF, self._hand_off(case, f"after its {wait.rpartition(' ')[2]}"), rule
        )

    def _queue(self, case: _Case) -> Need:
        agent, clock = case.first.agent, case.first.clock
        issuer = self._warps[case.first.origin.warp]
        commit = issuer.commit_of(clock)
        tensor = case.space is Space.TENSOR
        if tensor and case.knows(PUBLISHED, agent, clock):
            return self._fence_after(case)
        if commit is None:
            text = f"tcgen05.commit in {case.one} {case.after}, and a wait for its mbarrier by "
            text += f"{case.other} {case.before}"
            switch = None
            if case.same_warp and case.second.origin.queue is Queue.MMA:
                text += " (only products of one accumulator and shape, or copy and product, are "
                text += "executed in order)"
                switch = label("product_order")
            return Need(Missing.COMMIT, text, "C4" if tensor else "C11", switch)
        text = f"a wait for phase {commit.phase} of the mbarrier at {commit.barrier[1]} of CTA "
        text += f"{commit.barrier[0]} (tcgen05.commit in line {commit.line}) by {case.other} "
        return Need(Missing.PHASE_WAIT, text + case.before, "C7a" if tensor else "C11")

    def _tensor(self, case: _Case) -> Need:
        agent, clock = case.first.agent, case.first.clock
        load = agent.kind is Kind.TMEM_LOAD
        wait, rule = ("tcgen05.wait::ld", "C7c") if load else ("tcgen05.wait::st", "C7d")
        switch = label("unwaited_load") if load and case.first.origin.consumed else None
        if case.same_warp:
            text = f"{wait} in {case.one} {case.after} and {case.before}"
            return Need(Missing.TENSOR_WAIT, text, "C8" if load else "C4", switch)
        issuer = self._warps[case.first.origin.warp]
        at = issuer.waited_at(agent, clock)
        handed = case.knows(CAUSAL, issuer.agent, case.first.origin.clock)
        if case.knows(PUBLISHED, agent, clock):
            return self._fence_after(case)
        if at is not None and case.knows(CAUSAL, issuer.agent, at):
            text = f"tcgen05.fence::before_thread_sync in {case.one} after its {wait} and "
            text += self._hand_over(case)
            return Need(Missing.FENCE_BEFORE, text, "C6", label("tensor_fences"))
        if at is None or handed:
            text = f"{wait} in {case.one} {case.after} and {self._hand_over(case)}"
            return Need(Missing.TENSOR_WAIT, text, rule, switch)
        return Need(Missing.HAND_OFF, self._hand_off(case, f"after its {wait}"), rule)

    def _fence_after(self, case: _Case) -> Need:
        text = f"tcgen05.fence::after_thread_sync in {case.other} {case.before}, after its wait"
        return Need(Missing.FENCE_AFTER, text, "C6", label("tensor_fences"))

    def _hand_over(self, case: _Case) -> str:
        """When the first warp told others, as far as it is known."""
        told = self._warps[case.first.origin.warp].told_after(case.first.origin.clock)
        if told is None:
            return f"before it hands over to {case.other}"
        return f"before its {told}"

    def _hand_off(self, case: _Case, since: str | None = None) -> str:
        if case.same_warp:
            return f"a barrier among the warps that execute line {case.second.origin.line} together"
        one, other = self._warps[case.first.origin.warp], self._warps[case.second.origin.warp]
        how = "an mbarrier or barrier hand-off"
        if one.cluster is not other.cluster:
            how = "a hand-off through global memory (release and acquire at .gpu scope)"
        elif one.cta != other.cta:
            how = "an mbarrier or barrier.cluster hand-off at .cluster scope"
        return f"{how} from {case.one} ({since or case.after}) to {case.other} ({case.before})"
