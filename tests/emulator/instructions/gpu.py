"""Executes instruction forms on an NVIDIA GPU, through the CUDA driver; needs nothing but numpy.

``python -m tests.emulator.instructions.gpu FILE`` writes a digest of what the GPU at hand computes,
one line per form; ``h200.txt`` was written so.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

THREADS = 256
BLOCKS = 8
COUNT = THREADS * BLOCKS

Words = NDArray[np.uint64]

_LOAD = {
    "r": "cvt.u32.u64 %r{n}, %x{x};",
    "rd": "mov.b64 %rd{n}, %x{x};",
    "rs": "cvt.u16.u64 %rs{n}, %x{x};",
    "f": "cvt.u32.u64 %t3, %x{x}; mov.b32 %f{n}, %t3;",
    "fd": "mov.b64 %fd{n}, %x{x};",
    "p": "cvt.u32.u64 %t3, %x{x}; and.b32 %t3, %t3, 1; setp.ne.b32 %p{n}, %t3, 0;",
}
_STORE = {
    "r": "cvt.u64.u32 %x7, %r0;",
    "rd": "mov.b64 %x7, %rd0;",
    "rs": "cvt.u64.u16 %x7, %rs0;",
    "f": "mov.b32 %t3, %f0; cvt.u64.u32 %x7, %t3;",
    "fd": "mov.b64 %x7, %fd0;",
    "p": "selp.b64 %x7, 1, 0, %p0;",
}


def sources(text: str) -> list[tuple[str, int]]:
    """Registers 1 to 3 of a form, as prefix and number."""
    found = re.findall(r"%(rd|rs|r|fd|f|p)([123])\b", text)
    return sorted({(prefix, int(number)) for prefix, number in found})


def result(text: str) -> str:
    """The prefix of the register with number 0 that is written last."""
    found = re.findall(r"%(rd|rs|r|fd|f|p)0\b", text)
    return "r" if "selp.b32 %r0" in text else found[0]


def kernel(text: str) -> str:
    """PTX that applies a form to three words per thread."""
    loads = "\n".join(_LOAD[prefix].format(n=n, x=3 + n) for prefix, n in sources(text))
    return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 inputs, .param .u64 output)
{{
.reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .b16 %rs<10>; .reg .f32 %f<10>; .reg .f64 %fd<10>;
.reg .pred %p<10>; .reg .b128 %rq<10>; .reg .b64 %x<10>; .reg .b32 %t<4>;
ld.param.u64 %x0, [inputs]; ld.param.u64 %x1, [output];
mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x;
mad.lo.u32 %t0, %t1, %t2, %t0; cvt.u64.u32 %x2, %t0; mad.lo.u64 %x3, %x2, 24, %x0;
ld.global.b64 %x4, [%x3]; ld.global.b64 %x5, [%x3+8]; ld.global.b64 %x6, [%x3+16];
{loads}
{text}
{_STORE[result(text)]}
mad.lo.u64 %x3, %x2, 8, %x1; st.global.b64 [%x3], %x7;
ret;
}}
"""


class Device:
    """The first GPU."""

    def __init__(self) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        self._check(self._cuda.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check(self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._check(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._check(self._cuda.cuCtxSetCurrent(context))
        self.capability: tuple[int, int] = (self._attribute(75), self._attribute(76))
        """Major and minor number."""
        self._inputs, self._output = self._memory(24 * COUNT), self._memory(8 * COUNT)

    def run(self, text: str, words: Words) -> Words:
        """What a form gives; ``words`` is (COUNT, 3)."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._cuda.cuModuleLoadData(ctypes.byref(module), kernel(text).encode()), text)
        self._check(self._cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
        given = np.ascontiguousarray(words)
        self._check(self._cuda.cuMemcpyHtoD_v2(self._inputs, _pointer(given), given.nbytes))
        arguments = (ctypes.c_void_p * 2)(
            *(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in (self._inputs, self._output))
        )
        shape = (BLOCKS, 1, 1, THREADS, 1, 1)
        self._check(self._cuda.cuLaunchKernel(function, *shape, 0, None, arguments, None), text)
        found = np.empty(COUNT, np.uint64)
        self._check(self._cuda.cuMemcpyDtoH_v2(_pointer(found), self._output, found.nbytes), text)
        self._check(self._cuda.cuModuleUnload(module))
        return found

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._check(self._cuda.cuDeviceGetAttribute(ctypes.byref(value), number, 0))
        return value.value

    def _memory(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self._check(self._cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        return address

    def _check(self, status: int, text: str = "") -> None:
        if status:
            raise RuntimeError(f"CUDA error {status} {text}")


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def words_of(kind: str) -> Words:
    """(COUNT, 3) words whose low bits are values of a kind: special ones, and random ones."""
    random = np.random.default_rng(7)
    if kind in ("int", "small"):
        return _integers(random, small=kind == "small")
    element = kind.rsplit(maxsplit=1)[-1]
    if element == "approximate":
        element = "f32"
    packed = element.endswith("x2")
    element = element.removesuffix("x2")
    rows = [_floats(random, element) for _ in range(3)]
    table = np.stack(rows, axis=1)
    # The first values of all operands are special: each is combined with each.
    special = table[:16, 0].copy()
    for at in range(256):
        table[at] = special[at % 16], special[at // 16], special[(at // 16 + at) % 16]
    if kind == "f32":  # products just below the smallest normal value, and a sum that is one
        for at in range(32):
            table[256 + at] = 0x3F800000 - 2 * at, 0x00800000 + at, 0
            table[288 + at] = 0x3F800000 - at, 0x00800000, 0x80000000 if at % 2 else 0
    if packed:
        table |= np.roll(table, 37, axis=0) << np.uint64(16)
    return table


def _integers(random: np.random.Generator, *, small: bool) -> Words:
    words = random.integers(0, 1 << 64, (COUNT, 3), np.uint64)
    edges = [0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000]
    edges += [0xFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1]
    special = np.array(edges, np.uint64)
    at = np.arange(256)
    words[:256] = special[np.stack((at % 16, at // 16, (at // 16 + at) % 16), axis=1)]
    shifts = random.integers(0, 64, (COUNT - 512, 3)).astype(np.uint64)
    words[512:] >>= shifts  # all magnitudes
    if small:
        words[1024:] &= np.uint64(0xFFF)
    negative = random.random((COUNT, 3)) < 0.2
    words[512:] = np.where(negative[512:], -words[512:], words[512:])
    return words


_BITS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}


def _floats(random: np.random.Generator, element: str) -> Words:
    """(COUNT,) codes: 16 special ones, random bits, values near 1, and short mantissas."""
    bits, mantissa = _BITS[element]
    one = ((1 << (bits - 2)) - 1) >> mantissa << mantissa
    infinity = ((1 << (bits - 1)) - 1) >> mantissa << mantissa
    top = 1 << (bits - 1)
    special = [0, top, one, one | top, infinity, infinity | top, infinity | 1 << (mantissa - 1)]
    special += [infinity | 1 | top, 1, 1 | top, (1 << mantissa) - 1, 1 << mantissa, infinity - 1]
    special += [(infinity - 1) | top, one + 1, one + (3 << (mantissa - 1))]
    words = random.integers(0, 1 << bits, COUNT, np.uint64, endpoint=False)
    near = random.integers(-4 << mantissa, 8 << mantissa, COUNT).astype(np.int64) + one
    near |= random.integers(0, 2, COUNT).astype(np.int64) << (bits - 1)
    words[COUNT // 4 :] = near.view(np.uint64)[COUNT // 4 :]
    short = np.uint64(((1 << 64) - 1) << max(mantissa - 6, 0) & ((1 << 64) - 1))
    words[3 * COUNT // 4 :] &= short  # ties and exact results are frequent
    words[:16] = special
    return words & np.uint64((1 << bits) - 1) if bits < 64 else words


ROWS = np.r_[0:352, 512:608, 1536:1600]
"""The rows of `words_of` that digests are made of: whole warps, some of each kind of value."""

_UNSPECIFIED_NAN = re.compile(r"fd0|cvt\.r.\.(ftz\.)?(f16|bf16|f32)\.f64")
"""Forms whose NaNs have sign and payload as the hardware likes."""


def settled(text: str, found: Words) -> Words:
    """Results with one kind of NaN where the ISA specifies none."""
    if not _UNSPECIFIED_NAN.search(text):
        return found
    kinds = {"fd": ("f64", 64), "f": ("f32", 32), "r": ("f32", 32), "rs": ("f16", 16)}
    element, bits = kinds.get(result(text), ("", 0))
    if "bf16" in text:
        element = "bf16"
    if not element:
        return found
    mantissa = _BITS[element][1]
    magnitude = found & np.uint64((1 << (bits - 1)) - 1)
    infinity = ((1 << (bits - 1)) - 1) >> mantissa << mantissa
    return np.where(magnitude > np.uint64(infinity), np.uint64(infinity + 1), found)


def digest(text: str, found: Words) -> str:
    """Twelve hexadecimal digits for the results in `ROWS`."""
    return hashlib.sha256(settled(text, found).astype("<u8").tobytes()).hexdigest()[:12]


def main(arguments: Sequence[str]) -> None:
    from tests.emulator.instructions.forms import by_kind

    device = Device()
    lines: list[str] = []
    for kind, texts in by_kind().items():
        if kind.startswith("approximate"):
            continue
        words = words_of(kind)
        for text in dict.fromkeys(texts):
            lines.append(f"{digest(text, device.run(text, words)[ROWS])} {kind}: {text}\n")
    Path(arguments[0]).write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} forms")


if __name__ == "__main__":
    main(sys.argv[1:])
