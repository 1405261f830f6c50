"""What a finding says in one line, and what is usually done about it."""

from __future__ import annotations

from schedgen.emulator.order.findings import Defect, Finding, Flaw, Missing, Race

_MISSING = {
    Missing.HAND_OFF: (
        "let the first warp arrive behind its access and the second one wait before its own: "
        "a barrier of all threads (cute.arch.barrier), a named barrier (arrive, arrive_and_wait), "
        "or a stage of a pipeline (producer_commit and consumer_wait; consumer_release and "
        "producer_acquire where a buffer is written again)"
    ),
    Missing.PROXY_FENCE: (
        "fence.proxy.async (cute.arch.fence_proxy, fence_view_async_shared) in the thread that "
        "wrote, behind the write and before the barrier or arrive that hands it over"
    ),
    Missing.PHASE_WAIT: (
        "wait for the phase of the mbarrier that the copy completes (consumer_wait) in a thread "
        "that hands over to this one, or in this one"
    ),
    Missing.COMMIT: (
        "tcgen05.commit (umma_arrive, a pipeline's consumer_release or producer_commit) behind the "
        "product, and a wait for its mbarrier"
    ),
    Missing.TENSOR_WAIT: (
        "tcgen05.wait::ld or ::st (cute.arch.fence_view_async_tmem_load, _store) behind the access "
        "and before the arrive that hands tensor memory over"
    ),
    Missing.FENCE_BEFORE: "tcgen05.fence::before_thread_sync before the arrive or barrier",
    Missing.FENCE_AFTER: "tcgen05.fence::after_thread_sync behind the wait or barrier",
    Missing.GROUP_WAIT: (
        "wait for the group (cp_async_bulk_wait_group, wgmma's wait_group, cp_async_wait_group) in "
        "the thread that issued the operation, then a barrier for all others"
    ),
    Missing.ARRIVE: "issue the copy before the arrive that it is to be covered by",
    Missing.THREAD_BLOCK: "let one CTA issue both, or order them by a barrier of the cluster",
    Missing.MAP_FENCE: (
        "fence.proxy.tensormap::generic.release behind the change (tensormap update), a hand-off, "
        "and .acquire of the map in the warp that issues the copy"
    ),
}
_FLAWS = {
    Flaw.UNINITIALIZED: (
        "write the bytes before (zero-fill what a copy or a predicate leaves out), hand them over, "
        "or do not let the result depend on them"
    ),
    Flaw.FREED: "deallocate behind a barrier of all warps that use tensor memory",
    Flaw.UNPUBLISHED: (
        "fence.mbarrier_init (cute.arch.mbarrier_init_fence) behind the init, then a barrier of "
        "the cluster (cluster_arrive_relaxed, cluster_wait) before the first use"
    ),
    Flaw.UNOBSERVED: "wait for each phase before the arrivals of the next one",
    Flaw.IN_USE: "change the mbarrier only where no thread can wait for it or arrive on it",
    Flaw.EARLY: "griddepcontrol.wait (cute.arch.griddepcontrol_wait) before the access",
    Flaw.OUTLIVES: (
        "let the CTA stay until its shared memory is no longer used: wait for its own stores, or a "
        "barrier of the cluster at the end"
    ),
}
_RULES = {
    "N7": (
        "let all four warps of a warpgroup execute the same setmaxnreg, idle ones, too, before "
        "their roles part"
    ),
    "W2": "wgmma.fence (warpgroup.fence) between the access to the registers and the product",
    "C16": (
        "give tcgen05.ld and st an address that is the same in all lanes of a warp: partition_S of "
        "a thread's slice for loads, partition_D for stores"
    ),
    "C14": "deallocate behind a barrier of all users; of a pair, when the peer has finished, too",
    "N9": _FLAWS[Flaw.OUTLIVES],
    "T13": "wait until no copy uses the map before it is changed",
}


def repair_of(finding: Finding) -> str:
    """What usually repairs it, in the words of CuTe DSL; may be empty."""
    if isinstance(finding, Race):
        return _RULES.get(finding.rule) or _MISSING[finding.missing]
    if isinstance(finding, Defect):
        return _FLAWS[finding.flaw]
    return _RULES.get(finding.rule, "")


def summary_of(finding: Race | Defect) -> str:
    """One line without the place."""
    if isinstance(finding, Defect):
        return finding.flaw.value
    kind = finding.kind.replace("after", f"after {finding.earlier.proxy.value}")
    return f"race, {finding.later.proxy.value} {kind}"
