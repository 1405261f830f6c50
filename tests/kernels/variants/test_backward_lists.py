"""Gradients of variants whose kernels take blocks from lists, in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.driver.binding import kernels_of
from schedgen.expressions import render
from schedgen.interpret.sequential import run
from schedgen.kernels import checks
from schedgen.kernels.variants import gradients
from schedgen.kernels.variants.backward import KEYS, OF_KEYS, OF_QUERIES, QUERIES
from schedgen.kernels.variants.blocks import tile_of
from schedgen.kernels.variants.calling import (
    LOG2_E,
    Asked,
    asked,
    expressed,
    kept_of,
    sizes_of,
    spec_of,
    turned,
    variant_of,
)
from schedgen.machine_file import read_machine
from tests.kernels.variants.test_backward import SCORES, wanted_of
from tests.schedgen.interpret.problems import random


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "devices", lambda **_: torch.device("cpu"))  # pyright: ignore


CAPPED = "cap * tanh(score / cap)"
TILE = {"queries": "16", "keys": "32"}
BATCH, SEQ_Q, SEQ_K, HEADS, HEADS_K, HEAD_DIM = 2, 70, 90, 2, 1, 64
ROW, COLUMN = torch.arange(SEQ_Q)[:, None], torch.arange(SEQ_K)
DOC = torch.tensor([0] * 21 + [1] * 40 + [3] * 29)
MINE = torch.tensor([0] * 30 + [3] * 25 + [2] * 15)
OF = torch.tensor([0, 1])
"""Which documents a head sees, of each two."""


def function_of(base: str, results: tuple[str, ...]) -> Any:
    """What is asked of a kernel where its list is made."""
    facts = SimpleNamespace(settings=tuple(TILE.items()), kernel=base)
    return SimpleNamespace(facts=facts, outputs=[SimpleNamespace(name=name) for name in results])


FUNCTIONS = {KEYS: function_of(KEYS, ("dk", "dv")), QUERIES: function_of(QUERIES, ("dq",))}
CASES: Mapping[str, tuple[Mapping[str, Any], bool, Tensor]] = {
    "mine[row] == doc[column]": ({"doc": DOC, "mine": MINE}, False, MINE[:, None] == DOC),
    "mine[row] <= doc[column]": (
        {"doc": DOC, "mine": MINE},
        True,
        (MINE[:, None] <= DOC) & (COLUMN <= ROW + SEQ_K - SEQ_Q),
    ),
    # rows that see nothing, keys that nobody sees, and heads that differ
    "doc[column] == of[head] and column > row": (
        {"doc": DOC, "of": OF},
        False,
        (OF[:, None, None] == DOC) & (COLUMN > ROW),
    ),
}


def unchanged(score: Tensor) -> Tensor:
    return score


def lists(base: str, wanted: Asked, q: Tensor, k: Tensor, given: Any) -> dict[str, Tensor]:
    passed = expressed(wanted, sizes_of(q, k), q, 1.0, None, given) | {"q": q, "k": k}
    return gradients._lists(FUNCTIONS[base], wanted, passed, given, {})  # pyright: ignore


def kept_by(found: Mapping[str, Tensor], rows: int, columns: int, shape: tuple[int, int]) -> Tensor:
    """Which elements lie in blocks that are listed, by row and column of tiles."""
    listed, order, counts = (found[name] for name in ("listed", "order", "counts"))
    blocks = torch.zeros(listed.shape, dtype=torch.bool)
    blocks.scatter_(-1, listed.long(), torch.arange(listed.shape[-1]) < counts[..., None])
    blocks = blocks.take_along_dim(order.long().argsort(-1)[..., None], -2)
    wide = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return wide[..., : shape[0], : shape[1]]


@pytest.mark.parametrize("mask", CASES)
def test_lists_have_what_is_kept(mask: str) -> None:
    given, causal, kept = CASES[mask]
    q, k = torch.empty(BATCH, SEQ_Q, HEADS, 64), torch.empty(BATCH, SEQ_K, HEADS_K, 64)
    wanted = replace(asked(mask, "2 * score", causal, None, given), blocks=True)
    of_queries = kept_by(lists(QUERIES, wanted, q, k, given), 16, 32, (SEQ_Q, SEQ_K))
    of_keys = kept_by(lists(KEYS, wanted, q, k, given), 32, 16, (SEQ_K, SEQ_Q))
    assert not (kept & ~of_queries).any()
    assert not (kept.mT & ~of_keys).any()
    assert of_queries.float().mean() < 0.9
    assert of_keys.float().mean() < 0.9


@pytest.mark.medium
@pytest.mark.parametrize(
    ("mask", "target", "score"),
    [
        *((mask, "h200", None) for mask in CASES),
        *((mask, "b200", None) for mask in list(CASES)[1:]),
        (next(iter(CASES)), "b200", CAPPED),
    ],
)
def test_gradients(mask: str, target: str, score: str | None) -> None:
    given, causal, kept = CASES[mask]
    q, dout = (random(BATCH, SEQ_Q, HEADS, HEAD_DIM, seed=n) for n in (2, 3))
    k, v = (random(BATCH, SEQ_K, HEADS_K, HEAD_DIM, seed=n) for n in (0, 1))
    formula = unchanged if score is None else SCORES[score][1]
    lse, delta, right = wanted_of((q, k, v), formula, kept, dout)
    sums = (lse * LOG2_E).where(lse > -1e30, 1e30).float()
    inputs: dict[str, Any] = {"q": q, "k": k, "v": v, "do": dout, "lse": sums}
    inputs |= {"delta": delta.float()}
    given = given if score is None else {**given, **SCORES[score][0]}
    wanted = replace(asked(mask, score, causal, None, given), blocks=True)
    for name, value in expressed(wanted, sizes_of(q, k), q, 1 / 8, None, given).items():
        inputs[name] = value if isinstance(value, Tensor) else torch.tensor(value)
    found: dict[str, Tensor] = {}
    for base in (KEYS, QUERIES):
        told = {**TILE, "head_dim": str(HEAD_DIM)}
        kernel = kernels_of(spec_of(replace(wanted, base=base)), read_machine(target), told)[0]
        names = {argument.name for argument in kernel.arguments}
        passed = inputs | lists(base, wanted, q, k, given)
        found |= run(kernel, {name: value for name, value in passed.items() if name in names})
    for name, its in zip(("dq", "dk", "dv"), right, strict=True):
        mine, most = found[name].double(), max(1.0, its.abs().max().item())
        if mine.shape != its.shape:
            mine = mine.view(*mine.shape[:2], HEADS_K, -1, mine.shape[3]).sum(3)
        torch.testing.assert_close(mine, its, rtol=0, atol=1.2e-2 * most)


def test_turned() -> None:
    """Coordinates and lengths change places, arguments that are called like them do not."""
    given = {"rows": 3, "row_of": torch.empty(4)}
    wanted = asked(
        "row_of[column] < rows and seq_k - column > row // 2", "2 * score", True, None, given
    )
    found = turned(wanted)
    text = render(kept_of(found)).replace("(", "").replace(")", "")
    before, behind = "row <= column + seq_q - seq_k and ", " < rows and seq_q - row > column // 2"
    assert text.startswith(before)
    assert text.endswith(behind)
    mask = variant_of(found).mask
    assert mask is not None
    assert [vector.argument for vector in mask.vectors.values()] == ["given_row_of_row"]
    assert found.score is None
    assert turned(found) == replace(wanted, score=None)


def test_turned_masks_may_be_as_long_as_others() -> None:
    """They are not read again."""
    mask = " or ".join(["doc[row] > 1"] * 62 + ["doc[row] == doc[column]"])
    assert variant_of(turned(asked(mask, None, True, None, {"doc": DOC}))).mask is not None


def test_tiles() -> None:
    assert tile_of(FUNCTIONS[KEYS], OF_KEYS) == (32, 16)
    assert tile_of(FUNCTIONS[QUERIES], OF_QUERIES) == (16, 32)
