"""Float64 numbers rounded to the element types of buffers and tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: ``precision`` bits with the hidden one, the exponents of its smallest normal
    number and the largest finite value. Beyond that lies infinity.
    """

    precision: int
    least_exponent: int
    largest: float

    @property
    def unit(self) -> float:
        """The largest relative error of rounding to nearest."""
        return 2.0**-self.precision


FORMATS = {
    "f32": Format(24, -126, float(np.finfo(np.float32).max)),
    "tf32": Format(24, -126, float(np.finfo(np.float32).max)),  # as stored; products use 11 bits
    "bf16": Format(8, -126, 2.0**127 * (2 - 2.0**-7)),
    "fp16": Format(11, -14, 65504.0),
    "e4m3": Format(4, -6, 448.0),
    "e5m2": Format(3, -14, 57344.0),
    "e8m0": Format(1, -127, 2.0**127),
    "i8": Format(8, 0, 128.0),  # as loaded; nothing is rounded to it
    "i4x2": Format(8, 0, 255.0),  # bytes, as the next ones
    "e2m1x2": Format(8, 0, 255.0),  # bytes: numbers only where they are multiplied
}


FACTORS = "e8m0"
"""Of factors of blocks: powers of two, to which numbers are rounded up, so that no number of a
block is too large for its format once it is divided by its factor (PTX ISA,
cvt.rp.satfinite.ue8m0x2)."""


def rounded(values: Array, dtype: str) -> Array:
    """``values`` rounded to nearest, ties to even; infinite beyond the largest number. To `FACTORS`
    they are rounded up, in their magnitude, from the smallest to the largest factor.
    """
    form = FORMATS[dtype]
    if dtype == FACTORS:
        mantissa, exponent = np.frexp(np.abs(values))
        power = np.where(np.isinf(values), 127, exponent - (mantissa == 0.5))
        power = np.clip(power, form.least_exponent, 127)
        made = np.where(mantissa == 0, 2.0**form.least_exponent, np.ldexp(1.0, power))
        return np.where(np.isnan(values), values, made)
    with np.errstate(invalid="ignore", over="ignore"):
        _, exponent = np.frexp(values)
        lowest = np.maximum(exponent - 1, form.least_exponent) - (form.precision - 1)
        made = np.ldexp(np.rint(np.ldexp(values, -lowest)), lowest)
        made = np.where(np.abs(made) > form.largest, np.copysign(np.inf, values), made)
    return np.where(np.isfinite(values), made, values)
