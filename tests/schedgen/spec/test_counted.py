"""Results with elements for each output tile: where they lie, how many, what they hold."""

from __future__ import annotations

import pytest
import torch

from schedgen.driver.inputs import default_extents
from schedgen.errors import SchedgenError
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.coverage import coverage_mistakes
from schedgen.spec.reader import read_spec
from schedgen.tensors import Place
from schedgen.walking import counted, numbers_of_tiles
from tests.codegen.test_generality import SPECS

TARGETS = ("b200", "h200")
STATISTICS = str(SPECS / "row_statistics.yaml")


def kernel(name: str, target: str = "h200", **settings: str) -> Kernel:
    spec = read_spec(name)
    return bind(spec.source, spec.file, target, settings)[0]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def _parts(matrix: torch.Tensor, columns: int) -> list[torch.Tensor]:
    """Output tiles of so many columns, the last one narrower."""
    return [matrix[..., n : n + columns] for n in range(0, matrix.shape[-1], columns)]


def test_places() -> None:
    """The number of the tile along n, which is no axis of the grid; the sums lie along m."""
    one = kernel("gemm_rms")
    batch, tiles, m = one.operation["STS"].places
    assert tiles == Place("n_tiles", along="n", block=1, counts="n")
    assert (batch.along, m.along, m.side, m.size) == ("batch", "m", "rows", 128)
    assert [axis.extent for axis in one.grid] == ["batch", "m", "n"]
    assert counted(one) == {"n_tiles": ("n", 256, 1)}
    assert coverage_mistakes(one) == []


def test_tiles_that_results_only_count() -> None:
    """No result has n: tiles are cut along it because they are counted along it."""
    one = kernel("gemm_lse")
    assert [axis.extent for axis in one.grid] == ["batch", "m", "n"]
    assert counted(one) == {"n_tiles": ("n", 256, 1)}
    rows, columns = one.operation["LOGIT[1,0]"].places
    assert (rows.along, columns.along, columns.block, columns.offset) == ("m", "n", 256, 32)
    assert coverage_mistakes(one) == []


def test_as_many_as_tiles() -> None:
    one = kernel("gemm_rms", tile_n="96")
    for n, tiles in ((1, 1), (96, 1), (97, 2), (1000, 11)):
        assert numbers_of_tiles(one, {"n": n}) == {"n_tiles": tiles}
        assert default_extents(one, {"n": n})["n_tiles"] == tiles
    assert numbers_of_tiles(kernel("gemm"), {"n": 8}) == {}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("weighted", ["false", "true"])
def test_sums_of_squares(target: str, weighted: str) -> None:
    settings = {"tile_m": "64", "consumers": "1", "tile_n": "64", "tile_k": "16"}
    one = kernel("gemm_rms", target, weighted=weighted, **settings)
    inputs = {"a": random(2, 100, 40), "b": random(2, 150, 40), "c": random(2, 100, 150)}
    weight = random(150) if weighted == "true" else torch.ones(150)
    more = {"weight": weight} if weighted == "true" else {}
    found = run(one, {**inputs, **more, "beta": 0.5}, {"n_tiles": 3})
    raw = inputs["a"].double() @ inputs["b"].double().mT + 0.5 * inputs["c"].double()
    assert torch.allclose(found["d"].double(), raw * weight.double(), rtol=2**-8, atol=1e-4)
    wanted = torch.stack([part.square().sum(-1) for part in _parts(raw, 64)], 1)
    assert torch.allclose(found["squares"].double(), wanted, rtol=1e-5)
    factors = kernel("rms_factors", target)
    r = run(factors, {"squares": found["squares"], "inverse": 1 / 150, "eps": 0.25})["r"]
    assert torch.allclose(r.double(), (raw.square().mean(-1) + 0.25).rsqrt(), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_other_statistics(target: str) -> None:
    """Magnitudes, and logarithms of sums of exponentials; nothing behind the last column counts."""
    one = kernel(STATISTICS, target)
    a, b = random(200, 40), random(300, 40)
    found = run(one, {"a": a, "b": b}, {"n_tiles": 3})
    tiles = _parts(a.double() @ b.double().mT, 128)
    amax = torch.stack([tile.abs().amax(-1) for tile in tiles])
    lse = torch.stack([tile.logsumexp(-1) for tile in tiles])
    assert torch.allclose(found["amax"].double(), amax, rtol=1e-5)
    assert torch.allclose(found["lse"].double(), lse, rtol=1e-5)


def test_other_numbers_are_refused() -> None:
    one = kernel(STATISTICS)
    for tiles in (2, 4):
        with pytest.raises(InterpretationError, match=f"is {tiles}, but there are 3 output tiles"):
            run(one, {"a": random(8, 8), "b": random(300, 8)}, {"n_tiles": tiles})
        with pytest.raises(SchedgenError, match=r"3 output tiles to count; fix: leave it out"):
            default_extents(one, {"n": 300, "n_tiles": tiles})
