"""What it takes to compute with elements of 8 bits, which become float32 first.

Instructions are those of what ptxas makes of generated files, for sm_90a as for sm_100a:
F2FP.F16.E4M3.UNPACK_B makes two half-precision numbers of two elements, HADD2.F32 a float32 of one
of them. Of whole numbers a LOP3 flips the signs of four, a PRMT puts two into the low bits of 1024
in half precision, HADD2 subtracts what is too much of two, and HADD2.F32 makes a float32 of one;
threads of Hopper have two elements in a register, and another PRMT puts those of two together. Of
eight numbers of 4 bits four LOP3 and a shift put two each into the low bits of 1024, the rest is
the same, and threads of Hopper choose their bytes by three PRMT for four. The model's rates for
these instructions are those of other conversions and of additions. On an H200 F2FP has the one, and
HADD2.F32 half of the other, on a pipeline of its own (`benchmarks/micro/conversions.cu`); nobody
measured Blackwell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from schedgen.kernel import Work


@dataclass(frozen=True, slots=True)
class Widening:
    """Instructions for each element: conversions, as `Work.converts` counts them, FMA and ALU."""

    converts: int = 0
    fma: Fraction = Fraction(0)
    alu: Fraction = Fraction(0)

    def added(self, work: Work, elements: int) -> Work:
        """``work`` with that of so many elements."""
        return replace(
            work,
            converts=work.converts + self.converts * elements,
            fma=work.fma + ceil(self.fma * elements),
            alu=work.alu + ceil(self.alu * elements),
        )


WIDENING: Mapping[str, Widening] = {
    "e4m3": Widening(converts=1, fma=Fraction(1)),
    "e5m2": Widening(converts=1, fma=Fraction(1)),
    "i8": Widening(fma=Fraction(3, 2), alu=Fraction(1)),
    "i4x2": Widening(fma=Fraction(3), alu=Fraction(2)),
}
"""By data type. Elements of 16 bits are a shift or a part of the instruction that reads them."""
