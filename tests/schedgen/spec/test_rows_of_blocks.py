"""A row of fewer values than there are columns: each stands for a block of neighbouring ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec

SPEC = Path(__file__).parents[2] / "data" / "specs" / "rows_of_blocks.yaml"


def bound(text: str, target: str = "h200") -> Kernel:
    spec, machine = parse_spec(text), read_machine(target)
    settings = {"factors_b": "blocks"}
    return bind(spec.source, spec.file, target, settings, accumulators=machine.accumulators)[0]


@pytest.mark.parametrize("target", ["h200", "b200"])
def test_each_value_is_that_of_its_block(target: str) -> None:
    kernel = bound(SPEC.read_text("utf-8"), target)
    generator = torch.Generator().manual_seed(0)
    m, n, k = 130, 300, 300
    a, b = (torch.randn(1, rows, k, generator=generator) for rows in (m, n))
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    of_a, of_b = (torch.randn(1, 3, count, generator=generator) for count in (m, 12))
    inputs = {"a": a, "b": b, "scale_a": of_a, "block_b": of_b}
    found = run(kernel, inputs, {})["d"].double()
    wanted = torch.zeros(1, m, n, dtype=torch.float64)
    for block in range(3):
        part = slice(128 * block, 128 * (block + 1))
        product = a[..., part].double() @ b[..., part].double().mT
        rows = of_a[:, block].double()[..., None]
        columns = of_b[:, block].double().repeat_interleave(32, -1)[:, None, :n]
        wanted += product * rows * columns
    assert (found - wanted).abs().max() < 0.01 * wanted.abs().max()


def test_it_costs_less_than_a_value_for_each_column() -> None:
    kernel = bound(SPEC.read_text("utf-8"))
    add = kernel.operation["ADD[0,0]"].work
    assert add is not None
    assert 64 * 128 <= add.fma < 1.1 * 64 * 128


@pytest.mark.parametrize(("count", "rule"), [("3", "shape-mismatch"), ("32", "shape-mismatch")])
def test_blocks_are_of_whole_eights_of_columns(count: str, rule: str) -> None:
    text = SPEC.read_text("utf-8").replace("tile_n / 32)", f"{count})")
    text = text.replace("{n_factors: tile_n / 32}", f"{{n_factors: {count}}}")
    with pytest.raises(SpecError, match=rule):
        bound(text)


def test_they_have_to_be_blocks_of_what_the_columns_are() -> None:
    text = SPEC.read_text("utf-8").replace("n_factors: n}", "n_factors: m}")
    with pytest.raises(SpecError, match="extent-mismatch"):
        bound(text)
