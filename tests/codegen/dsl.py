"""The DSL as plain Python, as far as generated arithmetic needs it: numbers are numpy's float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

Scope = dict[str, Any]


class Single(float):
    """A float32."""

    def __new__(cls, value: Any) -> Single:
        return super().__new__(cls, float(np.float32(value)))

    def bitcast(self, kind: Any) -> Integer:
        return Integer(int(np.float32(self).view(np.int32)))

    def __add__(self, other: Any) -> Single:
        return Single(np.float32(self) + np.float32(other))

    def __sub__(self, other: Any) -> Single:
        return Single(np.float32(self) - np.float32(other))

    def __mul__(self, other: Any) -> Single:
        return Single(np.float32(self) * np.float32(other))

    def __neg__(self) -> Single:
        return Single(-float(self))

    __radd__, __rmul__ = __add__, __mul__


class Integer(int):
    """An int32."""

    def __lshift__(self, count: int) -> Integer:
        return Integer(int(np.uint32((int(self) << count) & 0xFFFFFFFF).view(np.int32)))

    def bitcast(self, kind: Any) -> Single:
        return Single(np.int32(self).view(np.float32))


class Arch:
    """`cute.arch`."""

    @staticmethod
    def fmax(a: Any, b: Any, *, nan: bool = False) -> Single:
        return Single((np.maximum if nan else np.fmax)(float(a), float(b)))

    @staticmethod
    def fmin(a: Any, b: Any, *, nan: bool = False) -> Single:
        return Single((np.minimum if nan else np.fmin)(float(a), float(b)))

    @staticmethod
    def rcp_approx(x: Any) -> Single:
        return Single(1 / float(x))

    @staticmethod
    def add_packed_f32x2(a: Sequence[Any], b: Sequence[Any]) -> tuple[Single, ...]:
        return tuple(Single(x) + Single(y) for x, y in zip(a, b, strict=True))

    @staticmethod
    def sub_packed_f32x2(a: Sequence[Any], b: Sequence[Any]) -> tuple[Single, ...]:
        return tuple(Single(x) - Single(y) for x, y in zip(a, b, strict=True))

    @staticmethod
    def mul_packed_f32x2(a: Sequence[Any], b: Sequence[Any]) -> tuple[Single, ...]:
        return tuple(Single(x) * Single(y) for x, y in zip(a, b, strict=True))

    @staticmethod
    def fma_packed_f32x2(
        a: Sequence[Any], b: Sequence[Any], c: Sequence[Any]
    ) -> tuple[Single, ...]:
        """Products are exact in float64, and sums nearly so."""
        numbers = zip(a, b, c, strict=True)
        return tuple(Single(float(x) * float(y) + float(z)) for x, y, z in numbers)


def _function(name: str) -> Callable[..., Single]:
    exact: Callable[[float], float] = getattr(math, name)

    def rounded(x: Any, *, fastmath: bool = False) -> Single:
        return Single(exact(float(x)))

    return rounded


def _rsqrt(x: Any, *, fastmath: bool = False) -> Single:
    return Single(1 / math.sqrt(float(x)))


def _fma(x: Any, y: Any, z: Any) -> Single:
    return Single(float(x) * float(y) + float(z))


def _same(function: Any) -> Any:
    return function


def _size(registers: Sequence[Any], mode: Any = None) -> int:
    return len(registers)


def _registers(count: int, kind: Any) -> list[Any]:
    return [None] * count


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _unsigned(number: int) -> Integer:
    return Integer(int(number) & 0xFFFFFFFF)


def _select(condition: bool, then: Any, other: Any) -> Any:
    return then if condition else other


def _range(*bounds: int, unroll: int = 0) -> range:
    return range(*bounds)


_MATH = {name: _function(name) for name in ("exp2", "log2", "exp", "log", "tanh", "sqrt", "floor")}
CUTE = SimpleNamespace(
    arch=Arch,
    math=SimpleNamespace(**_MATH, rsqrt=_rsqrt, fma=_fma),
    jit=_same,
    size=_size,
    make_rmem_tensor=_registers,
    ceil_div=_ceil_div,
)
CUTLASS = SimpleNamespace(
    min=min, max=max, range=_range, range_constexpr=range, select_=_select, Uint32=_unsigned
)


def run(text: str, names: Mapping[str, Any] | None = None) -> Scope:
    """Executes lines of the DSL; returns all names that they know then."""
    scope: Scope = {"cute": CUTE, "cutlass": CUTLASS, "Float32": Single, "Int32": Integer}
    scope |= names or {}
    exec(text, scope)
    return scope


def value(text: str, names: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression of the DSL."""
    return run(f"found = {text}", names)["found"]


def library(*texts: str) -> Scope:
    """Functions of the library; those that are about layouts cannot be called."""
    return run("from __future__ import annotations\n" + "".join(texts))
