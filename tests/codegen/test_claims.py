"""Kernels whose blocks claim output tiles, or have one each: their files, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

from schedgen.codegen.facts import COUNTER, Facts, read_facts
from schedgen.driver.emitting import Emission, emission
from schedgen.driver.emulating import Compiled, compiled
from schedgen.driver.proved import QUICK
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.errors import SchedgenError
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec
from tests.codegen.examples import SPECS
from tests.codegen.test_walks import EXTENTS

SMALL = {"tile_n": "64", "widest_slice": "32"}
"""Of a product on h200: quick to compile."""
BLOCKS = 3
FULL, EMPTY = "bar_tile_numbers_full", "bar_tile_numbers_empty"


@cache
def emitted(claim: str, name: str = "gemm", target: str = "h200", **settings: str) -> Emission:
    text = read_spec(name).source.text.replace("persistent: true", f"claim: {claim}")
    return emission(parse_spec(text), read_machine(target), settings, methods=QUICK)


def facts(one: Emission, folder: Path) -> Facts:
    path = folder / one.name
    path.write_text(one.text, "utf-8")
    return read_facts(path)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_block_for_each_tile_differs_in_how_many_there_are(tmp_path: Path) -> None:
    fixed, launch = (emitted(claim, **SMALL).text.splitlines() for claim in ("fixed", "launch"))
    changes = {*launch} - {*fixed}
    assert {line for line in changes if "sha" not in line.lower() and "spec  " not in line} == {
        "        grid=[tiles, 1, 1],",
        'CLAIM = "launch"',
    }
    found = facts(emitted("launch", **SMALL), tmp_path)
    assert (found.claim, found.counted) == ("launch", False)
    assert facts(emitted("fixed", **SMALL), tmp_path).claim == "fixed"


@pytest.mark.medium
def test_one_role_draws_and_all_take(tmp_path: Path) -> None:
    text = emitted("dynamic", **SMALL).text
    assert text.count("ticket = draw(counter, tiles)") == 1
    assert text.count("tell(tile_numbers + slot(t, 4), cute.arch.grid_dim()[0] + ticket)") == 1
    taken = text.count("tile = taken(tile_numbers + slot(t, 4))")
    assert taken == text.count("while tile < tiles:") > 1
    assert "tile += cute.arch.grid_dim()[0]" not in text
    assert "grid=[cutlass.min(tiles, sms), 1, 1]" in text
    found = facts(emitted("dynamic", **SMALL), tmp_path)
    assert (found.claim, found.counted) == ("dynamic", True)
    assert COUNTER.name not in {parameter.name for parameter in found.parameters}


@pytest.mark.medium
def test_long_tiles_come_first_where_blocks_are_not_fixed() -> None:
    snake, first = "seq_q down and up in turn", "# long tiles first"
    fixed, dynamic = (emitted(c, "attention_fwd", causal="true") for c in ("fixed", "dynamic"))
    assert snake in fixed.text
    assert first not in fixed.text
    assert "slices" in fixed.text
    assert snake not in dynamic.text
    assert first in dynamic.text
    assert not re.search(r"\bslices\b(?!=)", dynamic.text)


@pytest.mark.medium
def test_the_first_rows_come_first_where_they_have_the_most_iterations() -> None:
    fixed, dynamic = (emitted(c, "attention_bwd_kv", causal="true") for c in ("fixed", "dynamic"))
    assert "# seq_k down and up in turn, up in the last slice: long tiles first" in fixed.text
    assert "if (slices - rest) % 2 == 0:" in fixed.text
    assert "at_seq_k = by_seq_k.divisor - 1 - at_seq_k" not in dynamic.text


@pytest.mark.medium
def test_names_of_a_spec_are_kept_apart() -> None:
    text = read_spec("gemm").source.text.replace("persistent: true", "claim: dynamic")
    text = re.sub(r"\bc\b(?=[:,}])", "counter", text).replace("alpha", "ticket")
    made = emission(parse_spec(text), read_machine("h200"), SMALL, methods=QUICK).text
    assert re.search(r"x_counter: cute.Tensor,\n\s+d: cute.Tensor,\n\s+counter: cute.Tensor", made)
    assert "x_ticket: Float32" in made


# -- executed --------------------------------------------------------------------------------------


class TestProducts:
    @pytest.fixture(scope="class")
    def product(self) -> Generator[Compiled]:
        one = emitted("dynamic", **SMALL)
        with compiled(one.plain, one.solution.problem.kernel, "sm_90a", sms=BLOCKS) as made:
            yield made

    @pytest.mark.medium
    @pytest.mark.parametrize(
        "policy",
        [RoundRobin(), Seeded(1), Adversarial(2)],
        ids=["round-robin", "seeded", "adversarial"],
    )
    @pytest.mark.parametrize(
        ("batch", "m", "n", "k"),
        [(1, 128, 64, 64), (1, 300, 72, 40), (2, 264, 136, 200), (1, 128, 64 * BLOCKS, 64)],
        ids=["one tile", "a tile for each block", "many tiles", "blocks and tiles"],
    )
    def test_tiles(
        self, product: Compiled, policy: Policy, batch: int, m: int, n: int, k: int
    ) -> None:
        assert product.counter is not None
        assert not product.counter.any()
        outcome = product.run({"batch": batch, "m": m, "n": n, "k": k}, policy)
        assert outcome.correct
        assert outcome.clean, outcome.report.errors
        assert not product.counter.any()  # for the next launch

    @pytest.mark.medium
    def test_a_counter_that_is_not_0_loses_tiles(self, product: Compiled) -> None:
        """Which is why nobody else may have it meanwhile."""
        assert product.counter is not None
        product.counter.fill_(1)
        try:
            assert not product.run({"batch": 1, "m": 512, "n": 128, "k": 64}).correct
        finally:
            product.counter.zero_()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize("claim", ["dynamic", "launch"])
@pytest.mark.parametrize("name", ["gemm", "attention_fwd"])
def test_kernels(name: str, claim: str, target: str) -> None:
    sizes = {"batch": 2, "m": 300, "n": 520, "k": 200}
    settings: dict[str, str] = {}
    if name == "attention_fwd":
        sizes = {"batch": 1, "seq_q": 650, "seq_k": 700, "heads": 2, "heads_k": 1}
        settings = {"causal": "true"}
    one = emitted(claim, name, target, **settings)
    arch = read_machine(target).arch
    with compiled(one.plain, one.solution.problem.kernel, arch, sms=BLOCKS) as made:
        for policy in (RoundRobin(), Seeded(1), Adversarial(2)):
            outcome = made.run(sizes, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.errors


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize("name", ["walked", "walked_partly"])
def test_blocks_of_lists(name: str, target: str) -> None:
    """Tiles have as many iterations as arrays say, which each role reads for the tile it takes."""
    text = (SPECS / f"{name}.yaml").read_text("utf-8")
    assert text.count("persistent: true") == 1
    spec = parse_spec(text.replace("persistent: true", "claim: dynamic"))
    machine = read_machine(target)
    one = emission(spec, machine, {}, methods=QUICK)
    sizes = {n: size for n, size in EXTENTS.items() if name == "walked" or n in "mn"}
    with compiled(one.plain, one.solution.problem.kernel, machine.arch) as made:
        for policy in (RoundRobin(), Seeded(1), Adversarial(1)):
            outcome = made.run(sizes, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.errors
            assert made.counter is not None
            assert not made.counter.any()


def change(text: str, role: str, old: str, new: str) -> str:
    """``text`` with the only ``old`` of a role's function replaced."""
    begin = text.index(f"def {role}(")
    end = text.index("@cute", begin)
    body = text[begin:end]
    assert body.count(old) == 1, body
    return text[:begin] + body.replace(old, new) + text[end:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "old", "new"),
    [
        ("store", f"cute.arch.mbarrier_wait({FULL} + slot(t, 4), phase(t, 4))", "pass"),
        ("load", f"cute.arch.mbarrier_wait({EMPTY} + slot(t + 4, 4), phase(t + 4, 4))", "pass"),
        ("store", f"cute.arch.mbarrier_arrive({EMPTY} + slot(t, 4))", "pass"),
        ("load", f"cute.arch.mbarrier_arrive({FULL} + slot(t, 4))", "pass"),
        ("store", "taken(tile_numbers + slot(t, 4))", "taken(tile_numbers + slot(t + 3, 4))"),
    ],
    ids=["taken early", "told early", "not given back", "not told", "another number"],
)
def test_mistakes_show(role: str, old: str, new: str) -> None:
    """As a race, a wrong result, or a kernel that hangs or breaks a barrier."""
    one = emitted("dynamic", widest_slice="32")  # with a role of its own that loads C
    text = change(one.text, role, old, new)
    sizes = {"batch": 1, "m": 128 * 8, "n": 64 * 3, "k": 64}
    with compiled(text, one.solution.problem.kernel, "sm_90a", sms=2, limit=3_000_000) as made:
        assert any(
            _goes_wrong(made, sizes, policy)
            for policy in (RoundRobin(), Seeded(1), Seeded(2), Adversarial(1), Adversarial(2))
        )


def _goes_wrong(made: Compiled, sizes: dict[str, int], policy: Policy) -> bool:
    try:
        outcome = made.run(sizes, policy)
    except SchedgenError:
        return True
    return not (outcome.clean and outcome.correct)
