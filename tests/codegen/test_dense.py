"""Output tiles of ragged extents that are numbered densely: files, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from functools import cache

import pytest
import torch

from schedgen.driver.emitting import Emission, emission
from schedgen.driver.emulating import Compiled, compiled
from schedgen.driver.inputs import compared, default_extents, outputs, random_inputs
from schedgen.driver.proved import QUICK
from schedgen.emulator.machine.policies import Adversarial
from schedgen.errors import SpecError
from schedgen.machine_file import read_machine
from schedgen.reference.evaluate import evaluate
from schedgen.spec.reader import parse_spec, read_spec
from tests.codegen.examples import SPECS
from tests.codegen.test_ragged import BROKEN

GROUPS = 70
"""Three times 32 and not all of these."""


@cache
def emitted(claim: str, target: str = "h200") -> Emission:
    text = (SPECS / "grouped.yaml").read_text("utf-8")
    text = text.replace("persistent: true", f"claim: {claim}\n  tiles: dense")
    return emission(parse_spec(text), read_machine(target), {}, methods=QUICK)


def offsets(sizes: dict[int, int], begin: int = 0) -> list[int]:
    """Where each group begins, of which those that are named have a size."""
    found = [begin]
    for group in range(GROUPS):
        found.append(found[-1] + sizes.get(group, 0))
    return found


CONTENTS = (
    offsets({0: 129, 31: 1, 32: 128, 63: 5, 69: 100}),
    offsets({}),
    offsets({69: 150}, begin=250),
    offsets({7: 400}),
    [*BROKEN[0], *[60] * (GROUPS - 5)],
    [*BROKEN[1], *[2**31 - 1] * (GROUPS - 5)],
)
"""In groups of the first and last 32, and between; none; one alone; what breaks the bounds."""


def test_no_tile_is_left_out() -> None:
    text = emitted("dynamic").text
    assert "tiles = tiles_of_all(segment_of, of_offsets, group, total, 128) * by_n.divisor" in text
    assert (
        "at_group, at_m = number_of_tile(rest, segment_of, of_offsets, group, total, 128)" in text
    )
    assert "if at_m * 128 < m" not in text
    assert "tiles = ((n_total + n_group * 127) // 128) * cute.ceil_div(n_n, 64)" in text
    assert text.count("ticket = draw(counter, tiles)") == 1


def test_the_host_counts_as_many_tiles_as_there_may_be() -> None:
    """No fewer, and no more: for some sizes there are as many."""
    for total, groups in ((0, 3), (1, 5), (5, 5), (300, 4), (1000, 1), (640, 7)):
        ones = [1] * min(groups - 1, total)
        sizes = [*ones, total - len(ones), *[0] * (groups - 1 - len(ones))]
        assert sum(-(-size // 128) for size in sizes) == min(total, (total + groups * 127) // 128)


class TestProducts:
    @pytest.fixture(scope="class", params=["fixed", "dynamic"])
    def product(self, request: pytest.FixtureRequest) -> Generator[Compiled]:
        one = emitted(request.param)
        with compiled(one.plain, one.solution.problem.kernel, "sm_90a", sms=3) as made:
            yield made

    @pytest.mark.parametrize("contents", CONTENTS)
    def test_contents(self, product: Compiled, contents: Sequence[int]) -> None:
        check(product, contents)
        assert product.counter is None or not product.counter.any()  # for the next launch


@pytest.mark.slow
@pytest.mark.parametrize(("claim", "target"), [("launch", "h200"), ("dynamic", "b200")])
def test_other_claims(claim: str, target: str) -> None:
    one, machine = emitted(claim, target), read_machine(target)
    with compiled(one.plain, one.solution.problem.kernel, machine.arch, sms=3) as made:
        check(made, CONTENTS[0])
        outcome = made.run({"m": 140, "n": 72, "k": 72}, Adversarial(1))
        assert outcome.correct
        assert outcome.clean, outcome.report.errors


def test_teams_take_turns_only_where_no_tile_is_left_out() -> None:
    text = read_spec("gemm_grouped").source.text.replace("  tiles: dense\n", "")
    with pytest.raises(SpecError, match="bad-teams"):
        emission(parse_spec(text), read_machine("h200"), {"tile_n": "128", "teams": "2"})


@pytest.mark.medium
def test_bands_set_no_variable_that_an_extent_may_be_called_like() -> None:
    text = read_spec("gemm_grouped").source.text
    text = text.replace("[total, ", "[rows, ").replace("packed: total", "packed: rows")
    one = emission(parse_spec(text), read_machine("h200"), {}, methods=QUICK)
    assert "in_bands(tile, divmod(tiles, by_n)[0], by_band)" in one.plain
    assert "number_of_tile(rest, segment_to, of_ends, group, rows, 128)" in one.plain
    assert not re.search(r"\brows(, \w+)* = divmod", one.plain)


@pytest.mark.slow
@pytest.mark.parametrize(("tile_n", "teams"), [("64", "1"), ("128", "2")])
def test_bands_of_rows_of_several_numbers(tile_n: str, teams: str) -> None:
    """Two bands of eight rows of tiles and three more, cut by groups, with three to five columns
    each; in turn, too, as all tiles have as many iterations.
    """
    settings = {"tile_n": tile_n, "teams": teams}
    one = emission(read_spec("gemm_grouped"), read_machine("h200"), settings, methods=QUICK)
    assert "rest, at_n = in_bands(tile, divmod(tiles, by_n)[0], by_band)" in one.plain
    sizes = {"group": 7, "total": 2000, "m": 300, "n": 300, "k": 72}
    ends = [300, 300, 429, 1069, 1070, 1900, 1900]
    with compiled(one.plain, one.solution.problem.kernel, "sm_90a", sms=3) as made:
        compare(made, sizes, "ends", ends)


@pytest.mark.slow
def test_tiles_with_iterations_of_their_own() -> None:
    """Packed sequences, whose long tiles come first."""
    text = read_spec("attention_varlen").source.text
    text = text.replace("  persistent: true", "  claim: dynamic\n  tiles: dense")
    one = emission(parse_spec(text), read_machine("h200"), {"causal": "true"}, methods=QUICK)
    assert "at_seq_q = opaque(cute.ceil_div(seq_q, 128) - 1 - at_seq_q)" in one.plain
    with compiled(one.plain, one.solution.problem.kernel, "sm_90a") as made:
        outcome = made.run({"seq_q": 140, "seq_k": 40})
        assert outcome.correct
        assert outcome.clean, outcome.report.errors


def check(made: Compiled, contents: Sequence[int]) -> None:
    """What is computed, and where nothing is stored."""
    sizes = default_extents(made.kernel, {"group": GROUPS, "n": 40, "k": 72}) | {"total": 400}
    compare(made, sizes, "offsets", contents)


def compare(made: Compiled, sizes: dict[str, int], array: str, contents: Sequence[int]) -> None:
    """What is computed where ``array`` says how large groups are, beside the reference."""
    inputs = random_inputs(made.kernel, sizes, 0)
    inputs[array] = torch.tensor(contents, dtype=torch.int32)
    results = outputs(made.kernel, sizes)
    made.execute({**inputs, **results})
    numbers = {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}
    for result in compared(made.kernel, results, evaluate(made.kernel, numbers, sizes)).values():
        assert result.matches
