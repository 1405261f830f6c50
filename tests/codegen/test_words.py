"""Tiles of 32 bits: threads reach them without bank conflicts, whatever the width of their rows."""

from __future__ import annotations

import pytest

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import compiled
from tests.codegen.examples import ARCHITECTURES, SPECS, solved


@pytest.mark.medium
@pytest.mark.parametrize(
    ("target", "columns"), [("h200", 8), ("h200", 16), ("h200", 48), ("h200", 64), ("b200", 32)]
)
def test_no_bank_conflicts(target: str, columns: int) -> None:
    """Rows of 32, 64 and 128 bytes, panels of several; 48 columns are three panels of 16."""
    proven, kernel = solved(SPECS / "words.yaml", target, columns=str(columns))
    text = emit(proven, kernel)
    with compiled(text, kernel, ARCHITECTURES[target], banks=True) as made:
        outcome = made.run({"m": 72, "n": 2 * columns + 4})
    assert outcome.correct
    assert outcome.clean
    assert made.banks is not None
    taken, least = made.banks.passes
    assert taken == least > 0


@pytest.mark.medium
@pytest.mark.parametrize("columns", [8, 40, 64])
def test_transposed_without_bank_conflicts(columns: int) -> None:
    proven, kernel = solved(SPECS / "turned_words.yaml", "h200", columns=str(columns))
    with compiled(emit(proven, kernel), kernel, "sm_90a", banks=True) as made:
        outcome = made.run({"m": 72, "k": columns + 4})
    assert outcome.correct
    assert outcome.clean
    assert made.banks is not None
    taken, least = made.banks.passes
    assert taken == least > 0
