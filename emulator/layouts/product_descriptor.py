"""The instruction descriptor of tcgen05.mma: types, shape and options of a product.

Source: PTX ISA sections 9.7.16.4.2 (Tables 42 to 44), 9.7.16.2.1 (Table 39) and 9.7.16.10.1
(Table 52). Where A lies in tensor memory CUTLASS allows fewer N than Table 39 does
(``include/cute/arch/mma_sm100_umma.hpp``); ``strict`` follows it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from schedgen.emulator.layouts.errors import LayoutError

_FLOAT8 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_OPERANDS: Mapping[str, Mapping[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _FLOAT8,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _FLOAT8,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""Kind -> code in the descriptor -> type of A and B."""
_RESULTS: Mapping[str, Mapping[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
_LENGTHS = {"tf32": 8, "f16": 16, "i8": 32, "f8f6f4": 32, "mxf8f6f4": 32, "mxf4": 64}
_LENGTHS["mxf4nvf4"] = 64
KINDS = tuple(_OPERANDS)


@dataclass(frozen=True, slots=True)
class ProductDescriptor:
    """A dense product ``D[m, n] = A[m, k] · B[n, k] (+ D)``, decoded.

    Attributes:
        a, b: formats of the operands: keys of `formats.FORMATS`, ``s8`` or ``u8``.
        d: ``f16``, ``f32`` or ``s32``.
        m, n, k: its shape, over both CTAs with ``cta_group::2``.
        transpose_a, transpose_b: whether the operand is M- or N-major instead of K-major.
        negate_a, negate_b: whether the operand is negated.
        saturate: whether sums of s32 saturate.
        scale: format of block scales, None without them.
        scale_a, scale_b: byte of the scales' words at which they begin.
    """

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool
    negate_a: bool
    negate_b: bool
    saturate: bool = False
    scale: str | None = None
    scale_a: int = 0
    scale_b: int = 0

    @property
    def bits(self) -> int:
        """Bits that an element of A or B takes in memory, padding included."""
        match self.kind:
            case "f16":
                return 16
            case "tf32":
                return 32
            case "mxf4" | "mxf4nvf4":
                return 4
            case _:
                return 8


@lru_cache(maxsize=1024)
def decode_product(
    kind: str, value: int, *, group: int = 1, stationary: bool = False, strict_steps: bool = False
) -> ProductDescriptor:
    """Decode the 32-bit instruction descriptor of a dense `tcgen05.mma`.

    Args:
        kind: what follows ``.kind::``.
        value: the descriptor.
        group: what follows ``.cta_group::``.
        stationary: whether the instruction is ``.ws``.
        strict_steps: whether N must be a multiple of 16 for M = 128 and of 32 for ``cta_group::2``.

    Raises:
        LayoutError: a field or the shape is invalid for the kind.
    """
    found = _scaled(kind, value) if kind.startswith("mx") else _plain(kind, value)
    _check_shape(found, group, stationary, strict_steps)
    return found


def _plain(kind: str, value: int) -> ProductDescriptor:
    _check_zero(kind, value, {2: 1, 6: 1, 23: 1, 29: 1})
    if kind != "i8":
        _check_zero(kind, value, {3: 1})
    else:
        _check_zero(kind, value, {13: 2})
    return ProductDescriptor(
        kind=kind,
        a=_looked_up(kind, value, "A", value >> 7 & 7, _OPERANDS[kind]),
        b=_looked_up(kind, value, "B", value >> 10 & 7, _OPERANDS[kind]),
        d=_looked_up(kind, value, "D", value >> 4 & 3, _RESULTS[kind]),
        m=(value >> 24 & 0x1F) << 4,
        n=(value >> 17 & 0x3F) << 3,
        k=_LENGTHS[kind],
        transpose_a=bool(value >> 15 & 1),
        transpose_b=bool(value >> 16 & 1),
        negate_a=bool(value >> 13 & 1),
        negate_b=bool(value >> 14 & 1),
        saturate=bool(value >> 3 & 1),
    )


def _scaled(kind: str, value: int) -> ProductDescriptor:
    narrow = kind != "mxf8f6f4"
    _check_zero(kind, value, {0: 2, 2: 1, 3: 1, 6: 1, 24: 3})
    if narrow:
        # Bit 12, reserved in the text, is a version of sparsity in CuTe DSL's builder, which sets
        # it (Tcgen05MxOmmaInstrDesc); dense products do not ask for one.
        _check_zero(kind, value, {15: 2, 31: 1})
    else:
        _check_zero(kind, value, {31: 1})
    wide = bool(value >> 23 & 1)
    if kind != "mxf4nvf4" and not wide:
        raise LayoutError(f"instruction descriptor {value:#010x}: kind::{kind} scales by UE8M0")
    return ProductDescriptor(
        kind=kind,
        a=_looked_up(kind, value, "A", value >> 7 & 7, _OPERANDS[kind]),
        b=_looked_up(kind, value, "B", value >> 10 & (3 if narrow else 7), _OPERANDS[kind]),
        d="f32",
        m=(value >> 27 & 3) << 7,
        n=(value >> 17 & 0x3F) << 3,
        k=_LENGTHS[kind],
        transpose_a=bool(value >> 15 & 1),
        transpose_b=bool(value >> 16 & 1),
        negate_a=bool(value >> 13 & 1),
        negate_b=bool(value >> 14 & 1),
        scale="ue8m0" if wide else "ue4m3",
        scale_a=value >> 29 & 3,
        scale_b=value >> 4 & 3,
    )


def _check_zero(kind: str, value: int, fields: Mapping[int, int]) -> None:
    """Fields (first bit -> width) that must be 0: reserved ones, and options not supported."""
    for bit, width in fields.items():
        if value >> bit & ((1 << width) - 1):
            what = {2: "sparsity, which is not supported", 31: "K = 96, which only sm_103a has"}
            reason = what.get(bit, f"set although it must be 0 for kind::{kind}")
            raise LayoutError(f"instruction descriptor {value:#010x}: bit {bit} is {reason}")


def _looked_up(kind: str, value: int, matrix: str, code: int, names: Mapping[int, str]) -> str:
    if code not in names:
        known = ", ".join(f"{code} ({name})" for code, name in names.items())
        raise LayoutError(
            f"instruction descriptor {value:#010x}: type {code} of {matrix} is invalid for "
            f"kind::{kind}; valid are {known}"
        )
    return names[code]


def _check_shape(product: ProductDescriptor, group: int, stationary: bool, strict: bool) -> None:
    if stationary:
        rows, columns = (32, 64, 128), (64, 128, 256)
        if group != 1 or product.scale:
            raise LayoutError("tcgen05.mma.ws exists for cta_group::1 without block scales only")
    else:
        rows = (64 * group, 128 * group)
        if product.scale:
            rows = (128,) if group == 1 else (128, 256)
        columns = _columns(product, group, strict)
    if product.m not in rows or product.n not in columns:
        steps = f"{columns[0]}, {columns[1]}, … {columns[-1]}"
        raise LayoutError(
            f"tcgen05.mma of shape M={product.m}, N={product.n} for kind::{product.kind}, "
            f"cta_group::{group}{', .ws' if stationary else ''}: M must be one of {rows}, N one of "
            f"{steps}"
        )


def _columns(product: ProductDescriptor, group: int, strict: bool) -> tuple[int, ...]:
    """N that a product without ``.ws`` can have."""
    if product.kind == "i8":
        if group == 2:
            return tuple(range(32, 257, 32))
        first = () if product.transpose_b else (8, 24)
        return tuple(sorted((*first, *range(16, 257, 16))))
    if product.bits == 8 and product.transpose_b:
        return tuple(range(16 * group, 257, 16 * group))
    step = 8 * group
    if strict and product.m != 64:
        step = 16 * group
    return tuple(range(step, 257, step))
