"""Data types of specs, and their classes in the DSL."""

from __future__ import annotations

from schedgen.tensors import INTEGERS

DTYPES = {
    "bf16": "BFloat16",
    "fp16": "Float16",
    "f32": "Float32",
    "tf32": "TFloat32",
    "e4m3": "Float8E4M3FN",
    "e5m2": "Float8E5M2",
    "e8m0": "Float8E8M0FNU",
    "e2m1x2": "Uint8",
    "i8": "Int8",
    "i4x2": "Uint8",
    "i32": "Int32",
}
"""Of elements; arguments alone may be i32."""
AS_FLOAT = {
    "e4m3": "as_dtype({}, Float32)",
    "e5m2": "as_dtype({}, Float32)",
    "i8": "of_bytes({})",
    "i4x2": "of_halves({})",
}
"""Calls that convert elements of 8 bits in registers to float32: several neighbours at a time."""
NUMBERS = {"e2m1x2": "Float4E2M1FN"}
"""Of the numbers that elements consist of, where these are several."""


def scalar_type(dtype: str) -> str:
    """The class of a scalar argument: all but integers are passed as float32."""
    return DTYPES[dtype] if dtype in INTEGERS else "Float32"
