"""Elements of 8 bits that formulas read: what it takes to convert them, and what cannot be done."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from schedgen.driver.inputs import random_inputs, shapes, wanted
from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.machine import price
from schedgen.machine_file import read_machine
from schedgen.reference.estimate import exact
from schedgen.reference.operands import whole_halves
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

TEXT = read_spec("gemm_mixed").source.text


def bound(text: str = TEXT, target: str = "h200", **settings: str) -> Kernel:
    spec, machine = parse_spec(text), read_machine(target)
    return bind(spec.source, spec.file, target, settings, accumulators=machine.accumulators)[0]


@pytest.mark.parametrize("weights", ["e4m3", "i8", "i4x2"])
def test_the_interpreter_is_within_the_reference(weights: str) -> None:
    kernel = bound(weights=weights)
    found = wanted(kernel, shapes(kernel)["ragged"], seed=1)
    assert all(result.differ == 0 for result in found.interpreted.values())


def test_whole_numbers() -> None:
    """All that there are, and exactly: bf16 has 8 bits."""
    kernel = bound(weights="i8")
    inputs = random_inputs(kernel, {"batch": 1, "m": 7, "n": 300, "k": 16}, 1)
    a, w, scale = (torch.as_tensor(inputs[name]) for name in ("a", "w", "scale"))
    assert (int(w.min()), int(w.max()), w.dtype) == (-128, 127, torch.int8)
    product = a[0].double() @ (w[0].double() * scale[0].double()[:, None]).mT
    assert torch.equal(run(kernel, inputs, {})["d"][0], product.float().to(torch.bfloat16))


def test_whole_numbers_of_4_bits() -> None:
    """In two's complement, the lower half of a byte first; by hand, and as the reference has it."""
    kernel = bound(weights="i4x2")
    inputs = random_inputs(kernel, {"batch": 1, "m": 7, "n": 300, "k": 128, "k_pairs": 64}, 1)
    a, w, scale = (torch.as_tensor(inputs[name]) for name in ("a", "w_pairs", "scale"))
    numbers = torch.tensor([[int(b) % 16, int(b) // 16] for b in w[0].flatten()]).flatten()
    numbers = torch.where(numbers > 7, numbers - 16, numbers).reshape(300, 128)
    assert (int(numbers.min()), int(numbers.max()), w.dtype) == (-8, 7, torch.uint8)
    assert np.array_equal(whole_halves(exact(w[0].double().numpy())).value, numbers.numpy())
    product = a[0].double() @ (numbers.double() * scale[0].double()[:, None]).mT
    assert torch.equal(run(kernel, inputs, {})["d"][0], product.float().to(torch.bfloat16))


@pytest.mark.parametrize(
    ("weights", "converts", "fma", "alu"),
    [("e4m3", 2, 1.0, 0.0), ("i8", 1, 1.5, 1.0), ("i4x2", 1, 1.5, 1.0), ("bf16", 1, 0, 0)],
)
def test_what_it_takes(weights: str, converts: int, fma: float, alu: float) -> None:
    """Instructions for each element, of which rounding to bf16 is a conversion."""
    text = TEXT.replace("values: [e4m3, e5m2, i8, i4x2]", "values: [e4m3, e5m2, i8, i4x2, bf16]")
    kernel = bound(text, weights=weights)
    work, elements = kernel.operation["CVT[0,0]"].work, 64 * 128
    assert work is not None
    found = (work.converts / elements, work.fma / elements, work.alu / elements)
    assert found == (converts, fma, alu)


def test_it_is_in_the_price() -> None:
    cost = price(bound(weights="i8").operation["CVT[0,0]"], read_machine("h200"))
    assert dict(cost.rates)["ALU"] == 64 * 128 / 64 + 64 * 128 / 128


def refused(old: str, new: str, rule: str, weights: str = "i8") -> str:
    assert old in TEXT
    with pytest.raises(SpecError, match=rule) as caught:
        bound(TEXT.replace(old, new), weights=weights)
    return str(caught.value)


def test_nothing_is_rounded_to_whole_numbers() -> None:
    text = refused("tile_k / parts], dtype: dtype", "tile_k / parts], dtype: weights", "bad-dtype")
    assert "error[bad-dtype]: 'rW' is i8: whole numbers are loaded, moved and read" in text
    assert "fix: write to a buffer of another data type" in text
    line, column = text.splitlines()[0].split(":")[1:3]
    named = TEXT.splitlines()[int(line) - 1][int(column) - 1 :]
    assert named.startswith("{id: CVT")


def test_pairs_are_read_by_maps() -> None:
    line = next(one for one in TEXT.splitlines() if "to: {rW: sW}" in one)
    scan = line.replace("kind: map", "kind: scan, op: sum").replace("{rW: sW}", "rW, from: sW")
    refused(line, scan, "shape-mismatch", weights="i4x2")  # half as many elements as it writes
    same = TEXT.replace("tile_k / numbers], dtype", "tile_k], dtype")
    with pytest.raises(SpecError, match="bad-dtype") as caught:
        bound(same.replace(line, scan), weights="i4x2")
    found = str(caught.value)
    assert "'from' is i4x2: its elements are 2 numbers each, which are only moved and" in found
    assert "fix: compute in another data type" in found


def test_pairs_are_twice_as_many_columns() -> None:
    text = TEXT.replace("tile_k / numbers], dtype", "tile_k], dtype")
    text = text.replace("{k_pairs: tile_k / 2}", "{k_pairs: tile_k}")
    with pytest.raises(SpecError, match="shape-mismatch") as caught:
        bound(text, weights="i4x2")
    assert "'sW' is 64 x 256, what is computed is 64 x 128" in str(caught.value)


def test_whole_numbers_are_not_multiplied() -> None:
    text = refused("a: W, b: sA", "a: sW, b: sA", "dtype-mismatch")
    assert "'sW' is i8, whose products are whole numbers of 32 bits, which no buffer has" in text
    assert "fix: convert it to bf16 or fp16 in a map, and multiply that" in text
    line, column = text.splitlines()[0].split(":")[1:3]
    assert TEXT.splitlines()[int(line) - 1][int(column) - 1 :].startswith("W, b: sA")
