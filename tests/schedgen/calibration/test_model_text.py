"""What a calibration writes into the text of a model, and what it leaves."""

from __future__ import annotations

from fractions import Fraction

import pytest

from schedgen.calibration.fitting import Fit
from schedgen.calibration.model_text import fitted_text, shown
from schedgen.errors import SchedgenError
from schedgen.machine_file import machine_from, machine_text
from schedgen.spec.source import parse_source

TEXT = machine_text("h200")


def fit(name: str, low: str, high: str, reason: str = "") -> Fit:
    number = Fraction(1)
    return Fit(name, "cycle", (number, number), Fraction(low), Fraction(high), ("one",), reason)


def test_numbers_and_their_source() -> None:
    fits = [
        fit("handoff", "41.5", "41.5"),
        fit("sum_overhead", "1/3", "2"),
        fit("wait", "9", "9", "kept"),
    ]
    text = fitted_text(TEXT, "h200.yaml", fits, "a GPU, today")
    made = machine_from(parse_source(text, "h200.yaml"))
    assert (made.constant["handoff"].low, made.constant["handoff"].high) == (Fraction("41.5"),) * 2
    assert made.constant["sum_overhead"].low == Fraction(1, 3)
    assert made.constant["handoff"].certainty == "measured"
    assert made.constant["handoff"].source == "schedgen calibrate, a GPU, today: one"
    before, after = TEXT.splitlines(), text.splitlines()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2


def test_a_constant_that_is_not_on_a_line() -> None:
    text = TEXT.replace("  handoff: {", "  handoff:\n    {")
    with pytest.raises(SchedgenError, match=r"x.yaml: constant 'handoff' does not stand on a line"):
        fitted_text(text, "x.yaml", [fit("handoff", "1", "1")], "a GPU")


def test_shown() -> None:
    assert [shown(Fraction(n)) for n in ("3", "8.69", "1/3")] == ["3", "8.69", "1/3"]
