"""Where the tiles of the shipped specs lie in global tensors."""

from __future__ import annotations

import pytest

from schedgen.errors import SpecError
from schedgen.kernel import Kernel
from schedgen.spec.reader import read_spec, shipped_specs
from schedgen.tensors import GridAxis, Place
from tests.schedgen.interpret.problems import SMALL, kernel, kernel_of

ALL = [(name, target) for name in shipped_specs() for target in read_spec(name).file.targets]


def places(made: Kernel, operation: str) -> dict[str, Place]:
    return {place.extent: place for place in made.operation[operation].places}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), ALL)
def test_every_tile_has_a_place(name: str, target: str) -> None:
    made = kernel(name, target)
    shapes = {argument.name: argument.shape for argument in made.arguments}
    assert made.grid
    for operation in made.operations:
        if operation.tensor is not None:
            assert tuple(p.extent for p in operation.places) == shapes[operation.tensor]


def test_main_loop_walks_the_extents_of_the_trip_count() -> None:
    made = kernel("gemm", "b200", **SMALL)
    assert places(made, "LA")["k"] == Place("k", "columns", 16, step=16)
    assert places(made, "LA")["m"] == Place("m", "rows", 16, "m", 16)
    assert places(made, "LA")["batch"] == Place("batch", along="batch", block=1)
    assert made.grid == (GridAxis("batch", 1), GridAxis("m", 16), GridAxis("n", 32))


def test_instances_lie_side_by_side() -> None:
    made = kernel("gemm", "b200", **SMALL)
    assert places(made, "STD[1]")["n"] == Place("n", "columns", 16, "n", 32, offset=16)
    made = kernel("attention_fwd", "b200", rows="16", keys="16")
    assert places(made, "STO[1]")["seq_q"] == Place("seq_q", "rows", 16, "seq_q", 32, offset=16)
    assert places(made, "STL[1]")["seq_q"] == Place("seq_q", "rows", 16, "seq_q", 32, offset=16)


def test_transposed_tiles_follow_the_other_coordinate() -> None:
    made = kernel("gemm_symmetric", "b200", tile_m="32", tile_n="64", tile_k="16")
    assert places(made, "STT[1,0]")["m"] == Place("m", "rows", 32, "n", 64, offset=32)
    assert places(made, "STT[1,0]")["n"] == Place("n", "columns", 32, "m", 32)
    assert made.tiles == "lower_triangle"


def test_groups_share_an_element() -> None:
    made = kernel("attention_fwd", "b200")
    assert places(made, "LK")["heads_k"] == Place("heads_k", along="heads", grouped=True)


def test_masks_know_their_coordinates() -> None:
    made = kernel("attention_fwd", "b200", rows="16", keys="16")
    rows, columns = made.operation["MASK[1]"].places
    assert rows == Place("seq_q", "rows", 16, "seq_q", 32, offset=16)
    assert columns == Place("seq_k", "columns", 16, step=16)
    assert made.operation["MASK[1]"].fill == "-inf"


def test_kernel_keeps_what_products_need() -> None:
    made = kernel("attention_fwd", "b200")
    assert made.operation["QK[0]"].transpose_b
    assert not made.operation["QK[0]"].accumulate
    assert made.operation["PV[0,0]"].accumulate
    assert not made.operation["PV[0,0]"].transpose_b


TEXT = """
schedgen: 1
kernel: copies
targets: [b200]
arguments:
  x: {shape: [n, m], dtype: f32, tiled: [TILED]}
  y: {shape: [n, m], dtype: f32, tiled: [RESULT]}
buffers:
  s: {space: smem, shape: [4, 8]}
loops: {trips: 1, groups: {GROUPS}}
operations:
  body:
    - {id: L, kind: load, from: x, to: s}
    - {id: S, kind: store, from: s, to: y}
"""


def _text(tiled: str, groups: str, result: str = "n, m") -> str:
    return TEXT.replace("TILED", tiled).replace("GROUPS", groups).replace("RESULT", result)


@pytest.mark.parametrize(
    ("tiled", "groups", "place"),
    [("n, k", "", "6:45"), ("n, m", "k: m", "10:28"), ("n, m", "m: k", "10:31")],
)
def test_unknown_extents(tiled: str, groups: str, place: str) -> None:
    with pytest.raises(SpecError, match="'k' is not an extent that can stand here") as caught:
        kernel_of(_text(tiled, groups))
    assert f":{place}: error[unknown-extent]" in str(caught.value)


def test_other_order_of_rows_and_columns() -> None:
    made = kernel_of(_text("m, n", "", "m, n"))
    assert [place.side for place in made.operation["L"].places] == ["columns", "rows"]
