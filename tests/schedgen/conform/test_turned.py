"""Which way round products read their operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.conform.actions import TURNED
from schedgen.emulator.ptx.tree import Immediate
from tests.schedgen.conform.conftest import Compiled


def literals(kernel: Compiled, at: int) -> list[int]:
    return [n for n, x in enumerate(kernel.code.body[at].operands) if isinstance(x, Immediate)]


def turned(kernel: Compiled, at: int, operand: int, value: int) -> str:
    """What the comparison says of another literal."""
    one = kernel.code.body[at]
    operands = [*one.operands]
    operands[operand] = Immediate(value)
    found = kernel.conforms(kernel.changed(at, replace(one, operands=tuple(operands))))
    assert not found.holds
    return " ".join(finding.text for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["", "_kn", "_km_kn"])
def test_on_hopper(compiled: Callable[[str], Compiled], layout: str) -> None:
    kernel = compiled(f"gemm_sm_90a_bf16{layout}")
    assert kernel.conforms().holds
    wanted = {"a": int("_km" in layout), "b": int("_kn" in layout)}
    at = next(n for n, x in enumerate(kernel.code.body) if x.name.startswith("wgmma.mma_async"))
    for operand, literal in zip("ab", literals(kernel, at)[-2:], strict=True):
        text = turned(kernel, at, literal, 1 - wanted[operand])
        assert f"'{operand}' is read the other way round" in text


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["", "_km_kn"])
def test_on_blackwell(compiled: Callable[[str], Compiled], layout: str) -> None:
    """The descriptor of a product of 128 x 256, with float32 results of bf16."""
    kernel = compiled(f"gemm_sm_100a_bf16{layout}")
    assert kernel.conforms().holds
    at = next(n for n, x in enumerate(kernel.code.body) if x.name.startswith("tcgen05.mma."))
    right = 1 << 4 | 1 << 7 | 1 << 10 | 256 // 8 << 17 | 128 // 16 << 24
    right |= (1 << TURNED["a"]) * ("_km" in layout) | (1 << TURNED["b"]) * ("_kn" in layout)
    for operand in "ab":
        text = turned(kernel, at, 3, right ^ 1 << TURNED[operand])
        assert f"'{operand}' is read the other way round" in text
