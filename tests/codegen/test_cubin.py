"""What is read from the machine code of a kernel."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from schedgen.codegen import cubin
from schedgen.codegen.cubin import budgets_that_spill
from schedgen.codegen.errors import EmitError

TAKE, STORE, LOAD, MOVE = 0x9C8, 0x387, 0x983, 0x202


def taken(registers: int) -> int:
    return registers << 32 | 0x7 << 12 | TAKE


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([MOVE, taken(248), MOVE, taken(32), MOVE], set[int]()),
        ([taken(248), MOVE, taken(48), taken(32), 0x24 << 40 | STORE, LOAD], {32}),
        ([taken(248), LOAD, taken(32), STORE], {32, 248}),
        ([STORE, taken(32), MOVE], {0}),
    ],
    ids=["nowhere", "in the last warpgroup", "in two", "before registers are exchanged"],
)
def test_where_registers_are_spilled(
    words: list[int], wanted: set[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = b"".join(struct.pack("<QQ", word, 0) for word in words)
    monkeypatch.setattr(cubin, "_section", lambda data, name, beginning: code)  # pyright: ignore
    path = tmp_path / "a.cubin"
    path.write_bytes(b"")
    assert budgets_that_spill(path) == wanted


def test_no_cubin(tmp_path: Path) -> None:
    path = tmp_path / "a.cubin"
    path.write_bytes(b"text")
    with pytest.raises(EmitError, match="this is no cubin"):
        budgets_that_spill(path)
