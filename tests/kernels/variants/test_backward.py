"""Specs of gradients of variants, in the interpreter, beside torch's gradients in float64, which
know neither specs nor tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.driver.binding import kernels_of
from schedgen.expressions import ExpressionError
from schedgen.interpret.sequential import run
from schedgen.kernels.attention_arguments import walks
from schedgen.kernels.variants.backward import KEYS, QUERIES, WHOLE
from schedgen.kernels.variants.calling import LOG2_E, Asked, asked, expressed, sizes_of, spec_of
from schedgen.machine_file import read_machine
from tests.fuzz.fuzzer import fuzzer
from tests.kernels.variants.test_spec import COLUMN, HEADS, MASKS, ROW, SEQ_K, SEQ_Q, SLOPE
from tests.schedgen.interpret.problems import random

SMALL = {"queries": "16", "keys": "16"}
BOTH = (KEYS, QUERIES)
ALL = {"keys": "32"}
"""Tiles of the kernel with five products, of which two warpgroups have half each."""
EVERYTHING = torch.ones(SEQ_Q, SEQ_K, dtype=torch.bool)

SCORES: Mapping[str, tuple[Mapping[str, Any], Callable[[Tensor], Tensor]]] = {
    "cap * tanh(score / cap)": ({"cap": 2.0}, lambda s: 2 * torch.tanh(s / 2)),
    "score + slope[head] * (column - row)": (
        {"slope": SLOPE},
        lambda s: s + SLOPE.double()[:, None, None] * (COLUMN - ROW),
    ),
    # far beyond the end of queries this is infinite, and behind the mask no number at all
    "score + 9 * (row - 50)": ({}, lambda s: s + 9 * (ROW - 50)),
    "slope[head] * score * abs(score)": (
        {"slope": SLOPE},
        lambda s: SLOPE.double()[:, None, None] * s * s.abs(),
    ),
    "where(column < row, max(score, -1), 2 * score)": (
        {},
        lambda s: torch.where(COLUMN < ROW, s.clamp(min=-1), 2 * s),
    ),
    "score * log(row - column + 1)": ({}, lambda s: s * (ROW - COLUMN + 1).clamp(min=1).log()),
}


def wanted_of(
    operands: tuple[Tensor, ...], score: Callable[[Tensor], Tensor], kept: Tensor, dout: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Logarithms of sums, row sums of dout * out, and the gradients."""
    leaves = [x.double().requires_grad_() for x in operands]
    q, k, v = (x.transpose(1, 2) for x in leaves)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = score(q @ k.mT / 8).masked_fill(~kept, -math.inf)
    lse = scores.logsumexp(3)
    p = (scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None]).exp()
    out = (p @ v).transpose(1, 2)
    found = torch.autograd.grad((out * dout.double()).sum(), leaves)
    delta = (out * dout.double()).sum(3).mT
    return lse.detach(), delta.detach(), tuple(x.nan_to_num(0.0) for x in found)


def gradients(
    wanted: Asked,
    given: Mapping[str, Any],
    score: Callable[[Tensor], Tensor],
    kept: Tensor,
    target: str,
    shape: tuple[int, int, int, int, int] = (2, SEQ_Q, SEQ_K, HEADS, HEADS),
    head_dim: int = 64,
    one_walk: bool = False,
) -> None:
    """Those of the specs are right. ``shape``: batch, seq_q, seq_k, heads, heads_k."""
    batch, seq_q, seq_k, heads, heads_k = shape
    q, dout = (random(batch, seq_q, heads, head_dim, seed=n) for n in (2, 3))
    k, v = (random(batch, seq_k, heads_k, head_dim, seed=n) for n in (0, 1))
    lse, delta, right = wanted_of((q, k, v), score, kept, dout)
    sums = (lse * LOG2_E).where(lse > -1e30, 1e30).float()
    inputs: dict[str, Any] = {"q": q, "k": k, "v": v, "do": dout, "lse": sums}
    inputs |= {"delta": delta.float(), "dq": torch.zeros_like(q, dtype=torch.float32)}
    inputs["done"] = torch.zeros(batch, heads, dtype=torch.int32)
    for name, value in expressed(wanted, sizes_of(q, k), q, 1 / 8, None, given).items():
        inputs[name] = value if isinstance(value, Tensor) else torch.tensor(value)
    found: dict[str, Tensor] = {}
    for base, of in [(WHOLE, ALL)] if one_walk else walks(KEYS, QUERIES, head_dim, head_dim):
        spec = spec_of(replace(wanted, base=base))
        told = {**SMALL, "head_dim": str(head_dim), **of}
        kernel = kernels_of(spec, read_machine(target), told)[0]
        names = {
            argument.name
            for argument in kernel.arguments
            if one_walk or argument.name not in ("dq", "done")
        }
        found |= run(kernel, {name: value for name, value in inputs.items() if name in names})
    if one_walk:  # its sums are multiplied by the softmax scale where they are rounded
        found["dq"] /= 8
    for name, its in zip(("dq", "dk", "dv"), right, strict=True):
        mine, most = found[name].double(), max(1.0, its.abs().max().item())
        if mine.shape != its.shape:  # of each head, where some share keys
            mine = mine.view(*mine.shape[:2], heads_k, -1, mine.shape[3]).sum(3)
        torch.testing.assert_close(mine, its, rtol=0, atol=1.2e-2 * most)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str, target: str) -> None:
    given, keep = MASKS[mask]
    gradients(asked(mask, None, False, None, given), given, lambda s: s, keep(), target)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize("score", SCORES)
def test_scores(score: str, target: str) -> None:
    """Beside a mask, where that is needed for numbers."""
    given, formula = SCORES[score]
    logarithm = "log" in score
    mask, kept = ("column <= row", COLUMN <= ROW) if logarithm else (None, EVERYTHING)
    gradients(asked(mask, score, False, None, given), given, formula, kept, target)


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
def test_masks_in_one_walk(mask: str) -> None:
    given, keep = MASKS[mask]
    wanted = asked(mask, None, False, None, given)
    gradients(wanted, given, lambda s: s, keep(), "h200", head_dim=128, one_walk=True)


@pytest.mark.medium
@pytest.mark.parametrize("score", SCORES)
def test_scores_in_one_walk(score: str) -> None:
    given, formula = SCORES[score]
    logarithm = "log" in score
    mask, kept = ("column <= row", COLUMN <= ROW) if logarithm else (None, EVERYTHING)
    wanted = asked(mask, score, False, None, given)
    gradients(wanted, given, formula, kept, "h200", head_dim=128, one_walk=True)


@pytest.mark.medium
@pytest.mark.parametrize(("head_dim", "target"), [(96, "h200"), (160, "b200")])
def test_other_heads(head_dim: int, target: str) -> None:
    """Wide ones have a kernel for keys and one for values, with the same mask and score."""
    formula, kept = SCORES["cap * tanh(score / cap)"][1], COLUMN <= ROW
    wanted = asked("column <= row", "cap * tanh(score / cap)", False, None, {"cap": 2.0})
    gradients(wanted, {"cap": 2.0}, formula, kept, target, head_dim=head_dim)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_random_masks(number: int) -> None:
    """Those that `benchmarks/masks.py` draws, in tiles that are smaller than they would be."""
    one = fuzzer("fuzzing.mask_expressions").case(0, number)
    wanted = asked(one.mask.text, None, False, None, one.given)
    target = ("h200", "b200")[number % 2]
    gradients(wanted, one.given, lambda s: s, one.kept(), target, one.shape)


@pytest.mark.medium
def test_causal_beside_all_of_it() -> None:
    mask, score = "doc[row] == doc[column] or head == 1", "cap * tanh(score / cap) + slope[head]"
    doc = (torch.arange(SEQ_K) // 20).float()
    given = {"doc": doc, "cap": 3.0, "slope": SLOPE}
    head = torch.arange(2)[:, None, None]
    kept = (doc[:SEQ_Q, None] == doc) | (head == 1)
    kept = kept & (COLUMN <= ROW + SEQ_K - SEQ_Q)
    mask = mask.replace("doc[row]", "docs[row]")
    given["docs"] = doc[:SEQ_Q]

    def formula(score: Tensor) -> Tensor:
        return 3 * torch.tanh(score / 3) + SLOPE.double()[:, None, None]

    gradients(asked(mask, score, True, None, given), given, formula, kept, "h200")


@pytest.mark.medium
@pytest.mark.parametrize(
    ("mask", "of_keys", "of_queries"),
    [
        ("column <= row", {"tile_first"}, {"tile_trips"}),
        ("column >= row - 5", {"tile_trips"}, {"tile_first"}),
        ("column <= row + a and row - column < b", {"tile_first", "tile_trips"},
         {"tile_first", "tile_trips"}),
        ("column // 16 == row // 16", {"tile_first", "tile_trips"}, {"tile_first", "tile_trips"}),
        ("column <= row or column < a", set[str](), {"tile_trips"}),
        ("row < a", {"tile_trips"}, set[str]()),
        ("doc[row] == docs[column]", set[str](), set[str]()),
    ],
)  # fmt: skip
def test_iterations_that_are_left_out(mask: str, of_keys: set[str], of_queries: set[str]) -> None:
    ranks = {"a": 10, "b": 17, "doc": ROW[:, 0], "docs": COLUMN[0]}
    given = {name: value for name, value in ranks.items() if name in mask.replace("and", "")}
    given = {n: v for n, v in given.items() if n + "[" in mask or not isinstance(v, Tensor)}
    for base, keys in zip(BOTH, (of_keys, of_queries), strict=True):
        spec = spec_of(replace(asked(mask, None, False, None, given), base=base))
        loops = spec.file.loops
        found = {key for key in ("tile_first", "tile_trips") if getattr(loops, key) is not None}
        assert found == keys
        for target in ("h200", "b200"):  # whatever is left out is kept by none: the reader looks
            kernels_of(spec, read_machine(target), {"head_dim": "64"})


def test_common_part_is_computed_once() -> None:
    """``tanh`` of a soft cap, of which the score and its derivative are made."""
    wanted = asked(None, "cap * tanh(score / cap)", False, None, {"cap": 2.0})
    for base in BOTH:
        text = spec_of(replace(wanted, base=base)).source.text
        assert text.count("tanh") == 1


def test_score_without_derivative() -> None:
    wanted = asked(None, "floor(score)", False, None, {})
    for base in BOTH:
        with pytest.raises(ExpressionError, match="'floor' of 'score' has no derivative"):
            spec_of(replace(wanted, base=base))
