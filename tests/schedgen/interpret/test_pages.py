"""Tensors in pages: both evaluations agree, and see nothing but what tables list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from schedgen.driver.inputs import compared, default_extents, random_inputs
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel, Space
from schedgen.reference.evaluate import evaluate
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

PAGED = Path(__file__).parents[2] / "data" / "specs" / "paged.yaml"
EXTENTS = {"m": 70, "rows": 150}


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    read = read_spec(str(PAGED))
    return bind(read.source, read.file, "h200", {}, accumulators=Space.REGISTERS)[0]


def numbers(inputs: dict[str, torch.Tensor | float]) -> dict[str, np.ndarray | float]:
    return {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}


def test_inputs_have_nan_where_nobody_may_look(kernel: Kernel) -> None:
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 0)
    k, table = torch.as_tensor(inputs["k"]), torch.as_tensor(inputs["table"])
    assert (sizes["page"], sizes["most_pages"]) == (16, 10)
    lengths = [int(n) for n in torch.as_tensor(inputs["lengths"])]
    rows = [[int(n) for n in row] for row in table]
    assert lengths == [150, 1, 129, 0, 127]
    assert int(k.isfinite().all(-1).sum()) == sum(lengths)
    for row, size in zip(rows, lengths, strict=True):
        there = [0 <= n < sizes["pages"] for n in row]
        assert there == [n < -(-size // 16) for n in range(10)]


@pytest.mark.parametrize("broken", [False, True])
def test_evaluations_agree(kernel: Kernel, broken: bool) -> None:
    """Also where tables list pages that are not there, or one twice, and lengths have no room."""
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 1)
    if broken:
        for name in "kv":
            inputs[name] = torch.as_tensor(inputs[name]).nan_to_num(1.0)
        inputs["lengths"] = torch.tensor([10**9, 160, -4, 33, 17], dtype=torch.int32)
        listed = torch.tensor([3, -1, 2**31 - 1, 3, 0], dtype=torch.int32)
        inputs["table"] = listed.repeat(10).view(5, 10)
    found = run(kernel, inputs, sizes)
    for result in compared(kernel, found, evaluate(kernel, numbers(inputs), sizes)).values():
        assert result.matches
    assert found["o"].isfinite().all()


def test_a_page_that_is_not_there_is_zeros(kernel: Kernel) -> None:
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 2)
    inputs["table"] = torch.full_like(torch.as_tensor(inputs["table"]), sizes["pages"])
    assert not run(kernel, inputs, sizes)["o"].any()


def test_a_table_is_needed(kernel: Kernel) -> None:
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 0)
    del inputs["table"]
    with pytest.raises(InterpretationError, match="the input 'table' is missing"):
        run(kernel, inputs, sizes)
