"""Random numbers of formulas: the generator's published values, both references, statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from schedgen.expressions import Name, parse
from schedgen.interpret import philox as by_torch
from schedgen.interpret.formulas import compute
from schedgen.reference import philox as by_numpy
from schedgen.reference.estimate import Estimate, exact
from schedgen.reference.formulas import Formulas

KNOWN = """
7  00000000 00000000 00000000 00000000 00000000 00000000  5f6fb709 0d893f64 4f121f81 4f730a48
7  ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff  5207ddc2 45165e59 4d8ee751 8c52f662
7  243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0  4dfccaba 190a87f0 c47362ba b6b5242a
10 00000000 00000000 00000000 00000000 00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
10 ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
10 243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""
"""Rounds, counter, key and result of philox4x32 in kat_vectors of Random123 1.14."""
ROWS, COLUMNS = 512, 1024


def known() -> list[tuple[int, list[int]]]:
    rows = [line.split() for line in KNOWN.strip().splitlines()]
    return [(int(rounds), [int(word, 16) for word in words]) for rounds, *words in rows]


@pytest.mark.parametrize(("rounds", "words"), known())
def test_known_answers(rounds: int, words: list[int]) -> None:
    counter, key, result = words[:4], words[4:6], words[6:]
    arrays = [np.array([word], np.uint32) for word in (*key, *counter)]
    found = by_numpy.philox(arrays[:2], arrays[2:], rounds)
    assert [int(word[0]) for word in found] == result
    if rounds == by_numpy.ROUNDS:
        tensors = [torch.tensor(word) for word in (*key, *counter)]
        assert [int(word) for word in by_torch.philox(tensors[:2], tensors[2:])] == result


def test_order_of_counters() -> None:
    """The last one divided by 4 is the first word, and says which word of the result is taken; then
    come the others from the right.
    """
    low, high = 0xA4093822, 0x299F31D0
    counters = [0x03707344, 0x13198A2E, 0x85A308D3, 0x243F6A88]
    last = np.uint32(counters[3] * 4 & 0xFFFFFFFF)
    keys = [np.array([k], np.uint32) for k in (low, high)]
    state = [last >> np.uint32(2), *(np.uint32(c) for c in counters[2::-1])]
    words = by_numpy.philox(keys, [np.array([w]) for w in state])
    for lane in range(4):
        values = [*map(float, (low, high, *counters[:3])), float(last) + lane]
        found = by_numpy.uniform([np.asarray(value) for value in values])
        assert float(found) == int(words[lane][0] >> np.uint32(9)) * 2.0**-23


FORMULA = "uniform(low, high, batch * m + row, column - 7)"


def drawn(low: int, high: int = 0, batch: int = 0, formula: str = FORMULA) -> torch.Tensor:
    """Rows and columns by the interpreter."""
    names = {
        "low": torch.tensor(low, dtype=torch.int32),
        "high": torch.tensor(high, dtype=torch.int32),
        "batch": torch.tensor(float(batch)),
        "m": torch.tensor(100003.0),
        "row": torch.arange(ROWS, dtype=torch.float32)[:, None],
        "column": torch.arange(COLUMNS, dtype=torch.float32)[None],
    }
    return compute(parse(formula), lambda name: names[name.name])


@pytest.mark.parametrize(
    "formula",
    [FORMULA, "uniform(high, low, column, row)", "uniform(low, 0, row * row * row * row)"],
)
def test_references_agree(formula: str) -> None:
    """Bit for bit, with key words of either sign and products beyond 2^32."""
    low, high = -1512681750, 2**31 - 1
    values: dict[str, Estimate] = {
        "low": exact(low),
        "high": exact(high),
        "batch": exact(3.0),
        "m": exact(100003.0),
        "row": exact(np.arange(ROWS, dtype=np.float64)[:, None]),
        "column": exact(np.arange(COLUMNS, dtype=np.float64)[None]),
    }

    def look(name: Name) -> Estimate:
        return values[name.name]

    expected = Formulas(look).number(parse(formula))
    found = drawn(low, high, 3, formula)
    assert found.dtype is torch.float32
    assert np.array_equal(found.double().numpy(), expected.value)
    assert not expected.error.any()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share(p: float) -> None:
    """Of 2^19 elements, of each column and of each row, within 5 standard deviations."""
    dropped = (drawn(1) < p).double()
    for share, count in (
        (dropped.mean(), dropped.numel()),
        (dropped.mean(0), ROWS),
        (dropped.mean(1), COLUMNS),
    ):
        assert float((share - p).abs().max()) < 5 * math.sqrt(p * (1 - p) / count)


def test_distribution() -> None:
    """Of 64 intervals: chi squared has a mean of 63 and a variance of 126."""
    counts = torch.histc(drawn(2), 64, 0, 1)
    expected = ROWS * COLUMNS / 64
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi - 63) < 5 * math.sqrt(126)
    assert float(drawn(2).min()) >= 0
    assert float(drawn(2).max()) < 1


def test_independence() -> None:
    """Of neighbours along rows and columns, of those four apart, of seeds and of batches: no
    correlation beyond 5 standard deviations.
    """
    one = drawn(3) - 0.5
    others = [
        (one[:, :-1], one[:, 1:]),
        (one[:, :-4], one[:, 4:]),
        (one[:-1], one[1:]),
        *((one, drawn(*more) - 0.5) for more in ((4, 0, 0), (3, 1, 0), (3, 0, 1))),
    ]
    for left, right in others:
        found = float((left * right).mean()) * 12
        assert abs(found) < 5 / math.sqrt(left.numel())


def test_nothing_comes_twice() -> None:
    """Rows of the same seed are others, and so are all words of a row's evaluations."""
    rows = drawn(5).numpy()
    assert len({row[:8].tobytes() for row in rows}) == ROWS
