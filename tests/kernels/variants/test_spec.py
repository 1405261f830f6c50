"""Specs of variants beside formulas of torch that know neither specs nor tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.interpret.sequential import run
from schedgen.kernels.variants.calling import LOG2_E, asked, spec_of, variant_of
from schedgen.spec.bind import bind
from tests.schedgen.interpret.problems import random

SMALL = {"rows": "16", "keys": "16", "head_dim": "64"}
SEQ_Q, SEQ_K, HEADS = 60, 75, 2
ROW = torch.arange(SEQ_Q)[:, None]
COLUMN = torch.arange(SEQ_K)[None, :]
DOC = (torch.arange(SEQ_K) // 20).float()
FLAGS = random(2, SEQ_K, seed=9).float()
SLOPE, SINK = torch.tensor([0.5, 0.25]), torch.tensor([1.5, -2.0])
Keep = Callable[[], Tensor]

MASKS: Mapping[str, tuple[Mapping[str, Any], Keep]] = {
    "column <= row + shift and column > row - window": (
        {"shift": 10, "window": 17},
        lambda: (COLUMN <= ROW + 10) & (COLUMN > ROW - 17),
    ),
    "doc[row] == docs[column] and column <= row": (
        {"doc": DOC[:SEQ_Q], "docs": DOC},
        lambda: (DOC[:SEQ_Q, None] == DOC) & (COLUMN <= ROW),
    ),
    "(row - column) % 3 == 0 or column // 8 == row // 8": (
        {},
        lambda: ((ROW - COLUMN) % 3 == 0) | (COLUMN // 8 == ROW // 8),
    ),
    "flags[batch, column] > 0.5 and head + batch < 2.5": (
        {"flags": FLAGS},
        lambda: (FLAGS > 0.5)[:, None, None, :].expand(2, HEADS, SEQ_Q, SEQ_K),
    ),
    "column < 0": ({}, lambda: COLUMN + 0 * ROW < 0),
    "column // 16 <= row // 16 and not column < row - 30": (
        {},
        lambda: (COLUMN // 16 <= ROW // 16) & (COLUMN >= ROW - 30),
    ),
}


def computed(mask: str | None, score: str | None, given: Mapping[str, Any], **more: Any) -> Any:
    """What the interpreter makes of the variant's spec; q, k and v beside."""
    sinks = more.get("sinks")
    wanted = asked(mask, score, more.get("causal", False), sinks, given)
    spec = spec_of(wanted)
    kernel = bind(spec.source, spec.file, "h200", SMALL)[0]
    q = random(2, SEQ_Q, HEADS, 64, seed=2)
    k, v = (random(2, SEQ_K, HEADS, 64, seed=n) for n in (0, 1))
    scale = LOG2_E * (1 if score else 1 / 8)
    inputs: dict[str, Any] = {"q": q, "k": k, "v": v, "scale": torch.tensor(scale)}
    inputs |= {"factor": torch.tensor(1 / 8), "given_head": torch.arange(2.0)}
    inputs |= {"given_batch": torch.arange(2.0), "sink": SINK}
    for vector in variant_of(wanted).vectors:
        if vector.name:
            inputs[vector.argument] = given[vector.name]
    inputs |= {f"given_{n}": torch.tensor(float(v)) for n, v in given.items() if not _is(v)}
    names = {argument.name for argument in kernel.arguments}
    found = run(kernel, {name: value for name, value in inputs.items() if name in names})
    return kernel, found, (q, k, v)


def _same(scores: Tensor) -> Tensor:
    return scores


def _is(value: object) -> bool:
    return isinstance(value, Tensor)


def assert_right(found: Mapping[str, Tensor], operands: Any, scores: Any, kept: Tensor) -> None:
    q, k, v = (one.double().transpose(1, 2) for one in operands)
    values = scores((q @ k.mT) / 8).masked_fill(~kept, -math.inf)
    sums = values.logsumexp(3)
    result = ((values - sums[..., None]).exp().nan_to_num(0.0) @ v).transpose(1, 2)
    torch.testing.assert_close(found["o"].double(), result, rtol=2e-2, atol=1e-2)
    torch.testing.assert_close(found["lse"].double(), sums, rtol=1e-4, atol=1e-3)


@pytest.mark.medium
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str) -> None:
    given, keep = MASKS[mask]
    _, found, operands = computed(mask, None, given)
    assert_right(found, operands, _same, keep())


@pytest.mark.medium
def test_scores() -> None:
    """Beside ``causal``."""
    score = "9 * tanh(score / 9) + slope[head] * (column - row)"
    _, found, operands = computed(None, score, {"slope": SLOPE}, causal=True)

    def scores(plain: Tensor) -> Tensor:
        return 9 * torch.tanh(plain / 9) + SLOPE[:, None, None] * (COLUMN - ROW)

    assert_right(found, operands, scores, COLUMN <= ROW + SEQ_K - SEQ_Q)


@pytest.mark.medium
def test_names_of_equal_length() -> None:
    """Of a mask's vector and of a score's, which are read apart."""
    given = {"doc": DOC, "slope": SLOPE}
    mask, score = "doc[column] < 2", "score + slope[head]"
    _, found, operands = computed(mask, score, given)

    def scores(plain: Tensor) -> Tensor:
        return plain + SLOPE[:, None, None]

    assert_right(found, operands, scores, (DOC < 2).expand(SEQ_Q, SEQ_K))


@pytest.mark.medium
def test_sinks() -> None:
    """Also where a row sees nothing else."""
    _, found, (q, k, v) = computed("column < row - 5", None, {}, sinks=SINK)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) / 8
    scores = scores.masked_fill(COLUMN >= ROW - 5, -math.inf)
    sums = torch.logaddexp(scores.logsumexp(3), SINK.double()[:, None])
    result = torch.einsum("bhqk,bkhd->bqhd", (scores - sums[..., None]).exp(), v.double())
    torch.testing.assert_close(found["o"].double(), result, rtol=2e-2, atol=1e-2)
    torch.testing.assert_close(found["lse"].double(), sums, rtol=1e-4, atol=1e-3)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("mask", "trips", "first"),
    [
        ("column <= row", True, False),
        ("column <= row + shift and row - column < window", True, True),
        ("column // 16 == row // 16", True, True),
        ("doc[row] == doc[column]", False, False),
        ("column <= row and column // 16 == row // 16", True, False),  # what the mask alone says
    ],
)
def test_iterations_that_are_left_out(mask: str, trips: bool, first: bool) -> None:
    ranks = {"shift": 10, "window": 17, "doc": DOC}
    given = {name: value for name, value in ranks.items() if name in mask}
    spec = spec_of(asked(mask, None, False, None, given))
    assert (spec.file.loops.tile_trips is not None, spec.file.loops.tile_first is not None) == (
        trips, first,
    )  # fmt: skip
    for target in ("h200", "b200"):  # whatever is left out is kept by none: the reader looks
        bind(spec.source, spec.file, target, {"head_dim": "64"})
