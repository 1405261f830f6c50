"""What a tensor map says: a tensor in global memory and the box that a TMA instruction moves.

Source of names, values and rules: CUDA driver API, Tensor Map Object Management,
cuTensorMapEncodeTiled. `schedgen.emulator.launch.tensor_map_bits` has the 128 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.errors import SchedgenError

CHUNK = 16
"""Bytes; the unit of addresses, strides and rows of a box."""
MOST_RANK = 5
MOST_ADDRESS = 1 << 57
MOST_EXTENT = 1 << 32
MOST_STRIDE = 1 << 40
MOST_BOX = 256
MOST_STEP = 8


class TensorMapError(SchedgenError):
    """A tensor map that no TMA instruction can use, or that the decoder does not know."""


class Element(Enum):
    """The type of an element: ``code`` and ``tf32`` as the map holds them, ``bits`` in memory.

    ``api`` is the value of ``CUtensorMapDataType``.
    """

    U8 = (0, False, 8, 0)
    U16 = (1, False, 16, 1)
    U32 = (2, False, 32, 2)
    S32 = (3, False, 32, 3)
    U64 = (4, False, 64, 4)
    S64 = (5, False, 64, 5)
    F16 = (6, False, 16, 6)
    F32 = (7, False, 32, 7)
    F32_FTZ = (8, False, 32, 10)
    F64 = (9, False, 64, 8)
    BF16 = (10, False, 16, 9)
    TF32 = (7, True, 32, 11)
    TF32_FTZ = (8, True, 32, 12)
    U4 = (11, False, 4, 13)
    """Sixteen values in 8 bytes, without gaps in shared memory."""
    U4_PADDED = (12, False, 4, 14)
    """Sixteen values in 8 bytes, followed by 8 bytes of gap in shared memory."""
    U6_PADDED = (13, False, 6, 15)
    """Sixteen values in 12 bytes, followed by 4 bytes of gap in shared memory."""

    def __init__(self, code: int, tf32: bool, bits: int, api: int) -> None:
        self.code = code
        self.tf32 = tf32
        self.bits = bits
        self.api = api

    @property
    def is_float(self) -> bool:
        """True where NaN can be asked for outside of the tensor."""
        return Element.F16.code <= self.code <= Element.BF16.code

    @property
    def is_padded(self) -> bool:
        """True where shared memory has gaps that global memory has not."""
        return self in (Element.U4_PADDED, Element.U6_PADDED)


class Interleave(IntEnum):
    """Values as in ``CUtensorMapInterleave`` and in the map."""

    NONE = 0
    B16 = 1
    B32 = 2


class Fill(IntEnum):
    """What is read outside of the tensor; values as in ``CUtensorMapFloatOOBfill``."""

    ZERO = 0
    NAN = 1


class Promotion(IntEnum):
    """How much L2 fetches at once, without effect on data; as in ``CUtensorMapL2promotion``."""

    NONE = 0
    B64 = 1
    B128 = 2
    B256 = 3


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tiled tensor map. All tuples have the innermost dimension first.

    Attributes:
        address: byte address of element 0.
        element: type of the elements.
        dims: extents in elements, 1 to 5 of them, each up to 2^32.
        strides: bytes between neighbours along dimensions 1, 2, …: one fewer than `dims`.
        box: extents of the box in elements before element strides apply, each 1 to 256.
        element_strides: of every how many elements the box takes one, each 1 to 8; without
            interleave that of dimension 0 has no effect.
        swizzle: how chunks of the box are permuted in shared memory.
        interleave: how channels are laid out in global memory.
        fill: what is read outside of the tensor.
        promotion: a hint to the cache.
    """

    address: int
    element: Element
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: Swizzle = Swizzle.NONE
    interleave: Interleave = Interleave.NONE
    fill: Fill = Fill.ZERO
    promotion: Promotion = Promotion.NONE

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element.

        Raises:
            TensorMapError: elements are smaller than a byte.
        """
        if self.element.bits % 8:
            raise TensorMapError(
                f"elements of {self.element.bits} bits ({self.element.name}) have no byte size"
            )
        return self.element.bits // 8

    def check(self) -> None:
        """Check the rules of cuTensorMapEncodeTiled.

        Raises:
            TensorMapError: they are not kept; the text has all violations.
        """
        if problems := [*self._shape_problems(), *self._unit_problems(), *self._mode_problems()]:
            raise TensorMapError(f"this tensor map is not legal: {'; '.join(problems)} ({self})")

    def _shape_problems(self) -> Iterator[str]:
        if not 1 <= self.rank <= MOST_RANK:
            yield f"it has {self.rank} dimensions, 1 to {MOST_RANK} are possible"
        for name, values, most in (
            ("extent", self.dims, MOST_EXTENT),
            ("extent of the box", self.box, MOST_BOX),
            ("element stride", self.element_strides, MOST_STEP),
        ):
            yield from (
                f"{name} {value} of dimension {at} is not in 1..{most}"
                for at, value in enumerate(values)
                if not 1 <= value <= most
            )
        for at, stride in enumerate(self.strides, start=1):
            if not 0 <= stride < MOST_STRIDE:
                yield f"stride {stride} of dimension {at} is not below 2^40 bytes"

    def _unit_problems(self) -> Iterator[str]:
        coarse = self.element.is_padded or self.interleave is Interleave.B32
        unit = 2 * CHUNK if coarse else CHUNK
        if self.address % unit or not 0 <= self.address < MOST_ADDRESS:
            yield f"address {self.address:#x} is not a multiple of {unit} below 2^57"
        for at, stride in enumerate(self.strides, start=1):
            if stride % unit:
                yield f"stride {stride} of dimension {at} is not a multiple of {unit} bytes"
        if self.element.is_padded:
            if self.dims[0] % 128 or self.box[0] != 128:
                yield (
                    f"{self.element.name} needs a box of 128 and an extent that is a multiple of "
                    f"128 along dimension 0, not {self.box[0]} and {self.dims[0]}"
                )
        elif self.element is Element.U4 and self.dims[0] % 2:
            yield f"extent {self.dims[0]} of dimension 0 is odd, but two U4 share a byte"

    def _mode_problems(self) -> Iterator[str]:
        row = self.box[0] * self.element.bits
        if self.interleave is Interleave.NONE:
            if row % (8 * CHUNK):
                yield f"a row of the box has {row / 8:g} bytes, not a multiple of {CHUNK}"
            if self.swizzle is not Swizzle.NONE and row > 8 * self.swizzle.value.span:
                yield (
                    f"a row of the box has {row / 8:g} bytes, more than the {self.swizzle.name} "
                    f"swizzle spans"
                )
        elif self.rank < 3:
            yield f"interleave needs 3 dimensions or more, not {self.rank}"
        if self.fill is Fill.NAN and not self.element.is_float:
            yield f"{self.element.name} cannot be filled with NaN"
