"""Results of which only some output tiles are computed: every element is stored once."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from schedgen.errors import SchedgenError
from schedgen.expressions import parse
from schedgen.kernel import Kernel, Kind
from schedgen.spec.bind import bind
from schedgen.spec.coverage import coverage_mistakes
from schedgen.spec.reader import read_spec, spec_from_data


def bound(target: str, **settings: str) -> Kernel:
    spec = read_spec("gemm_symmetric")
    return bind(spec.source, spec.file, target, settings)[0]


@pytest.mark.parametrize("width", [64, 96, 128, 160, 192, 256])
def test_any_width_of_tiles_on_hopper(width: int) -> None:
    """The mirrored halves of 64 rows fit tiles of any multiple of 32 columns that 64 divides."""
    if width % 64:
        with pytest.raises(SchedgenError, match="bad-coverage"):
            bound("h200", tile_n=str(width))
    else:
        assert coverage_mistakes(bound("h200", tile_n=str(width))) == []


def test_gap() -> None:
    """Blackwell mirrors 128 rows at a time, which may lie across two tiles of 192."""
    with pytest.raises(SchedgenError, match=r"element \(0, 192\) of 'd' is never stored"):
        bound("b200", tile_n="192")


@pytest.mark.parametrize(
    ("when", "mistake"),
    [
        ("true", "element (0, 0) of 'd' is stored 2 times: by STD[0] of tile (0, 0) and by "),
        ("false", "element (0, 256) of 'd' is never stored"),
        (
            "tile_row > tile_column",
            "element (0, 128) of 'd' is stored 2 times: by STD[4] of tile (0, 0) and by ",
        ),
    ],
)
def test_conditions(when: str, mistake: str) -> None:
    kernel = bound("b200")
    changed = [
        replace(o, when=parse(when)) if o.kind is Kind.STORE and o.transposed else o
        for o in kernel.operations
    ]
    (found,) = coverage_mistakes(replace(kernel, operations=tuple(changed)))
    assert found.rule == "bad-coverage"
    assert found.message.startswith(mistake)


def test_kernels_that_compute_all_tiles() -> None:
    spec = read_spec("gemm")
    assert coverage_mistakes(bind(spec.source, spec.file, "b200", {})[0]) == []


@pytest.mark.parametrize("target", ["b200", "h200"])
def test_nothing_is_stored_where_no_tile_is_known(target: str) -> None:
    """Without the store that lies as the tiles do, nobody knows how large these are."""
    data: Any = deepcopy(read_spec("gemm_symmetric").source.data)
    data["operations"]["after"] = [o for o in data["operations"]["after"] if o["id"] != "STD"]
    spec = spec_from_data(data)
    with pytest.raises(SchedgenError) as caught:
        bind(spec.source, spec.file, target)
    assert "is never stored" in str(caught.value)
