"""Gradients of variants are computed by a plan from the third backward pass on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.facts import read_facts
from schedgen.kernels import attention, attention_backward, library, one_walk, plans
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import calling, gradients, listing
from schedgen.kernels.variants.calling import asked
from schedgen.kernels.variants.planned import (
    _operator,  # pyright: ignore[reportPrivateUsage]
    of_caller,
)
from tests.kernels import test_operators
from tests.kernels.test_attention_op import operands

pytestmark = test_operators.pytestmark
planned = test_operators.planned

FILES = [
    "attention_bwd_delta_sm_90a_bf16.py",
    "attention_bwd_kv_sm_90a_head_dim64_bf16.py",
    "attention_bwd_q_sm_90a_head_dim64_bf16.py",
]
ONE_WALK = [
    FILES[0],
    "attention_bwd_sm_90a_head_dim64_bf16_ordered.py",
    "attention_bwd_convert_sm_90a_bf16_follows.py",
]
COMPUTED = ["call", "call", "plan"]
"""The second call makes the plan, which computes the later ones."""
MASK, DOCUMENTS = "column >= first", "doc[row] == docs[column]"
SEQ_Q, SEQ_K = 50, 30


class Walked:
    """A kernel that is passed a list of blocks, which is looked at and left out."""

    def __init__(self, kernel: SpecKernel) -> None:
        self._kernel, self.outputs, self.facts = kernel, kernel.outputs, kernel.facts
        arrays = (SimpleNamespace(name=name) for name in ("counts", "fulls", "order", "listed"))
        self.inputs = (*arrays, *kernel.inputs)

    def told(self, **given: Any) -> Any:
        known = dict(self.facts.settings)
        tiles, blocks = -(-SEQ_K // int(known["keys"])), -(-SEQ_Q // int(known["queries"]))
        shape = (blocks, tiles) if self.outputs[0].name == "dq" else (tiles, blocks)
        assert given["listed"].shape == shape
        assert given["counts"].shape == given["order"].shape == shape[:1]
        return self._kernel.told(**{one.name: given[one.name] for one in self._kernel.inputs})


class Lists(test_operators.Kernel):
    """Stands in for what lists blocks; nobody reads what it would write."""

    def __init__(self, path: Path) -> None:
        super().__init__([], FILES[0])
        self.facts, self.name = read_facts(path), path.name

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        if plans.current() is not None:
            super().launch(tensors, scalars)

    def call(self, places: Any, count: int) -> int:
        self.planned.append(self.name)
        return 0


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[str]:
    """A line for each time that Python computes gradients."""
    found, function = list[str](), gradients._FUNCTION  # pyright: ignore[reportPrivateUsage]

    def compute(wanted: Any, named: Any) -> Any:
        found.append("plan" if plans.current() is not None else "call")
        return function.compute(wanted, named)

    name = "".join(x for x in request.node.name if x.isalnum() or x == "_") + "_gradients"
    monkeypatch.setattr(gradients, "_FUNCTION", replace(function, name=name, compute=compute))
    return found


@pytest.fixture(autouse=True)
def on_gpu(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is asked about, and no tensor without data, which plans are made with."""
    del planned  # which says so of every device

    def architecture(device: torch.device) -> str:
        assert device.type != "meta"
        return "sm_90a"

    monkeypatch.setattr("schedgen.kernels.keys.architecture", architecture)
    monkeypatch.setattr(listing, "on_gpu", lambda device: device.type != "meta")  # pyright: ignore
    lists = cache(Lists)
    monkeypatch.setattr(listing, "launcher", lambda path, device: lists(path))  # pyright: ignore


def test_lists_are_in_the_plan(
    planned: list[str], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each of both kernels, in front of it."""
    kernels = [SpecKernel(library.named(name)) for name in FILES]
    for kernel in kernels:
        test_operators.opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    of_base: dict[str, Any] = {one.facts.kernel: Walked(one) for one in kernels[1:]}
    of_base[gradients.DELTA] = kernels[0]
    monkeypatch.setattr(calling, "kernel_of", lambda asked, *_: of_base[asked.base])  # pyright: ignore
    q, k, v = operands(1, SEQ_Q, SEQ_K, 4, 2, 64)
    out, lse = attention(q, k, v, return_lse=True)
    given = {"doc": torch.zeros(SEQ_Q), "docs": torch.zeros(SEQ_K)}
    wanted = replace(asked(DOCUMENTS, None, False, None, given), blocks=True)
    named: dict[str, Any] = {"q": q, "k": k, "v": v, "do": q, "o": out, "lse": lse, "scale": 0.125}
    named |= of_caller(None, given)
    takes = tuple((name, "Tensor" if torch.is_tensor(x) else "float") for name, x in named.items())
    test_operators.opened(_operator(gradients._FUNCTION, wanted, takes), monkeypatch)  # pyright: ignore
    for _ in range(4):
        planned.clear()
        gradients.backward(q, (q, k, v), (out, lse), None, wanted, 0.125, None, given)
    assert [name if name in FILES else "" for name in planned] == [
        FILES[0],
        *("", FILES[1]),
        *("", FILES[2]),
    ]
    assert computed == COMPUTED


@pytest.mark.parametrize("files", [FILES, ONE_WALK])
def test_gradients_are_planned(
    files: list[str], planned: list[str], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All their launches are one plan, of other tensors and numbers, too; that of ``lse`` is
    subtracted in Python. In one walk that of q is added up, and rounded behind.
    """
    monkeypatch.setattr(one_walk, "in_turns", lambda *_: files is ONE_WALK)  # pyright: ignore
    kernels = [SpecKernel(library.named(name)) for name in files if "convert" not in name]
    for kernel in kernels:
        test_operators.opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    of_base = {kernel.facts.kernel: kernel for kernel in kernels}
    monkeypatch.setattr(calling, "kernel_of", lambda asked, *_: of_base[asked.base])  # pyright: ignore
    q, k, v = operands(1, SEQ_Q, SEQ_K, 4, 2, 64)
    out, lse = attention(q, k, v, return_lse=True)
    wanted = asked(MASK, None, False, None, {"first": 1.0})
    named: dict[str, Any] = {"q": q, "k": k, "v": v, "do": q, "o": out, "lse": lse, "scale": 0.125}
    named |= of_caller(None, {"first": 1.0})
    takes = tuple((name, "Tensor" if torch.is_tensor(x) else "float") for name, x in named.items())
    test_operators.opened(_operator(gradients._FUNCTION, wanted, takes), monkeypatch)  # pyright: ignore
    for turn in range(5):
        q, k, v = (x + turn / 4 for x in operands(1, SEQ_Q, SEQ_K, 4, 2, 64))
        out, lse = attention(q, k, v, return_lse=True)
        dout = torch.randn_like(q)
        right = attention_backward(dout, q, k, v, out, lse)
        planned.clear()
        given = wanted, 0.125, None, {"first": 1.0 + turn}
        found = gradients.backward(dout, (q, k, v), (out, lse), None, *given)
        assert planned == (files if turn > 1 else [])
        for mine, its in zip(found, right, strict=False):
            torch.testing.assert_close(mine, its, rtol=0, atol=0)
    assert computed == COMPUTED
    planned.clear()
    through_lse = gradients.backward(dout, (q, k, v), (out, lse), lse, *given)  # pyright: ignore
    assert not set(files[1:2]) & set(planned)
    assert not torch.equal(through_lse[0], found[0])  # pyright: ignore
