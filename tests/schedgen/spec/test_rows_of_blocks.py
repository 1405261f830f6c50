"""A row of fewer values than there are columns: each stands for a block of neighbouring ones."""

from __future__ import annotations

import pytest
import torch

from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.padding import padding
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

SPEC = "gemm_fp8_blocks"


def factors(count: str) -> str:
    """The spec with so many factors for the columns of an output tile, instead of one."""
    text = read_spec(SPEC).source.text
    for before, after in (
        ("tile_n, 1)", f"tile_n, {count})"),
        ("{n_blocks: 1", f"{{n_blocks: {count}"),
    ):
        assert before in text
        text = text.replace(before, after)
    return text


def bound(text: str, target: str = "h200") -> Kernel:
    spec, machine = parse_spec(text), read_machine(target)
    settings = {"factors_b": "blocks"}
    return bind(spec.source, spec.file, target, settings, accumulators=machine.accumulators)[0]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_each_value_is_that_of_its_block(target: str, count: int) -> None:
    kernel = bound(factors(str(count)), target)
    generator = torch.Generator().manual_seed(0)
    m, n, k = 130, 300, 300
    a, b = (torch.randn(1, rows, k, generator=generator) for rows in (m, n))
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    of_a, of_b = (torch.randn(1, 3, count, generator=generator) for count in (m, 3 * count))
    inputs = {"a": a, "b": b, "scale_a": of_a, "block_b": of_b}
    found = run(kernel, inputs, {})["d"].double()
    wanted = torch.zeros(1, m, n, dtype=torch.float64)
    for block in range(3):
        part = slice(128 * block, 128 * (block + 1))
        product = a[..., part].double() @ b[..., part].double().mT
        rows = of_a[:, block].double()[..., None]
        columns = of_b[:, block].double().repeat_interleave(128 // count, -1)[:, None, :n]
        wanted += product * rows * columns
    assert (found - wanted).abs().max() < 0.01 * wanted.abs().max()


def test_it_costs_less_than_a_value_for_each_column() -> None:
    kernel = bound(factors("4"))
    add = kernel.operation["ADD[0,0]"].work
    assert add is not None
    assert 64 * 128 <= add.fma < 1.1 * 64 * 128


@pytest.mark.parametrize("count", ["3", "32"])
def test_blocks_are_of_whole_eights_of_columns(count: str) -> None:
    with pytest.raises(SpecError, match="shape-mismatch"):
        bound(factors(count))


def test_they_have_to_be_blocks_of_what_the_columns_are() -> None:
    text = factors("4").replace("n_blocks: n}", "n_blocks: m}")
    with pytest.raises(SpecError, match="extent-mismatch"):
        bound(text)


def test_a_single_value_is_for_all_elements() -> None:
    kernel = bound(factors("1").replace("n_blocks: n}", "n_blocks: m}"))
    place = kernel.operation["LFB[0]"].places[-1]
    assert (place.along, place.block, place.size) == ("m", 1, 1)


@pytest.mark.parametrize(("count", "room"), [("1", 16), ("2", 16), ("4", 16), ("8", 32)])
def test_a_short_row_has_room_for_what_a_copy_brings(count: str, room: int) -> None:
    kernel = bound(factors(count))
    region = kernel.region["sFB[0]"]
    load = kernel.operation["LFB[0]"]
    assert region.slot_bytes == load.work.bytes == room
    assert padding(region) == room - 4 * int(count)
    assert kernel.piece["sFB[0]"].bytes == 4 * int(count)
