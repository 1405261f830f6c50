"""Where the PTX ISA leaves room: one field per ambiguity, with the reading that is taken.

The S-numbers are those of docs/emulator.md and of what findings say; each docstring states the
question. Defaults are the readings under which NVIDIA's own kernels are clean: under the letter of
the text not one of its Blackwell kernels is free of races. `chosen` reads them from text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from schedgen.errors import SchedgenError, suggest


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
    WRITER_SIDE = "writer-side"
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
    RELEASE = "release"
    TCGEN05_ONLY = "tcgen05-only"


class UnwaitedLoad(StrEnum):
    ERROR = "error"
    REVIEW = "review"
    ACCEPT = "accept"


class InitFence(StrEnum):
    CLUSTER_ONLY = "cluster-only"
    ALWAYS = "always"


class CopyProxy(StrEnum):
    GENERIC_SIDE = "generic-side"
    NONE = "none"


class StoreProxy(StrEnum):
    ASYNC = "async"
    GENERIC = "generic"


class ReadRead(StrEnum):
    NO_RACE = "no-race"
    FENCE_REQUIRED = "fence-required"


class Spurious(StrEnum):
    NONDETERMINISTIC = "nondeterministic"
    NEVER = "never"


class TensorFences(StrEnum):
    IMPLIED = "implied"
    REQUIRED = "required"


class RemoteScope(StrEnum):
    IMPLIED = "implied"
    AS_WRITTEN = "as-written"


class ProductOrder(StrEnum):
    QUEUE = "queue"
    ACCUMULATOR = "accumulator"


class Accumulation(StrEnum):
    FLOAT32 = "float32"
    H200 = "h200"


class EarlyStart(StrEnum):
    SEEN = "seen"
    ANY = "any"


class RepeatedArrival(StrEnum):
    COUNTS = "counts"
    ERROR = "error"


class LaneInAddress(StrEnum):
    OF_THE_WARP = "of-the-warp"
    AS_WRITTEN = "as-written"


class Uninitialized(StrEnum):
    USED = "used"
    ERROR = "error"
    WARNING = "warning"
    OFF = "off"

    @property
    def verdict(self) -> Verdict:
        """While a launch is executed, before it is known whether a read is used."""
        return Verdict.ERROR if self is Uninitialized.USED else Verdict(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """One reading of the ISA."""

    async_scope: AsyncScope = AsyncScope.LENIENT
    """S1: does a ``.cta`` wait synchronize with a complete-tx that another CTA issued?"""
    bulk_clause: BulkClause = BulkClause.MECHANISM
    """S2: does a phase cover all copies that it tracks, or those requested before an arrive?"""
    async_other_cta: Verdict = Verdict.WARNING
    """S3: asynchronous writes of different CTAs into the same shared memory (advisory)."""
    fence_position: FencePosition = FencePosition.WRITER_SIDE
    """S5: must the proxy fence be on the side of the accessing thread, before the hand-off? That of
    writes must (CUDA programming guide; pytorch/ao PR 4278, FlashKDA issue 24): what was written
    has to get out of the generic proxy of whoever wrote it. A read leaves nothing behind: once the
    thread that issues the copy knows of it, a fence of that thread, on the path that 8.9.5 asks
    for, keeps the copy behind it (DeepEP PR 642, "between mbarrier wait and TMA load")."""
    product_steps: ProductSteps = ProductSteps.TABLE39
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
    store_proxy: StoreProxy = StoreProxy.ASYNC
    """S13: the proxy of st.async and red.async. The text does not say; quack's tile scheduler has a
    proxy fence between the reads of a slot and the arrive that lets st.async overwrite it, without
    which its authors saw races and deadlocks (quack 0.6.5, tile_scheduler.py)."""
    consumption: Verdict = Verdict.ERROR
    """S15: a phase that nobody observed before the arrive-on of the following phase (rule B7)."""
    dealloc_blocks: bool = True
    """S16: tcgen05.dealloc with cta_group::2 waits for the other CTA."""
    read_read: ReadRead = ReadRead.NO_RACE
    """S17: reads through two proxies without a fence between."""
    spurious: Spurious = Spurious.NONDETERMINISTIC
    """S19: try_wait returns False now and then although it need not (never in round-robin)."""
    tensor_fences: TensorFences = TensorFences.IMPLIED
    """S20: are tcgen05.fence::before_thread_sync and ::after_thread_sync needed around a release
    and an acquire (PTX ISA 9.7.16.6.3)? No kernel that CuTe DSL 4.8 compiles contains one."""
    remote_scope: RemoteScope = RemoteScope.IMPLIED
    """S21: does an mbarrier arrive on another CTA's object order memory although it is written
    without ``.cluster``, and is waited for with ``.acquire.cta``? Its default is ``.cta``
    (9.7.13.15.13), too small for the other CTA (8.7); CUTLASS writes it so everywhere."""
    product_order: ProductOrder = ProductOrder.QUEUE
    """S22: do all tcgen05.mma, cp and shift of a thread execute in order, or only those pairs that
    9.7.16.6.2 lists (the same accumulator and shape, cp before mma)? FlashAttention-4 overwrites S
    over P behind the product that reads P, and block-scaled kernels overwrite scale factors."""
    store_at_exit: Verdict = Verdict.WARNING
    """S23: may a CTA exit while something of its own is under way: a bulk store that reads its
    shared memory, a tcgen05.commit that arrives on its mbarrier? The ISA does not say that its
    shared memory lives on; CUTLASS waits for its stores at the end, but its Hopper attention
    example (CuTe DSL 4.8) leaves the last one pending, and its backward attention for Blackwell,
    like FlashAttention-4's, the release of a stage that nobody fills again."""

    accumulation: Accumulation = Accumulation.FLOAT32
    """S24: how wgmma adds products of floating-point numbers: in float32, or to the bits of an H200
    (slower). The ISA leaves it open."""
    early_start: EarlyStart = EarlyStart.SEEN
    """S25: which launches with the attribute for it may begin before the one in front of them has
    ended (L1): those behind a launch that this emulator saw execute griddepcontrol.
    launch_dependents, or all, because nobody knows what they will be launched behind."""

    repeated_arrival: RepeatedArrival = RepeatedArrival.COUNTS
    """S26: may a warp arrive at a named barrier again before the barrier is reset (N3)? 9.7.13.1
    asks for care that a warp does not execute more barrier instructions than intended; it calls
    unpredictable only what mixes bar.red with other forms. Where warpgroups take turns (quack,
    FlashAttention-4), the first one arrives for the turn that it waits for itself."""

    lane_in_address: LaneInAddress = LaneInAddress.OF_THE_WARP
    """S27: what lanes 0 to 31 in the address of tcgen05.ld and st are in warps 1 to 3 of a
    warpgroup, which cannot reach them (C16, 9.7.16.8.1): those of the warp's own lanes, or an
    error. DeepGEMM's epilogues for sm_100 add no lane to the address, in any warp."""

    uninitialized: Uninitialized = Uninitialized.USED
    """S28: reads of shared or tensor memory that nobody wrote (K9): an error if what the launch
    leaves in global memory depends on what is read there, else a warning; or one and the same for
    all of them. Rows behind the end of a tensor are loaded and computed with, and not stored."""

    wide_parity: Verdict = Verdict.WARNING
    """S29: a phase parity above 1 (B9). 9.7.13.15.16 has 0 and 1; ptxas shifts the register left by
    31 for sm_90a and sm_100a, so that its lowest bit counts. quack 0.6.5 counts the rounds of a
    ring in it (PipelineStateWAdvance.advance_iters)."""

    same_value: Verdict = Verdict.WARNING
    """S30: two unordered ordinary writes that leave the same bytes where both write (K1):
    whichever comes last, nobody sees a difference. Triton's layouts let several warps write what
    they all computed."""


IDS = {
    "async_scope": "S1", "bulk_clause": "S2", "async_other_cta": "S3", "fence_position": "S5",
    "product_steps": "S6", "empty_commit": "S7", "out_of_bounds_bytes": "S8", "commit_order": "S9",
    "unwaited_load": "S10", "init_fence": "S11", "copy_proxy": "S12", "store_proxy": "S13",
    "consumption": "S15", "dealloc_blocks": "S16", "read_read": "S17", "spurious": "S19",
    "tensor_fences": "S20", "remote_scope": "S21", "product_order": "S22", "store_at_exit": "S23",
    "accumulation": "S24", "early_start": "S25",
    "repeated_arrival": "S26", "lane_in_address": "S27",
    "uninitialized": "S28", "wide_parity": "S29", "same_value": "S30",
}  # fmt: skip
"""The number of each field. S4, S14 and S18 have one reading here."""
STRICT = Switches(
    product_steps=ProductSteps.STRICT,
    fence_position=FencePosition.ACCESSOR_SIDE,
    unwaited_load=UnwaitedLoad.ERROR,
    tensor_fences=TensorFences.REQUIRED,
    remote_scope=RemoteScope.AS_WRITTEN,
    product_order=ProductOrder.ACCUMULATOR,
    store_at_exit=Verdict.ERROR,
    early_start=EarlyStart.ANY,
    repeated_arrival=RepeatedArrival.ERROR,
    lane_in_address=LaneInAddress.AS_WRITTEN,
    uninitialized=Uninitialized.ERROR,
    wide_parity=Verdict.ERROR,
    same_value=Verdict.ERROR,
)
"""The letter of the PTX ISA, where its text is clear and NVIDIA's kernels rely on less."""


def label(name: str) -> str:
    """A switch as findings print it and as `chosen` takes it, such as ``S11 init_fence``."""
    return f"{IDS[name]} {name}"


def readings(name: str) -> tuple[str, ...]:
    """The values of a switch as text; its default is first."""
    default: StrEnum | bool = getattr(Switches(), name)
    every = ("true", "false") if isinstance(default, bool) else [str(o) for o in type(default)]
    first = str(default).lower()
    return (first, *(one for one in every if one != first))


def chosen(settings: Mapping[str, str], base: Switches | None = None) -> Switches:
    """Switches with some of them given by number or name, as ``S11`` or ``init_fence``, and value.

    Raises:
        SchedgenError: there is no such switch, or it has no such reading.
    """
    base = base or Switches()
    names = {number.lower(): name for name, number in IDS.items()} | {name: name for name in IDS}
    found: dict[str, object] = {}
    for given, value in settings.items():
        name = names.get(given.lower().replace("-", "_"))
        if name is None:
            fix = suggest(given, names) or f"the switches are {', '.join(map(label, IDS))}"
            raise SchedgenError(f"there is no switch '{given}'; {fix}")
        if value not in readings(name):
            allowed = ", ".join(readings(name))
            raise SchedgenError(f"switch {label(name)}: '{value}' is none of {allowed}")
        now: StrEnum | bool = getattr(base, name)
        found[name] = value == "true" if isinstance(now, bool) else type(now)(value)
    return replace(base, **found)  # pyright: ignore[reportArgumentType]


assert set(IDS) == {field.name for field in fields(Switches)}
