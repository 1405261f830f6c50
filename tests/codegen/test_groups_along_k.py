"""Products of groups along k: what the main loop walks ends where a group does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cache

import pytest
import torch

from schedgen.driver.emitting import Emission, emission
from schedgen.driver.emulating import Compiled, compiled
from schedgen.driver.inputs import random_inputs
from schedgen.driver.proved import QUICK
from schedgen.emulator.machine.policies import Adversarial
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.codegen.examples import ARCHITECTURES

SETTINGS = {"tile_n": "64", "widest_slice": "32"}
SIZES = {"group": 6, "total": 300, "m": 136, "n": 72, "k": 300}
CONTENTS = (
    (1, 1, 65, 193, 193, 300),
    (0, 0, 0, 0, 0, 0),
    (0, 0, 300, 300, 300, 300),
    (64, 128, 130, 139, 200, 260),
)
"""Empty groups at both ends and between, one row, an iteration and one more row; whole iterations;
rows behind the last group."""
BROKEN = ((-5, 40, 30, 10**6, 300, 225), (2**31 - 1, -(2**31), 0, 0, 0, 7))
"""Contents that decrease, begin before the tensor or end behind it."""


@cache
def emitted(target: str) -> Emission:
    return emission(read_spec("gemm_grouped_k"), read_machine(target), SETTINGS, methods=QUICK)


@pytest.mark.medium
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_text(target: str) -> None:
    """Both operands end with the group: what a copy has behind it is 0."""
    text = emitted(target).plain
    assert "begin_k, k = segment_to(of_ends, at_group, total)" in text
    assert "cute.ceil_div(k, 64)" in text
    for tensor in "ab":
        assert f"within(g_{tensor}, 0, begin_k, k)" in text
        assert f"ragged_map(cute.make_tensor({tensor}.iterator, " in text


def spans(ends: Sequence[int]) -> list[tuple[int, int]]:
    """First and last row of each group, limited as a kernel limits them."""
    found: list[tuple[int, int]] = []
    most = SIZES["total"]
    for before, end in zip((0, *ends), ends, strict=False):
        begin = min(max(before, 0), most)
        found.append((begin, min(max(end, begin), most)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
class TestContents:
    @pytest.fixture
    def made(self, target: str) -> Generator[Compiled]:
        one = emitted(target)
        with compiled(one.plain, one.solution.problem.kernel, ARCHITECTURES[target], sms=3) as made:
            yield made

    def test_contents(self, made: Compiled) -> None:
        for ends in (*CONTENTS, *BROKEN):
            inputs = random_inputs(made.kernel, SIZES, 0)
            found = results(made, inputs, ends)
            a, b = (torch.as_tensor(inputs[x]).double() for x in "ab")
            wanted = torch.stack([a[i:j].mT @ b[i:j] for i, j in spans(ends)])
            assert torch.allclose(found.double(), wanted, rtol=2**-7, atol=1e-3)
            assert made.counter is None or not made.counter.any()  # for the next launch

    def test_neighbours_have_no_part(self, made: Compiled) -> None:
        """A group of NaN behind one that ends within an iteration, and before one."""
        ends = (10, 75, 140, 200, 200, 290)
        inputs = random_inputs(made.kernel, SIZES, 0)
        for name in "ab":
            tensor = torch.as_tensor(inputs[name])
            tensor[75:140], tensor[290:] = torch.nan, torch.nan
        found = results(made, inputs, ends)
        broken = found.isnan().flatten(1)
        assert broken.any(1).tolist() == broken.all(1).tolist() == [x == 2 for x in range(6)]

    def test_races(self, made: Compiled) -> None:
        outcome = made.run({"group": 4, "m": 136, "n": 40, "k": 130}, Adversarial(1))
        assert outcome.correct
        assert outcome.clean, outcome.report.errors


def results(
    made: Compiled, inputs: dict[str, torch.Tensor | float], ends: Sequence[int]
) -> torch.Tensor:
    d = torch.full((SIZES["group"], SIZES["m"], SIZES["n"]), torch.nan, dtype=torch.bfloat16)
    made.execute({**inputs, "ends": torch.tensor(ends, dtype=torch.int32), "d": d})
    return d
