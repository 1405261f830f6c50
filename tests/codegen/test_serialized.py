"""How products that wait for each other are told from others."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from schedgen.calibration.experiments import Experiment
from schedgen.codegen.cubin import products_and_wait_groups
from schedgen.codegen.report import compile_report, waits_more
from schedgen.driver.emitting import emission
from schedgen.machine_file import read_machine

# As nvdisasm -hex shows them (CUDA 13): lower halves of instructions that ptxas wrote for sm_90a.
SHARED, REGISTERS = 0x01E00000181879F0, 0x01E00008B8587DF0
ARRIVE, DEPBAR = 0x00000000000079C5, 0x00008000000079C5


def cubin(path: Path, *words: int) -> Path:
    """An ELF file with the section .text.k of these instructions, and one of names."""
    code, names = b"".join(struct.pack("<QQ", w, 0) for w in words), b"\0.names\0.text.k\0"
    sections = [(1, 64 + len(code), len(names)), (8, 64, len(code))]
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    struct.pack_into("<Q", header, 0x28, 64 + len(code) + len(names))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sections), 0)
    table = (struct.pack("<IIQQQQIIQQ", n, 1, 0, 0, a, s, 0, 0, 0, 0) for n, a, s in sections)
    path.write_bytes(header + code + names + b"".join(table))
    return path


def test_products_of_operands_in_registers_are_counted(tmp_path: Path) -> None:
    words = (ARRIVE, REGISTERS, REGISTERS, DEPBAR, ARRIVE, SHARED, DEPBAR)
    assert products_and_wait_groups(cubin(tmp_path / "k.cubin", *words)) == (3, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "serialized"), [("128", False), ("256", True)])
def test_operands_in_registers(columns: str, *, serialized: bool, tmp_path: Path) -> None:
    """ptxas 13.0 says C7512 of the kernel with 256 columns, and nothing of the kind of the other:
    two warpgroups with 128 accumulators per thread in one role have too few registers.
    """
    settings = {"operand": "registers", "columns": columns, "depth": "128"}
    made = emission(Experiment("", "products").read(), read_machine("h200"), settings)
    path = tmp_path / made.name
    path.write_text(made.text, encoding="utf-8")
    assert compile_report(path, tmp_path).serialized is serialized


@pytest.mark.parametrize(
    ("written", "found", "more"),
    [
        ((32, 4), (34, 4), False),  # attention
        ((32, 2), (34, 3), False),  # A in registers
        ((32, 4), (34, 34), True),  # the same with too few registers
        ((64, 8), (68, 68), True),  # chained products with too few registers
        ((8, 4), (10, 6), False),  # two steps for each wait
        ((8, 4), (10, 10), True),
        ((4, 1), (5, 2), False),
        ((4, 1), (5, 5), True),
        ((4, 4), (5, 5), False),
        ((0, 0), (0, 0), False),
    ],
)
def test_shares(written: tuple[int, int], found: tuple[int, int], more: bool) -> None:
    assert waits_more(written, found) is more
