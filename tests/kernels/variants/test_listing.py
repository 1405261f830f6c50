"""Lists of blocks by a kernel, in calls of `attention`: what it lists is what is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from schedgen.codegen.compiling import CompileError
from schedgen.driver.emulating import launched
from schedgen.kernels import (
    attention,
    attention_blocks,
    checks,
    keys,
    layouts,
)
from schedgen.kernels.variants import forward, listing
from schedgen.kernels.variants.calling import asked, with_list

ROWS, KEYS = 32, 24
LENGTH = 150
MASK = "doc[row] == doc[column] and row - column < window"
SETTINGS = (("tiles", "2"), ("rows", str(ROWS // 2)), ("keys", str(KEYS)))
CPU = torch.device("cpu")
LOG2_E = math.log2(math.e)


class Emulated:
    """Stands in for `Launcher`."""

    count = 0

    def __init__(self, path: Path, device: torch.device) -> None:
        assert device == CPU
        self.text = path.read_text("utf-8")

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        Emulated.count += 1
        views = [t.as_strided(t.shape, (*layouts.strides(t), 1)) for t in tensors]
        report = launched(self.text, "sm_90a", views, scalars)
        assert not report.errors, report.text


class Attention:
    """Stands in for the kernel of a variant: all elements of blocks that are full, those that the
    mask keeps of others, and nothing else.
    """

    facts = SimpleNamespace(settings=SETTINGS)

    def __call__(self, **given: Any) -> tuple[Tensor, Tensor]:
        order, counts, fulls, listed = (
            given[name] for name in ("order", "counts", "fulls", "listed")
        )
        assert layouts.problem(listed) is None  # else it would be copied
        doc, place = given["given_doc_row"], torch.arange(LENGTH)
        near = place[:, None] - place < given["given_window"]
        kept = (doc[:, None] == given["given_doc_column"]) & near
        seen = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
        for at, tile in enumerate(order.tolist()):
            rows = slice(tile * ROWS, (tile + 1) * ROWS)
            for number, block in enumerate(listed[at, : counts[at]].tolist()):
                part = rows, slice(block * KEYS, (block + 1) * KEYS)
                full = number < fulls[at]
                seen[part] = True if full else kept[part]
        return computed(given["q"], given["k"], given["v"], given["scale"], seen)


def computed(q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor) -> tuple[Tensor, Tensor]:
    """With the exponent to the base of 2."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) * scale / LOG2_E
    scores = scores.masked_fill(~seen, -torch.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1).nan_to_num(0.0), v.float())
    return out.to(q.dtype), scores.logsumexp(-1)


def operands() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, LENGTH, 2, 64).bfloat16() for _ in range(3))
    return q, k, v


def documents(seed: int = 0) -> Tensor:
    return torch.randint(0, 4, (LENGTH,), generator=torch.Generator().manual_seed(seed)).sort()[0]


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there was a GPU."""
    monkeypatch.setattr(listing, "on_gpu", lambda device: True)  # pyright: ignore
    monkeypatch.setattr(checks, "devices", lambda **_: CPU)  # pyright: ignore
    monkeypatch.setattr(keys, "architecture", lambda _: "sm_90a")  # pyright: ignore


@pytest.mark.medium
@pytest.mark.usefixtures("on_cpu")
def test_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's list in the emulator, made in each call or before."""
    monkeypatch.setattr(listing, "launcher", Emulated)
    monkeypatch.setattr(forward, "_kernel", lambda *_: Attention())  # pyright: ignore
    q, k, v = operands()
    doc, place, before = documents(), torch.arange(LENGTH), Emulated.count
    given: dict[str, Any] = {"mask": MASK, "doc": doc, "window": 40}
    out, lse = attention(q, k, v, **given, return_lse=True)
    assert Emulated.count == before + 1
    kept = (doc[:, None] == doc) & (place[:, None] - place < 40)
    right = computed(q, k, v, LOG2_E / 8, kept)
    assert torch.equal(out, right[0])
    assert torch.equal(lse, right[1])
    blocks = attention_blocks(q, k, v, **given)
    assert 0 < blocks.share < 0.7
    again, _ = attention(q, k, v, blocks=blocks, **given, return_lse=True)
    assert torch.equal(out, again)
    assert Emulated.count == before + 2


@pytest.mark.usefixtures("on_cpu")
def test_where_there_is_no_kernel(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists are made by operations of torch, and that is said once."""

    def launcher(*_: Any) -> Any:
        raise CompileError("it has too much to compute")

    monkeypatch.setattr(listing, "launcher", launcher)
    monkeypatch.setattr(forward, "_kernel", lambda *_: Attention())  # pyright: ignore
    q, k, v = operands()
    given: dict[str, Any] = {"mask": "window > 0 and " + MASK, "doc": documents(), "window": 40}
    for _ in range(2):
        blocks = attention_blocks(q, k, v, **given)
        assert 0 < blocks.share < 0.7
    assert [one.message for one in caplog.records] == [
        "lists of blocks are made by operations of torch: it has too much to compute"
    ]


def test_shapes_without_values() -> None:
    """Of each batch and head that the mask names, padded so that rows begin at 16 bytes."""
    per = torch.ones(2, 3)
    given: dict[str, Any] = {"per": per, "doc": documents()}
    wanted = with_list(asked("doc[row] == per[batch, head]", None, False, None, given))
    kernel = listing.kernel_of(wanted, listing.whole_of(wanted, given), "sm_90a")
    with FakeTensorMode():
        q, k = torch.empty(2, LENGTH, 3, 64), torch.empty(2, 70, 3, 64)
        passed = {"given_per_batch_head": torch.empty(2, 3), "given_doc_row": torch.empty(LENGTH)}
        found = kernel((ROWS, KEYS), q, k, passed)
    assert [one.shape for one in found] == [*[(2, 3, 5)] * 3, (2, 3, 5, 3)]
    assert all(one.stride(-2) % 4 == 0 for one in found)
