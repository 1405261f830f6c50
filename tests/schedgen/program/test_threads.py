"""Facts about threads and shared memory in programs are those that kernels are emitted by."""

from __future__ import annotations

import pytest

from schedgen.codegen.fragment import ROW, WGMMA, Fragment
from schedgen.kernel import Depth, Piece, Region, Space
from schedgen.machine_file import read_machine
from schedgen.program.threads import rows_of_role


@pytest.mark.parametrize(("target", "fragment"), [("h200", WGMMA), ("b200", ROW)])
def test_roles_have_the_rows_that_their_code_works_on(target: str, fragment: Fragment) -> None:
    assert rows_of_role(read_machine(target)) == fragment.rows


def region(rows: int, columns: int, dtype: str = "bf16") -> Region:
    return Region("A", "A", Space.SMEM, (rows, columns), dtype, Depth(1, 1))


@pytest.mark.parametrize(
    ("columns", "rows", "bytes_", "expected"),
    [
        (64, (0, 32), (0, 128), [(0, 4096)]),
        # Panels of 128 bytes, one behind the other: half of the rows are in two places.
        (128, (0, 32), (0, 256), [(0, 4096), (8192, 12288)]),
        (128, (0, 64), (128, 256), [(8192, 16384)]),
        # 96 bytes are three panels of 32.
        (48, (0, 64), (32, 64), [(2048, 4096)]),
        (48, (32, 64), (0, 96), [(1024, 2048), (3072, 4096), (5120, 6144)]),
    ],
)
def test_pieces_lie_in_panels(
    columns: int, rows: tuple[int, int], bytes_: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    piece = Piece("A", "A", *rows, *bytes_)
    assert region(64, columns).panels(piece) == expected


def test_vectors_are_in_one_place() -> None:
    vector = Region("v", "v", Space.SMEM, (64,), "f32", Depth(1, 1))
    assert vector.panels(Piece("v", "v", 16, 32, 0, 4)) == [(64, 128)]
