"""Small products with epilogues of all sorts, for tests of what is right and what is refused."""

from __future__ import annotations

from schedgen.spec.reader import Spec, parse_spec

_TEXT = """
schedgen: 1
kernel: small
targets: [h200, b200]
parameters:
  rows: {default: 128, on: {h200: 64}}
  k: {default: 1024}
  accumulator: {default: tmem, on: {h200: registers}}
dimensions: {half: {count: 2}}
arguments:
  a: {shape: [heads, m, k], dtype: bf16}
  b: {shape: [heads, n, k], dtype: bf16}
  d: {shape: [heads, m, n], dtype: bf16}
ARGUMENTS
buffers:
  sA: {space: smem, shape: [rows, 64], dtype: bf16}
  sB: {space: smem, shape: [64, 64], dtype: bf16}
  acc: {space: accumulator, shape: [rows, 64], split: {columns: half}, lives: tile, initial: 0}
  y: {space: registers, shape: [rows, 64], lives: tile}
  sD: {space: smem, shape: [rows, 64], dtype: bf16, lives: tile}
BUFFERS
loops: {trips: ceil(k / 64), persistent: true LOOPS}
operations:
  body:
    - {id: LA, kind: load, from: a, to: sA}
    - {id: LB, kind: load, from: b, to: sB}
    - {id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}
  after:
    - {id: BRING, kind: copy, from: acc, to: y}
AFTER
    - {id: EPI, kind: map, to: {sD: y}}
    - {id: STD, kind: store, from: sD, to: d}
"""


def product(after: str = "", *, buffers: str = "", arguments: str = "", loops: str = "") -> Spec:
    """D = A B^T of which ``y`` is in registers, with more lines in sections of the spec."""
    text = _TEXT.replace("LOOPS", loops)
    for name, lines, indent in (
        ("ARGUMENTS", arguments, "  "),
        ("BUFFERS", buffers, "  "),
        ("AFTER", after, "    - "),
    ):
        more = "".join(f"{indent}{line}\n" for line in lines.strip().splitlines())
        text = text.replace(f"{name}\n", more)
    return parse_spec(text)
