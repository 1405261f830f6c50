"""Loads with a condition: what is announced, copied and read, as text and in the emulator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
import torch

from schedgen.driver import emulating
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from tests.codegen.examples import ARCHITECTURES, GEMM, solved, text_of

HOPPER = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}
SMALL = {"h200": HOPPER, "b200": GEMM}
EXTENTS = {"m": 72, "n": 40, "k": 72}
SPECS = Path(__file__).parents[2] / "specs"
GUARD = "if (beta != 0.0):"


def after(text: str, line: str) -> list[str]:
    """The lines that follow ``line``, each time, without their indentation."""
    lines = [each.strip() for each in text.splitlines()]
    return [lines[n + 1] for n, each in enumerate(lines) if each == line]


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "layout"), [("gemm", "nk"), ("gemm_symmetric", "kn")])
@pytest.mark.parametrize("target", SMALL)
def test_text(spec: str, layout: str, target: str) -> None:
    text = text_of(spec, target, b_layout=layout, **SMALL[target])
    size = int(SMALL[target]["tile_m"]) * int(SMALL[target]["slice_n"]) * 2
    announced = re.findall(
        r"expect_tx\(bar_c_stages_full\w*(?: \+ .*)?, (.*)\)$", text, re.MULTILINE
    )
    assert set(announced) == {f"{size} if (beta != 0.0) else 0"}
    copies = [line.strip() for line in text.splitlines() if "cute.copy(tma_c," in line]
    guarded = after(text, GUARD)
    assert copies
    assert copies == [line for line in guarded if line.startswith("cute.copy(tma_c,")]
    reads = [line for line in guarded if "in_sC" in line]
    assert reads
    assert text.count("load_tile(sC, in_sC") == len(reads)


@pytest.mark.parametrize("target", SMALL)
def test_without_the_load_there_is_less_to_do(target: str) -> None:
    """Where nothing was loaded the same formula has a zero, and no register of the tile."""
    text = text_of("gemm", target, **SMALL[target])
    inside = text[text.index("def EPI(") : text.index("def load(")]
    with_it, without = re.split(r"^    else:$", inside, flags=re.MULTILINE)
    assert GUARD in with_it
    assert with_it.count("in_sC[v") == without.count("Float32(0.0)")
    assert "in_sC" not in without


@pytest.mark.medium
@pytest.mark.parametrize("target", SMALL)
def test_other_copies_are_as_they_were(target: str) -> None:
    """A kernel without conditions announces numbers, and reads what it loads."""
    text = text_of("gemm_chain", target)
    assert all(size.isdigit() for size in re.findall(r"expect_tx\(.*, (.*)\)$", text, re.MULTILINE))
    assert ".fill(0.0)" not in "".join(line for line in text.splitlines() if "in_" in line)


def two_addends(folder: Path) -> Path:
    """The product with a second addend, under a condition of its own."""
    text = (SPECS / "gemm.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("  d: {shape", "  e: {shape: [batch, m, n], dtype: dtype}\n  d: {shape"),
        ("  beta: {shape", "  gamma: {shape: [], dtype: f32}\n  beta: {shape"),
        (
            "\nrings:\n",
            "  sE: {space: smem, shape: [tile_m, slice_n], dtype: dtype, per: [slice], "
            "split: {rows: band}, lives: tile}\n\nrings:\n  e_stages: {buffers: [sE], depth: 1}\n",
        ),
        ("    - {id: LC", "    - {id: LE, kind: load, over: [slice], from: e, to: sE, "
         "when: gamma != 0}\n    - {id: LC"),
        ("role: \"epilogue{band}\",\n       to: {sC: alpha * acc + beta * sC",
         "role: \"epilogue{band}\",\n       to: {sC: alpha * acc + beta * sC + gamma * sE"),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / "two_addends.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.medium
@pytest.mark.parametrize("target", SMALL)
def test_two_conditions(target: str, tmp_path: Path) -> None:
    """Each combination has lines of its own, and reads what was loaded."""
    spec = two_addends(tmp_path)
    _, kernel = solved(spec, target, **SMALL[target])
    text = text_of(spec, target, **SMALL[target])
    assert (text.count("load_tile(sC, in_sC"), text.count("load_tile(sE, in_sE")) == (1, 2)
    with emulating.compiled(text, kernel, ARCHITECTURES[target]) as made:
        for beta, gamma in product((0, 1), (0, 1)):
            outcome = made.run({**EXTENTS, "beta": beta, "gamma": gamma})
            assert outcome.correct
            assert outcome.clean


def inputs_with_a_hole(
    kernel: Kernel, extents: Mapping[str, int], seed: int
) -> dict[str, torch.Tensor | float]:
    """What `schedgen.driver.inputs.random_inputs` makes, but for a C that is no number."""
    found = random_inputs(kernel, extents, seed)
    found["c"] = torch.full_like(torch.as_tensor(found["c"]), torch.nan)
    return found


random_inputs = emulating.random_inputs


@pytest.mark.medium
@pytest.mark.parametrize("target", SMALL)
def test_in_the_emulator(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With beta = 0 nothing of C is loaded, whatever it is; with another beta it is."""
    _, kernel = solved("gemm", target, **SMALL[target])
    text = text_of("gemm", target, **SMALL[target])
    with emulating.compiled(text, kernel, ARCHITECTURES[target]) as made:
        there = made.run({**EXTENTS, "beta": 1})
        monkeypatch.setattr(emulating, "random_inputs", inputs_with_a_hole)
        left_out = made.run({**EXTENTS, "beta": 0}, seed=1)
    for outcome in (there, left_out):
        assert outcome.correct
        assert outcome.clean
    sizes = dict(kernel.parameters)
    tiles = [-(-EXTENTS[e] // int(sizes[f"tile_{e}"])) for e in ("m", "n")]
    before = there.report.statistics.operations
    assert before - left_out.report.statistics.operations == tiles[0] * tiles[1] * int(
        sizes["slices"]
    )


def changed(old: str, new: str) -> emulating.Outcome:
    """The small product for Hopper with ``new`` in place of ``old``, executed with beta = 0."""
    _, kernel = solved("gemm", "h200", **HOPPER)
    text = text_of("gemm", "h200", **HOPPER)
    assert old in text
    return emulating.emulate(
        text.replace(old, new), kernel, "sm_90a", extents={**EXTENTS, "beta": 0}
    )


@pytest.mark.medium
def test_bytes_that_do_not_come_are_waited_for() -> None:
    with pytest.raises(SchedgenError, match=r"(?s)deadlock.*4096|4096.*bytes"):
        changed("4096 if (beta != 0.0) else 0", "4096")


@pytest.mark.medium
def test_what_was_not_loaded_is_not_there() -> None:
    """Without its guard the read finds bytes that nobody wrote."""
    outcome = changed(f"{GUARD}\n        in_sC", "if True:\n        in_sC")
    assert not outcome.clean
    assert {finding.rule for finding in outcome.report.errors} == {"K9"}
