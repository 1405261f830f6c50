"""Operands of tensor cores: shared-memory images, descriptors, and code that brings them there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import MatrixDescriptor, addresses
from schedgen.emulator.layouts.formats import from_float32
from schedgen.emulator.layouts.swizzle import Swizzle

BASE = 1024
"""Shared-memory address of the image: the first bytes belong to the system."""
WGMMA = {Swizzle.NONE: 0, Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}
TCGEN05 = {
    Swizzle.NONE: 0,
    Swizzle.B128_ATOM32: 1,
    Swizzle.B128: 2,
    Swizzle.B64: 4,
    Swizzle.B32: 6,
}


def codes(values: NDArray[Any], format_: str) -> NDArray[Any]:
    """Codes of small integers in the format of an operand."""
    if format_ in ("s8", "u8"):
        return values.astype(np.int8 if format_ == "s8" else np.uint8).view(np.uint8)
    return from_float32(values.astype(np.float32), format_)


def put(
    image: NDArray[np.uint8], matrix: MatrixDescriptor, elements: NDArray[Any], *, k_major: bool
) -> None:
    """Writes an operand (rows, k) into the image, element by element."""
    size = elements.dtype.itemsize
    rows, k = elements.shape
    places = addresses(matrix, rows, k, 8 * size, k_major=k_major) - BASE
    bytes_ = np.ascontiguousarray(elements).view(np.uint8).reshape(rows, k, size)
    image[places[:, :, None] + np.arange(size)] = bytes_


def encoded(matrix: MatrixDescriptor, *, tcgen05: bool) -> int:
    """The 64-bit descriptor."""
    fields = matrix.start >> 4 | matrix.leading >> 4 << 16 | matrix.stride >> 4 << 32
    fields |= matrix.base_offset << 49
    if tcgen05:
        return fields | 1 << 46 | TCGEN05[matrix.swizzle] << 61
    return fields | WGMMA[matrix.swizzle] << 62


def bring(size: int) -> str:
    """Copies ``size`` bytes from ``image`` to the beginning of ``smem``; mbarrier 0 behind it."""
    return f"""
    mov.u32 %r0, smem; add.u32 %r1, %r0, {size}; mov.u32 %r2, %tid.x; setp.eq.u32 %p0, %r2, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; @%p0 mbarrier.init.shared::cta.b64 [%r1+8], 1;
    @%p0 fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    ld.param.u64 %rd0, [image]; mov.u32 %r3, %cluster_ctarank; mul.wide.u32 %rd1, %r3, {size};
    add.u64 %rd0, %rd0, %rd1; mov.b32 %r4, {size};
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%rd0], %r4, [%r1];
    BROUGHT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    @!%p1 bra BROUGHT;
    barrier.cluster.arrive; barrier.cluster.wait;
    """
