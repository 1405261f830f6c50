"""Kernels whose main loop takes blocks of an array: text, and what they do in the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from schedgen.codegen.emit import emit
from schedgen.codegen.style import PLAIN, Style
from schedgen.driver.emulating import compiled, emulate
from schedgen.driver.inputs import compared, default_extents, outputs, random_inputs, wanted
from schedgen.emulator.machine.policies import Adversarial
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.reference.evaluate import evaluate
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of

WALKED, PARTLY = SPECS / "walked.yaml", SPECS / "walked_partly.yaml"
EXTENTS = {"m": 300, "n": 40, "k": 300, "batch": 2}


def test_text() -> None:
    text = text_of(WALKED, "h200")
    assert "trips = opaque(count_of(of_counts, (opaque(at_batch), opaque(at_m)), most))" in text
    assert "block_of(of_blocks, (opaque(at_batch), opaque(at_m), " in text
    assert "if n_bands < cute.ceil_div(n_m, 128):" in text
    assert '("blocks", ("batch", "bands", "most"), "i32"),' in text


def test_full_blocks() -> None:
    """The first ones of a list are added as they are, of others what is positive: kernels skip
    that, and both evaluations agree. Lists are in the order in which output tiles are computed.
    """
    text = text_of(PARTLY, "h200")
    assert "at_m = block_of(of_places, (opaque(nth_m),), cute.ceil_div(m, 64))" in text
    assert "whole_blocks = of_wholes[(opaque(nth_m),)]" in text
    assert "cutlass.select_(turn >= whole_blocks, Int32(1), Int32(0))" in text
    _, kernel = solved(PARTLY, "h200")
    sizes = default_extents(kernel, {"m": 180, "n": 300})
    x = torch.ones(180, 300).bfloat16()
    x[:, ::2] = -3
    inputs = {
        "x": x,
        "places": torch.tensor([1, 2, 0], dtype=torch.int32),
        "counts": torch.tensor([3, 0, 3], dtype=torch.int32),
        "wholes": torch.tensor([-1, 5, 2], dtype=torch.int32),
        "blocks": torch.tensor([[1, 1, 7, 0, 0], [3, 0, 0, 0, 0], [0, 2, 4, 0, 0]]).int(),
    }
    found = run(kernel, inputs, sizes)["y"]
    assert found.tolist() == [-106.0] * 64 + [86.0] * 64 + [-64.0] * 52
    found = wanted(kernel, sizes, 0)
    assert all(one.matches for one in found.interpreted.values())


def test_both_evaluations_take_listed_blocks() -> None:
    """With numbers of iterations that are none or too many, and blocks that there are not."""
    _, kernel = solved(WALKED, "h200")
    sizes = default_extents(kernel, EXTENTS)
    assert (sizes["bands"], sizes["most"]) == (3, 5)
    found = wanted(kernel, sizes, 0)
    assert all(one.matches for one in found.interpreted.values())
    counts, blocks = (found.inputs[name] for name in ("counts", "blocks"))
    assert isinstance(counts, torch.Tensor)
    assert isinstance(blocks, torch.Tensor)
    assert {int(counts.min()), int(counts.max())} == {0, 8}
    assert int(blocks.min()) < 0
    assert int(blocks.max()) >= sizes["most"]


def test_what_a_list_means() -> None:
    """Blocks 3 and 1 of k, and a single one where the array says that there is none."""
    _, kernel = solved(WALKED, "h200")
    sizes = default_extents(kernel, {"m": 200, "n": 64, "k": 256})
    inputs = random_inputs(kernel, sizes, 0)
    inputs["counts"] = torch.tensor([[2, 0]], dtype=torch.int32)
    inputs["blocks"] = torch.tensor([[[3, 1, 0, 0], [2, 0, 0, 0]]], dtype=torch.int32)
    a, b = (inputs[name] for name in "ab")
    assert isinstance(a, torch.Tensor)
    assert isinstance(b, torch.Tensor)
    parts = torch.einsum("bmkx,bnkx->bkmn", *(x.float().unflatten(2, (4, 64)) for x in (a, b)))
    right = torch.cat([(parts[:, 3] + parts[:, 1])[:, :128], parts[:, 2, 128:]], 1)
    assert torch.allclose(run(kernel, inputs)["d"].float(), right, atol=0.2)


def test_too_few_numbers_are_refused() -> None:
    _, kernel = solved(WALKED, "h200")
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, {**sizes, "bands": 2}, 0)
    with pytest.raises(InterpretationError, match="'bands' is 2, but 3 is needed"):
        run(kernel, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("spec", [WALKED, PARTLY], ids=["product", "partly"])
def test_blocks_in_the_emulator(target: str, spec: Path) -> None:
    _, kernel = solved(spec, target)
    style = PLAIN if spec == WALKED else Style(peeled=True)  # full blocks in a loop of their own
    text, arch = emit(*solved(spec, target), style=style), ARCHITECTURES[target]
    extents = {name: size for name, size in EXTENTS.items() if spec == WALKED or name in "mn"}
    outcome = emulate(text, kernel, arch, extents=extents, policy=Adversarial(1))
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_any_content_is_contained(target: str) -> None:
    """The emulator ends where anything outside of a tensor is touched."""
    _, kernel = solved(WALKED, target)
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 0)
    ends = torch.tensor([-(2**31), 2**31 - 1, -1, 7], dtype=torch.int32)
    for name in ("counts", "blocks"):
        array = inputs[name]
        assert isinstance(array, torch.Tensor)
        array.copy_(ends.repeat(array.numel())[: array.numel()].reshape(array.shape))
    numbers = {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}
    results = outputs(kernel, sizes)
    with compiled(text_of(WALKED, target), kernel, ARCHITECTURES[target]) as made:
        made.execute({**inputs, **results})
    for result in compared(kernel, results, evaluate(kernel, numbers, sizes)).values():
        assert result.matches
