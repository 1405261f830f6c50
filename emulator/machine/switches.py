"""Where the PTX ISA leaves room: one field per ambiguity, with the reading that is taken.

The names follow the S-numbers of the project's notes on synchronization semantics; each docstring
states the question. Defaults are the readings under which NVIDIA's own kernels are clean.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AsyncScope(StrEnum):
    LENIENT = "lenient"
    STRICT = "strict"


class BulkClause(StrEnum):
    MECHANISM = "mechanism"
    LITERAL = "literal"


class Verdict(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


class FencePosition(StrEnum):
    ACCESSOR_SIDE = "accessor-side"
    ANYWHERE = "anywhere"


class ProductSteps(StrEnum):
    STRICT = "strict"
    TABLE39 = "table39"


class EmptyCommit(StrEnum):
    LOCAL_ONLY = "local-only"
    ALL = "all"


class OutOfBoundsBytes(StrEnum):
    FULL_BOX = "full-box"
    IN_BOUNDS = "in-bounds"


class CommitOrder(StrEnum):
    RELEASE = "commit is release.cluster"
    TCGEN05_ONLY = "tcgen05-only"


class UnwaitedLoad(StrEnum):
    ERROR = "error"
    REVIEW = "review"
    ACCEPT = "accept when all lanes' registers are consumed"


class InitFence(StrEnum):
    CLUSTER_ONLY = "cluster-only"
    ALWAYS = "always"


class CopyProxy(StrEnum):
    GENERIC_SIDE = "generic-side"
    NONE = "none"


class StoreProxy(StrEnum):
    GENERIC = "generic"
    ASYNC = "async"


class ReadRead(StrEnum):
    NO_RACE = "no race"
    FENCE_REQUIRED = "fence required"


class Spurious(StrEnum):
    NONDETERMINISTIC = "nondeterministic"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """One reading of the ISA."""

    async_scope: AsyncScope = AsyncScope.LENIENT
    """S1: does a ``.cta`` wait synchronize with a complete-tx that another CTA issued?"""
    bulk_clause: BulkClause = BulkClause.MECHANISM
    """S2: does a phase cover all copies that it tracks, or those requested before an arrive?"""
    async_other_cta: Verdict = Verdict.WARNING
    """S3: asynchronous writes of different CTAs into the same shared memory (advisory)."""
    fence_position: FencePosition = FencePosition.ACCESSOR_SIDE
    """S5: must the proxy fence be on the side of the accessing thread, before the hand-off?"""
    product_steps: ProductSteps = ProductSteps.STRICT
    """S6: which N tcgen05.mma takes."""
    empty_commit: EmptyCommit = EmptyCommit.LOCAL_ONLY
    """S7: whom a multicast tcgen05.commit signals that has nothing to track."""
    out_of_bounds_bytes: OutOfBoundsBytes = OutOfBoundsBytes.FULL_BOX
    """S8: the bytes that a copy reports for a box that is partly outside of the tensor."""
    commit_order: CommitOrder = CommitOrder.RELEASE
    """S9: does tcgen05.commit order the reuse of shared memory by itself?"""
    unwaited_load: UnwaitedLoad = UnwaitedLoad.ACCEPT
    """S10: tcgen05.ld without wait::ld before its tensor memory is given away."""
    init_fence: InitFence = InitFence.CLUSTER_ONLY
    """S11: is fence.mbarrier_init needed inside one CTA?"""
    copy_proxy: CopyProxy = CopyProxy.GENERIC_SIDE
    """S12: does data of a non-bulk cp.async need a fence before the async proxy reads it?"""
    store_proxy: StoreProxy = StoreProxy.GENERIC
    """S13: the proxy of st.async and red.async."""
    consumption: Verdict = Verdict.ERROR
    """S15: a phase that nobody observed before the arrive-on of the following phase (rule B7)."""
    dealloc_blocks: bool = True
    """S16: tcgen05.dealloc with cta_group::2 waits for the other CTA."""
    read_read: ReadRead = ReadRead.NO_RACE
    """S17: reads through two proxies without a fence between."""
    spurious: Spurious = Spurious.NONDETERMINISTIC
    """S19: try_wait returns False now and then although it need not (never in round-robin)."""
