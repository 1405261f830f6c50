"""Prices that can be worked out by hand: products of every data type, on machines with numbers."""

from __future__ import annotations

import pytest

from schedgen.kernel import Kind
from schedgen.machine import price
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec

SPEC = """
schedgen: 1
kernel: product
about: one product an iteration
targets: [{target}]

arguments:
  a: {{shape: [m, k], dtype: {dtype}}}
  b: {{shape: [n, k], dtype: {dtype}}}
  d: {{shape: [m, n], dtype: f32}}

buffers:
  sA: {{space: smem, shape: [{rows}, 32], dtype: {dtype}, depth: auto}}
  sB: {{space: smem, shape: [128, 32], dtype: {dtype}, depth: auto}}
  acc: {{space: {space}, shape: [{rows}, 128], lives: tile, initial: 0}}
  sD: {{space: smem, shape: [{rows}, 128], dtype: f32, lives: tile}}

loops:
  trips: 64

operations:
  body:
    - {{id: LA, kind: load, from: a, to: sA}}
    - {{id: LB, kind: load, from: b, to: sB}}
    - {{id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}}
  after:
    - {{id: EPI, kind: map, to: {{sD: acc}}}}
    - {{id: STD, kind: store, from: sD, to: d}}
"""


def tensor_cycles(target: str, dtype: str) -> int:
    rows, space = (64, "registers") if target == "h200" else (128, "tmem")
    spec = parse_spec(SPEC.format(target=target, dtype=dtype, rows=rows, space=space))
    kernel = bind(spec.source, spec.file, target)[0]
    product = next(o for o in kernel.operations if o.kind is Kind.MMA)
    return price(product, read_machine(target)).cycles("TENSOR")


@pytest.mark.parametrize(
    ("target", "dtype", "cycles"),
    [
        ("h200", "bf16", 128),  # 2 x 64 x 128 x 32 flop at 4096 a cycle; 12288 bytes take 96
        ("h200", "fp16", 128),
        ("h200", "e4m3", 64),  # at 8192 a cycle; 6144 bytes take 48
        ("h200", "e5m2", 64),
        ("h200", "tf32", 256),  # at 2048 a cycle; 24576 bytes take 192
        ("b200", "bf16", 128),  # 2 x 128 x 128 x 32 flop at 8192 a cycle; 16384 bytes take 128
        ("b200", "e4m3", 64),  # at 16384 a cycle; 8192 bytes take 64
        ("b200", "e5m2", 64),
        ("b200", "tf32", 256),  # at 4096 a cycle; 32768 bytes take 256
    ],
)
def test_products(target: str, dtype: str, cycles: int) -> None:
    assert tensor_cycles(target, dtype) == cycles
