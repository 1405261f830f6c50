"""Further ambiguities of the ISA that only the order of accesses depends on.

They follow from comparing its text with PTX that NVIDIA's CuTe DSL 4.8 emits: under the letter of
the text not one of its Blackwell kernels is free of races. Defaults are the readings under which
those kernels are clean; generated code should be checked under `STRICT`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedgen.emulator.machine.switches import Verdict


class TensorFences(StrEnum):
    IMPLIED = "implied"
    REQUIRED = "required"


class RemoteScope(StrEnum):
    IMPLIED = "implied"
    AS_WRITTEN = "as written"


class ProductOrder(StrEnum):
    QUEUE = "queue"
    ACCUMULATOR = "accumulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One reading of four points; see each."""

    tensor_fences: TensorFences = TensorFences.IMPLIED
    """Are tcgen05.fence::before_thread_sync and ::after_thread_sync needed around a release and an
    acquire (PTX ISA 9.7.16.6.3)? No kernel that CuTe DSL 4.8 compiles contains one."""
    remote_scope: RemoteScope = RemoteScope.IMPLIED
    """Does an mbarrier arrive on another CTA's object order memory although it is written without
    ``.cluster``, and is waited for with ``.acquire.cta``? Its default is ``.cta`` (9.7.13.15.13),
    too small for the other CTA (8.7); CUTLASS writes it so everywhere."""
    product_order: ProductOrder = ProductOrder.QUEUE
    """Do all tcgen05.mma, cp and shift of a thread execute in order, or only those pairs that
    9.7.16.6.2 lists (the same accumulator and shape, cp before mma)? FlashAttention-4 overwrites S
    over P behind the product that reads P, and block-scaled kernels overwrite scale factors."""
    store_at_exit: Verdict = Verdict.WARNING
    """May a CTA exit while a bulk store still reads its shared memory? The ISA does not say that
    its shared memory lives on; CUTLASS waits for its stores at the end, but its Hopper attention
    example (CuTe DSL 4.8) leaves the last one pending."""


STRICT = Readings(
    tensor_fences=TensorFences.REQUIRED,
    remote_scope=RemoteScope.AS_WRITTEN,
    product_order=ProductOrder.ACCUMULATOR,
    store_at_exit=Verdict.ERROR,
)
"""The letter of the PTX ISA."""
