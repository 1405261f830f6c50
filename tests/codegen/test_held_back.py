"""Waits for Hopper's products stay behind what threads compute while a product is in flight."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from schedgen.codegen.compiling import compile_file
from schedgen.codegen.cubin import _section  # pyright: ignore[reportPrivateUsage]
from schedgen.kernels.library import named

ATTENTION = "attention_fwd_sm_90a_head_dim{}_bf16{}.py"
HELD = pytest.mark.parametrize(("head_dim", "causal"), [(160, ""), (192, ""), (192, "_causal")])
"""Others are faster without (`--style loose`)."""
_PRODUCT, _WAIT, _EXPONENTIAL = 0x9F0, 0x9C5, 0x308


def order(cubin: Path) -> str:
    """Products (p), waits for them (w) and exponentials (e) in the order of the machine code."""
    letters = {_PRODUCT: "p", _WAIT: "w", _EXPONENTIAL: "e"}
    code = _section(cubin.read_bytes(), b".text.", beginning=True)
    found: list[str] = []
    for word, _ in struct.iter_unpack("<QQ", code):
        letter = letters.get(word & 0xFFF, "")
        if letter != "w" or word & 1 << 47:  # else it is the fence before products
            found.append(letter)
    return "".join(found)


@HELD
def test_text(head_dim: int, causal: str) -> None:
    """The sum is what a softmax computes last before it needs the product that is in flight."""
    text = named(ATTENTION.format(head_dim, causal)).read_text("utf-8")
    held = re.findall(
        r"SUM\(.*\)\n +# PV.* is complete\n +hold_back\((\w+)\)\n +warpgroup\.wait", text
    )
    assert {*held} == {"r_l"}


def test_nothing_to_overlap() -> None:
    """Where nothing but products comes before a wait, or the assembler may move it, it is where it
    is.
    """
    assert "hold_back" not in named(ATTENTION.format(128, "")).read_text("utf-8")
    assert "hold_back" not in named("gemm_sm_90a_bf16.py").read_text("utf-8")


@pytest.mark.slow
@HELD
def test_machine_code(head_dim: int, causal: str, tmp_path: Path) -> None:
    """All exponentials of an iteration stand between the wait for scores and the one for P V; the
    assembler had both waits before them.
    """
    path = named(ATTENTION.format(head_dim, causal))
    assert re.search("p+we{50,}wp*", order(compile_file(path, tmp_path, sms=132).cubin))
    text = re.sub(r"\n +hold_back\(.*\)", "", path.read_text("utf-8"))
    moved = tmp_path / "without" / path.name
    moved.parent.mkdir()
    moved.write_text(text, encoding="utf-8")
    without = order(compile_file(moved, moved.parent, sms=132).cubin)
    assert not re.search("p+we{50,}w", without)
