"""Output tiles that share the main loop, and results that are stored in part."""

from __future__ import annotations

import pytest
import torch

from schedgen.errors import SpecError
from schedgen.interpret.concurrent import run_program
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.coverage import coverage_mistakes
from schedgen.spec.reader import parse_spec, read_spec
from schedgen.synchronize.synthesize import synthesize
from schedgen.tensors import GridAxis, Place

TEXT = read_spec("gemm_parts").source.text
SMALL = {"tile_m": "64", "consumers": "1", "tile_n": "64", "slice_n": "32"}


def kernel(name: str, target: str = "h200", **settings: str) -> Kernel:
    spec = read_spec(name)
    return bind(spec.source, spec.file, target, settings)[0]


def changed(old: str, new: str) -> Kernel:
    assert TEXT.count(old) == 1
    spec = parse_spec(TEXT.replace(old, new))
    return bind(spec.source, spec.file, "h200", {})[0]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def test_places() -> None:
    """A tile of part c begins c times the iterations of a tile later."""
    made = kernel("gemm_parts")
    places = {place.extent: place for place in made.operation["LA"].places}
    assert places["k"] == Place("k", "columns", 64, step=64, split_k="part")
    assert places["m"] == Place("m", "rows", 128, "m", 128)
    assert made.grid[:2] == (GridAxis("batch", 1), GridAxis("part", 1))


def test_what_the_loop_walks_without_a_side_is_one_element() -> None:
    places = {p.extent: p for p in kernel("gemm_sum").operation["LP"].places}
    assert places["part"] == Place("part", step=1)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("k", [64, 200, 448, 1000])
def test_parts_add_up(parts: int, k: int) -> None:
    """Also where the last ones have no iteration inside of k."""
    a, b = random(2, 70, k), random(2, 100, k)
    found = run(kernel("gemm_parts", **SMALL), {"a": a, "b": b}, {"part": parts})["d"]
    assert found.shape == (2, parts, 70, 100)
    product = a.double() @ b.double().mT
    assert torch.allclose(found.double().sum(1), product, rtol=1e-4, atol=1e-3)
    whole = -(-k // (64 * parts)) * 64
    first = a[..., :whole].double() @ b[..., :whole].double().mT
    assert torch.allclose(found[:, 0].double(), first, rtol=1e-4, atol=1e-3)


def test_sum() -> None:
    p = torch.randn(2, 5, 70, 40, generator=torch.Generator().manual_seed(0))
    c, scalars = random(2, 70, 40), {"alpha": 0.5, "beta": -2.0}
    found = run(kernel("gemm_sum"), {"p": p, "c": c, **scalars})["d"]
    assert torch.allclose(found.double(), 0.5 * p.sum(1).double() - 2.0 * c.double(), atol=0.05)


def test_triangle() -> None:
    """Tiles above the diagonal are not stored, and what they would hold is not read."""
    a = random(1, 200, 300)
    found = run(kernel("gemm_parts", symmetric="true", **SMALL), {"a": a, "b": a}, {"part": 2})["d"]
    assert found.tril().isfinite().all()
    assert found[0, 0, 0, 128:].isnan().all()
    scalars = {"c": torch.zeros(1, 200, 200).bfloat16(), "alpha": 1.0, "beta": 0.0}
    d = run(kernel("gemm_sum", symmetric="true"), {"p": found, **scalars})["d"]
    assert torch.equal(d, d.mT)
    assert torch.allclose(d.double(), a.double() @ a.double().mT, rtol=0.01, atol=0.5)


def test_an_interleaving() -> None:
    from schedgen import solve

    spec, machine = read_spec("gemm_parts"), read_machine("h200")
    schedule = solve(spec, machine, settings=SMALL).schedule
    made = kernel("gemm_parts", **SMALL)
    inputs, extents = {"a": random(1, 70, 300), "b": random(1, 40, 300)}, {"part": 2}
    program = synthesize(made, schedule, machine)
    wanted = run(made, inputs, extents)["d"]
    for seed in range(5):
        assert torch.equal(run_program(program, made, inputs, seed, extents)["d"], wanted)


def test_an_extent_of_results_only() -> None:
    inputs = {"a": random(1, 8, 64), "b": random(1, 8, 64)}
    with pytest.raises(InterpretationError, match="no input has the extent 'part'; fix: give it"):
        run(kernel("gemm_parts"), inputs)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("split_k: part", "split_k: parts", "'parts' is not an extent that can stand here"),
        ("split_k: part", "split_k: k", "'k' is not an extent that can stand here"),
        ("split_k: part", "split_k: n", "'n' is not an extent that can stand here"),
        (
            "split_k: part\n",
            "split_k: part\n  tile_trips: tile_row + 1\n",
            "'tile_first' does not exist",
        ),
        ("ceil(k / (tile_k * part))", "ceil(k / tile_k)", "'trips' does not depend on it"),
        ("ceil(k / (tile_k * part))", "ceil(64 / part)", "so all tiles are the same"),
        ("m, k], dtype: dtype,", "m, k], dtype: dtype, whole: false,", "'a' is not stored"),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        changed(old, new)


def test_extents_that_a_tile_lies_along() -> None:
    """The rows and columns of a tile may be the first extents."""
    text = TEXT.replace(
        "[batch, part, m, n], dtype: f32, whole: not symmetric",
        "[batch, m, part, n], dtype: f32, tiled: [m, n]",
    )
    spec = parse_spec(text)
    assert {a.extent for a in bind(spec.source, spec.file, "h200", {})[0].grid} >= {"part", "m"}
    spec = parse_spec(text.replace("split_k: part", "split_k: m"))
    with pytest.raises(SpecError, match="the extents are batch, part"):
        bind(spec.source, spec.file, "h200", {})


def test_all_results_have_the_extent() -> None:
    """Each part would store its own sum in the same place."""
    text = TEXT.replace("\ndimensions:", "  e: {shape: [batch, m, n], dtype: f32}\n\ndimensions:")
    store = "    - {id: STD, kind: store, over: [slice], from: sD, to: d}\n"
    spec = parse_spec(
        text.replace(store, store + store.replace("STD", "STE").replace("to: d", "to: e"))
    )
    with pytest.raises(SpecError, match="the extents are batch"):
        bind(spec.source, spec.file, "h200", {})


def test_gaps_only_where_a_result_is_not_whole() -> None:
    spec = parse_spec(TEXT.replace(", whole: not symmetric", ""))
    bind(spec.source, spec.file, "h200", {})
    with pytest.raises(SpecError, match=r"bad-coverage.*of 'd' is never stored"):
        bind(spec.source, spec.file, "h200", {"symmetric": "true"})


def test_twice_is_a_mistake_in_any_case() -> None:
    text = TEXT
    store = "    - {id: STD, kind: store, over: [slice], from: sD, to: d}\n"
    assert text.count(store) == 1
    spec = parse_spec(text.replace(store, store + store.replace("STD", "AGAIN")))
    with pytest.raises(SpecError, match=r"of 'd' is stored 2 times: by STD.* and by AGAIN"):
        bind(spec.source, spec.file, "h200", {"symmetric": "true"})
    assert coverage_mistakes(kernel("gemm_parts", symmetric="true")) == []
