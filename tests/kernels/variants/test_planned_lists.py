"""Calls that list blocks: from the third one on, both launches are one plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.facts import read_facts
from schedgen.kernels import attention, library, plans
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import forward, listing
from schedgen.kernels.variants.blocks import Blocks, by_torch
from schedgen.kernels.variants.calling import asked, with_list
from schedgen.kernels.variants.planned import (
    _operator,  # pyright: ignore[reportPrivateUsage]
    of_caller,
)
from tests.kernels import test_operators
from tests.kernels.variants import test_listing
from tests.kernels.variants.test_listing import (
    KEYS,
    LENGTH,
    MASK,
    ROWS,
    SETTINGS,
    Attention,
    documents,
    operands,
)

pytestmark = test_operators.pytestmark
planned, on_cpu = test_operators.planned, test_listing.on_cpu
FILE = "attention_fwd_sm_90a_head_dim64_bf16.py"


class Host(test_operators.Kernel):
    """Stands in for `Launcher`, also for the host function behind it: lists by torch."""

    def __init__(self, calls: list[str], path: Path, wanted: Any) -> None:
        super().__init__(calls, FILE)
        self.facts, self.name, self.wanted = read_facts(path), path.name, wanted

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        if plans.current() is None:
            self.compute(tensors, scalars)
        else:
            super().launch(tensors, scalars)

    def call(self, places: Any, count: int) -> int:
        tensors, numbers = self.arguments(places, count)
        self.planned.append(self.name)
        self.compute(tensors, numbers)
        return 0

    def compute(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        window, seq_q, seq_k, rows, keys, heads = scalars
        assert (seq_q, seq_k, rows, keys, heads) == (LENGTH, LENGTH, ROWS, KEYS, 1)
        given = {"doc": tensors[0].long(), "window": int(window)}
        like = torch.empty(1, LENGTH, 2, 64)
        found = by_torch(Attention(), self.wanted, like, like, given)  # pyright: ignore
        for result, array in zip(tensors[3:], found.arrays.values(), strict=True):
            result.copy_(array.unsqueeze(0))
        self.calls.append(shown(found))


def shown(blocks: Blocks) -> str:
    return f"{blocks.order.tolist()} {blocks.counts.tolist()} {blocks.fulls.tolist()}"


@pytest.mark.usefixtures("on_cpu")
def test_lists_of_blocks_are_planned(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third call on, both launches are one plan: of other tensors and numbers, too."""
    kernel, calls = SpecKernel(library.named(FILE)), list[str]()
    opened = test_operators.opened
    opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]

    def of_variant(*_: Any) -> Any:
        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, **more: Any) -> Any:
            assert more["counts"].shape == (-(-LENGTH // ROWS),)
            return kernel(q=q, k=k, v=v, scale=scale)

        attend.facts = SimpleNamespace(settings=SETTINGS)  # pyright: ignore
        return attend

    q, k, v = operands()
    given: dict[str, Any] = {"doc": documents(), "window": 40.0}
    wanted = with_list(asked(MASK, None, False, None, given))
    found = listing.kernel_of(wanted, (True, True), "sm_90a")
    host = Host(calls, found.path, wanted)
    monkeypatch.setattr(listing, "launcher", lambda path, device: host)  # pyright: ignore
    monkeypatch.setattr(forward, "_kernel", of_variant)
    named = {"q": q, "k": k, "v": v, "scale": 0.125} | of_caller(None, given)
    takes = tuple((name, "Tensor" if torch.is_tensor(x) else "float") for name, x in named.items())
    operator = _operator(forward._FUNCTION, wanted, takes)  # pyright: ignore
    opened(operator, monkeypatch)
    for turn in range(5):
        given = {"doc": documents(turn), "window": 40.0 + turn}
        planned.clear()
        out, _ = attention(q + turn, k, v, mask=MASK, **given, return_lse=True)
        right = by_torch(of_variant(), wanted, q, k, given)
        assert calls.pop() == shown(right)
        assert not calls
        assert planned == ([found.path.name, FILE] if turn > 1 else [])
        assert torch.equal(out, attention(q + turn, k, v))
