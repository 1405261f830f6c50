"""Random numbers in generated kernels, in the emulator: those of both references, bit for bit.

Elements are ones, so that a result says of each which number it has drawn: below p or not.
"""

from __future__ import annotations

import pytest

from schedgen.codegen.fragment import WGMMA
from schedgen.driver.emitting import emission
from schedgen.driver.emulating import emulate
from schedgen.driver.proved import QUICK
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec

ARCHITECTURES = {"h200": "sm_90a", "b200": "sm_100a"}
DRAWN = "uniform(seed_low, seed_high, row, column)"
OTHERS = [
    # negative numbers in all places, and products that do not fit into 32 bits
    "uniform(seed_high, -3, row - 50, 3 - row, row * row * row * row * row * row, column - 100)",
    "uniform(0, seed_low, 4294967295, column * column, row - 30)",
    "uniform(seed_low, 7, column)",
]
SIZES = {"m": 70, "n": 140}


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("formula", [DRAWN, *OTHERS])
def test_emulated(target: str, formula: str) -> None:
    text = read_spec("dropout").source.text
    assert DRAWN in text
    spec = parse_spec(text.replace(DRAWN, formula))
    made = emission(spec, read_machine(target), {}, methods=QUICK)
    kernel = made.solution.problem.kernel
    outcome = emulate(made.text, kernel, ARCHITECTURES[target], extents=SIZES)
    assert outcome.correct, outcome.reservations
    assert outcome.clean


@pytest.mark.medium
def test_what_kernels_are_given() -> None:
    """Seeds are integers; columns of pairs are sums but for a bit, where they are counted."""
    text = emission(read_spec("dropout"), read_machine("h200"), {}, methods=QUICK).text
    assert "seed_low: Int32" in text
    assert "seed_low: Float32" not in text
    assert f"column = column_0 + {WGMMA.paired_column}" in text
    assert '("seed_high", (), "i32"),' in text
