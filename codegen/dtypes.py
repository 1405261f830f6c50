"""Data types of specs, and their classes in the DSL."""

from __future__ import annotations

DTYPES = {
    "bf16": "BFloat16",
    "fp16": "Float16",
    "f32": "Float32",
    "tf32": "TFloat32",
    "e4m3": "Float8E4M3FN",
    "e5m2": "Float8E5M2",
    "e8m0": "Float8E8M0FNU",
    "e2m1x2": "Uint8",
    "i32": "Int32",
}
"""Of elements; arguments alone may be i32."""
NUMBERS = {"e2m1x2": "Float4E2M1FN"}
"""Of the numbers that elements consist of, where these are several."""
