"""flash-attn's arguments: what they ask `attention` for, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode  # pyright: ignore[reportPrivateImportUsage]

from schedgen.kernels import attention, flash_attn, flash_attn_func
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from schedgen.kernels.flash_attn import NO_END, variant_arguments
from schedgen.kernels.variants import calling
from schedgen.kernels.variants.calling import Asked, asked
from schedgen.kernels.variants.errors import VariantError

Q = torch.zeros(3, 8, 4, 64, dtype=torch.bfloat16)
K = torch.zeros(3, 10, 2, 64, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("causal", "window", "wanted"),
    [
        (False, (-1, -1), {"causal": False}),
        (True, (None, None), {"causal": True}),
        (False, (-1, 0), {"causal": True}),
        (True, (-1, 7), {"causal": True}),
        (True, (5, 9), {"window_left": 5, "window_right": 0}),
        (False, (5, -1), {"window_left": 5, "window_right": NO_END}),
        (False, (None, 0x7FFFFFFF), {"window_left": NO_END, "window_right": NO_END}),
    ],
)
def test_windows(causal: bool, window: Any, wanted: Mapping[str, object]) -> None:
    found = variant_arguments(Q, causal, window, 0.0, None)
    assert ("mask" in found) == ("causal" not in wanted)
    assert {name: value for name, value in found.items() if name != "mask"} == wanted


def test_kernels_are_shared() -> None:
    """Other windows, caps and slopes are the same kernel."""

    def kernel(left: int, cap: float, slopes: Tensor) -> Asked:
        given = variant_arguments(Q, False, (left, 3), cap, slopes)
        return asked(given.pop("mask"), given.pop("score"), False, None, given)

    assert kernel(5, 30.0, torch.ones(4)) == kernel(700, 2.5, torch.zeros(4))
    assert kernel(5, 30.0, torch.ones(4)) != kernel(5, 30.0, torch.ones(3, 4))


def test_what_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    out, lse = torch.ones(1), torch.zeros(1)
    monkeypatch.setattr(flash_attn, "attention", lambda *_, **__: (out, lse))  # pyright: ignore
    assert flash_attn_func(Q, K, K) is out
    assert flash_attn_func(Q, K, K, 0.0, None, True, (4, 0), return_lse=True) == (out, lse)
    assert flash_attn_func(Q, K, K, return_attn_probs=True) == (out, lse, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dropout_p": 0.1}, "dropout_p: it is 0.1; allowed: 0.0"),
        ({"attention_chunk": 128}, "attention_chunk: it is 128"),
        ({"num_splits": 4}, "num_splits: it is 4"),
        ({"qv": Q}, "qv: it is given; allowed: None"),
        ({"k_descale": Q}, "k_descale: it is given"),
        ({"softcap": -1.0}, "softcap: it is -1.0"),
        ({"window_size": (1, 2, 3)}, "window_size: it has 3 numbers"),
        ({"alibi_slopes": torch.ones(3)}, r"alibi_slopes: its shape is \(3,\)"),
        ({"sinks": torch.ones(4), "learnable_sink": torch.ones(4)}, "learnable_sink is given"),
        ({"sinks": torch.ones(3)}, r"sinks: its shape is \(3,\); allowed: \(4,\)"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        flash_attn_func(Q, K, K, **given)


def test_wrong_arguments_of_expressions() -> None:
    """Said without a GPU."""
    window: Any = (1.5, 2)
    with pytest.raises(ArgumentTypeError, match=r"window_size: 1.5 is in it"):
        flash_attn_func(Q, K, K, window_size=window)
    with pytest.raises(ArgumentValueError, match="doc: it is given, but no expression names it"):
        attention(Q, K, K, mask="column <= row", doc=torch.ones(3))
    with pytest.raises(ArgumentValueError, match="row: it is given, but means something else"):
        attention(Q, K, K, mask="column <= row", row=3)
    flag: Any = True
    with pytest.raises(ArgumentTypeError, match="on: it is a bool"):
        attention(Q, K, K, mask="column <= on", on=flag)
    with pytest.raises(VariantError, match=r"score, column 9: error\[unknown-name\]: 'slope'"):
        attention(Q, K, K, score="score * slope")
    with pytest.raises(DeviceError, match="q is on cpu"):
        attention(Q, K, K, mask="column <= row")


def test_nothing_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys there is no kernel to call."""
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    sinks = torch.tensor([1.0, 2.0, 3.0, 4.0])
    out, lse = attention(Q, K[:, :0], K[:, :0], sinks=sinks, return_lse=True)
    assert not out.any()
    assert torch.equal(lse, sinks[None, :, None].expand(3, 4, 8))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_is_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fake implementation; a vector of the wrong length is refused by it, too."""
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    small = calling.kernel_of

    def quickly(wanted: Asked, target: str, settings: tuple[tuple[str, str], ...]) -> Any:
        return small(wanted, target, (*settings, ("tiles", "1"), ("keys", "32")))

    monkeypatch.setattr(calling, "kernel_of", quickly)
    doc = torch.zeros(10)

    def run(doc: Tensor) -> tuple[Tensor, Tensor]:
        mask = "doc[column] < limit + row"
        return attention(Q, K, K, mask=mask, doc=doc, limit=3, return_lse=True)

    with FakeTensorMode(allow_non_fake_inputs=True):
        out, lse = run(doc)
    assert (out.shape, out.dtype, lse.shape) == (Q.shape, Q.dtype, (3, 4, 8))
    with pytest.raises(ArgumentValueError, match="doc: its dimension 0 is 9; allowed: 10"):
        run(doc[:9])
