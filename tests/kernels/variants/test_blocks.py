"""Block lists: what is left out is empty, and lists of other calls are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.expressions import parse
from schedgen.kernels import attention
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.variants.blocks import Blocks, arguments_of, by_torch
from schedgen.kernels.variants.calling import asked, spec_of, variant_of
from schedgen.kernels.variants.interval_tensors import Tensors
from schedgen.kernels.variants.intervals import Interval, Rules
from schedgen.kernels.variants.spec import listed_along, opaque

ROWS, KEYS = 64, 32
FUNCTION: Any = SimpleNamespace(
    facts=SimpleNamespace(settings=(("tiles", "2"), ("rows", "32"), ("keys", "32")))
)
SEQ_Q, SEQ_K = 200, 300
Q, K = torch.empty(2, SEQ_Q, 4, 64), torch.empty(2, SEQ_K, 2, 64)
ROW, COLUMN = torch.arange(SEQ_Q)[:, None], torch.arange(SEQ_K)
torch.manual_seed(0)
DOC = torch.randint(0, 3, (SEQ_K,)).sort().values
BIAS = torch.rand(SEQ_K)
PER = torch.randint(0, 90, (2, 4))


def listed(mask: str, *, causal: bool = False, **given: Any) -> Blocks:
    wanted = replace(asked(mask, None, causal, None, given), blocks=True)
    return by_torch(FUNCTION, wanted, Q, K, given)


def arguments(blocks: Blocks, wanted: Any, function: Any, q: Tensor, k: Tensor, given: Any) -> Any:
    """What a call with ``blocks`` passes its kernel."""
    return arguments_of(blocks.passed(wanted, given), wanted, function, q, k)


def dense(blocks: Blocks) -> Tensor:
    """Which blocks are listed, by the numbers of tiles."""
    keys = blocks.listed.shape[-1]
    found = torch.zeros(blocks.listed.shape, dtype=torch.bool)
    found.scatter_(-1, blocks.listed.long(), torch.arange(keys) < blocks.counts[..., None])
    return found.take_along_dim(blocks.order.argsort(-1)[..., None], -2)


def whole(blocks: Blocks) -> Tensor:
    """Which blocks are listed as full."""
    return dense(replace(blocks, counts=blocks.fulls))


def seen(kept: Tensor) -> Tensor:
    """Which blocks have an element that is kept."""
    rows, keys = -(-SEQ_Q // ROWS), -(-SEQ_K // KEYS)
    whole = torch.zeros(*kept.shape[:-2], rows * ROWS, keys * KEYS, dtype=torch.bool)
    whole[..., :SEQ_Q, :SEQ_K] = kept
    return whole.reshape(*kept.shape[:-2], rows, ROWS, keys, KEYS).any(-1).any(-2)


EXACT: dict[str, tuple[dict[str, Any], Tensor]] = {
    "doc[row] == doc2[column]": ({"doc": DOC[:SEQ_Q], "doc2": DOC}, DOC[:SEQ_Q, None] == DOC),
    "not doc[row] < doc2[column] and column >= first": (
        {"doc": DOC[:SEQ_Q], "doc2": DOC, "first": 40},
        (DOC[:SEQ_Q, None] >= DOC) & (COLUMN >= 40),
    ),
    "column // 50 == row // 50": ({}, ROW // 50 == COLUMN // 50),
    "column % 100 < 10 and abs(row - column) <= per[batch, head]": (
        {"per": PER},
        (COLUMN % 100 < 10) & ((ROW - COLUMN).abs() <= PER[..., None, None]),
    ),
    "max(row, 70) >= column or min(column, 290) == 290": (
        {},
        (ROW.clamp(min=70) >= COLUMN) | (COLUMN >= 290),
    ),
}


@pytest.mark.parametrize("mask", EXACT)
def test_blocks_that_are_seen(mask: str) -> None:
    """Names that occur once: what is listed is what is seen, but for combinations of conditions."""
    given, kept = EXACT[mask]
    found, right = dense(listed(mask, **given)), seen(kept)
    assert not (right & ~found).any()
    assert (found & ~right).double().mean() < 0.05
    full, left_out = whole(listed(mask, **given)), seen(~kept)
    assert not (full & left_out).any()
    assert not full[..., -1].any()  # the kernel masks what is behind the last key
    assert (~full & ~left_out).double().mean() < 0.05


def test_causal_documents() -> None:
    blocks = listed("doc[row] == doc2[column]", causal=True, doc=DOC[:SEQ_Q], doc2=DOC)
    kept = (DOC[:SEQ_Q, None] == DOC) & (COLUMN <= ROW + SEQ_K - SEQ_Q)
    found, right = dense(blocks), seen(kept)
    assert not (right & ~found).any()
    assert 0 < blocks.share < 0.7
    assert whole(blocks).any()
    assert not (whole(blocks) & seen(~kept)).any()
    assert (blocks.counts.dtype, blocks.listed.dtype) == (torch.int32, torch.int32)


def test_long_tiles_come_first() -> None:
    """In each slice, and equal ones in the order of their numbers."""
    mask = "column <= row and per[batch, head] > row // 64 * 30 - 200"
    for blocks in (
        listed(mask, per=PER),
        listed("doc[row] == docs[column]", doc=DOC[:SEQ_Q], docs=DOC),
    ):
        assert (blocks.counts.diff() <= 0).all()
        assert (blocks.order.diff()[blocks.counts.diff() == 0] > 0).all()
        assert (blocks.order.sort().values == torch.arange(blocks.order.shape[-1])).all()


def test_what_is_not_known_is_listed() -> None:
    """Functions that are approximated, a divisor that may be 0, elements that are no numbers."""
    assert dense(listed("tanh(row - column) > 2")).all()
    assert dense(listed("row / (column - 100) > 1e9"))[:, 3].all()
    none = BIAS.clone()
    none[5] = torch.nan
    assert dense(listed("bias[column] > 2", bias=none))[:, 0].all()
    assert not dense(listed("bias[column] > 2", bias=none))[:, 1:].any()


def test_rounding_is_outwards() -> None:
    """A comparison that float32 may decide otherwise than float64 holds for some element."""
    third = Interval(torch.tensor(0.1, dtype=torch.float64), torch.tensor(0.1, dtype=torch.float64))
    rules = Rules(Tensors(third.low.device), {"x": third})
    assert rules.condition(parse("x * 3 == 0.3")).some
    assert not rules.condition(parse("x * 3 == 0.3")).every
    assert rules.number(parse("floor(x * 10)")).low == 0
    assert rules.number(parse("floor(x * 10)")).high == 1


def test_which_masks_have_lists() -> None:
    def of(mask: str, **given: Any) -> bool:
        return opaque(variant_of(asked(mask, None, False, None, given)))

    assert of("doc[row] == doc[column]", doc=DOC)
    assert of("column <= row and bias[column] > 0", bias=BIAS)
    assert not of("column <= row + window", window=5)
    assert not of("column <= row + per[batch, head]", per=PER)
    wanted = asked("doc[row] == doc[column] and per[batch, head] > 3", None, False, None,
                   {"doc": DOC, "per": PER})  # fmt: skip
    assert listed_along(variant_of(wanted)) == ("batch", "head")
    data: Any = spec_of(replace(wanted, blocks=True)).source.data
    assert data["loops"]["walk"]["list"] == "listed"
    assert data["arguments"]["listed"]["shape"] == ["batch", "heads", "query_blocks", "key_blocks"]
    plain: Any = spec_of(wanted).source.data
    assert "walk" not in plain["loops"]


def test_numbers_are_those_of_kernels() -> None:
    """A literal is rounded as elements of tensors are."""
    gate = torch.full((SEQ_K,), 0.7)
    assert (listed("gate[column] >= 0.7", gate=gate).counts > 0).all()
    assert (listed("gate[column] == 0.7", gate=gate).counts > 0).all()
    assert not (listed("gate[column] < 0.7", gate=gate).fulls > 0).any()


@pytest.mark.parametrize("divisor", [4, -2, 3])
def test_rests_by_what_may_not_be_positive(divisor: int) -> None:
    """Of such a divisor nothing is known, so that no block is left out."""
    names = {
        "a": Interval(torch.tensor(-5.0).double(), torch.tensor(5.0).double(), whole=True),
        "b": Interval(torch.tensor(-2.0).double(), torch.tensor(4.0).double(), whole=True),
    }
    rules = Rules(Tensors(torch.device("cpu")), names)
    for rest in (-3, -1, 0, 1):
        assert rules.condition(parse(f"a % b == {rest}")).some
    names["b"] = rules.constant(float(divisor), True)
    values = {a % divisor for a in range(-5, 6)}
    assert all(rules.condition(parse(f"a % b == {rest}")).some for rest in values)


def test_lists_for_other_numbers_are_refused() -> None:
    given: Any = {"doc": DOC[:SEQ_Q], "docs": DOC, "w": 16}
    mask = "doc[row] == docs[column] and row - column < w"
    blocks = listed(mask, **given)
    wanted = asked(mask, None, False, None, given)
    assert arguments(blocks, wanted, FUNCTION, Q, K, given)
    with pytest.raises(ArgumentValueError, match=r"they are for \{'w': 16.0\}; allowed"):
        arguments(blocks, wanted, FUNCTION, Q, K, given | {"w": 256})


def test_lists_of_other_calls_are_refused() -> None:
    given: Any = {"doc": DOC[:SEQ_Q], "docs": DOC}
    blocks = listed("doc[row] == docs[column]", **given)
    wanted = asked("doc[row] == docs[column]", "score * 2", False, None, given)
    assert arguments(blocks, wanted, FUNCTION, Q, K, given)["counts"] is blocks.counts
    other = asked("doc[row] == docs[column]", None, True, None, given)
    with pytest.raises(ArgumentValueError, match="blocks: they are of"):
        arguments(blocks, other, FUNCTION, Q, K, given)
    with pytest.raises(ArgumentValueError, match="for 200 queries and 300 keys; allowed: 100"):
        arguments(blocks, wanted, FUNCTION, Q[:, :100], K, given)
    tile: Any = SimpleNamespace(facts=SimpleNamespace(settings=(*FUNCTION.facts.settings[:2],
                                                                ("keys", "64"))))  # fmt: skip
    with pytest.raises(ArgumentValueError, match="they are 64 x 32; allowed: 64 x 64"):
        arguments(blocks, wanted, tile, Q, K, given)
    with pytest.raises(ArgumentValueError, match="blocks: there is no mask"):
        attention(Q.bfloat16(), K.bfloat16(), K.bfloat16(), score="score * 2", blocks=blocks)
    with pytest.raises(ArgumentValueError, match="blocks: there is no mask"):
        attention(Q.bfloat16(), K.bfloat16(), K.bfloat16(), blocks=blocks)
