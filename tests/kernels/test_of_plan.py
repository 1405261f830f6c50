"""Plans of several kernels as functions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode  # pyright: ignore[reportPrivateImportUsage]

from schedgen.driver import selecting
from schedgen.errors import SchedgenError
from schedgen.kernels import PlanKernel, attention, attention_backward, kernel, of_file
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.standin import StandIn
from tests.kernels.test_attention_op import operands
from tests.schedgen.driver.test_plan import PARTS

MLP = Path(__file__).parents[2] / "docs" / "examples" / "mlp.yaml"


@pytest.fixture
def launches(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels of files are computed on the CPU, too."""

    def launcher(path: Path, _: torch.device) -> StandIn:
        return StandIn(launches, path.name)

    monkeypatch.setattr(of_file, "launcher", launcher)
    return launches


@pytest.fixture
def gradients() -> PlanKernel:
    """A shipped plan of shipped kernels."""
    found = kernel("attention_gradients", target="h200", head_dim=64, ordered=False)
    assert isinstance(found, PlanKernel)
    return found


def inputs() -> tuple[Tensor, ...]:
    """q, k, v, out, lse, dout."""
    q, k, v = operands(2, 70, 90, 2, 2, 64)
    out, lse = attention(q, k, v, return_lse=True)
    return q, k, v, out, lse, torch.randn_like(out)


def test_what_it_says(gradients: PlanKernel) -> None:
    assert repr(gradients) == (
        "<plan attention_gradients of attention_bwd_delta, attention_bwd, attention_bwd_convert: "
        "(q, k, v, o, lse, do, scale) -> dq, dk, dv>"
    )
    again = kernel("attention_gradients", target="h200", head_dim="64", ordered="false")
    assert again is gradients


def test_results_are_those_of_the_function(gradients: PlanKernel, launches: list[str]) -> None:
    q, k, v, out, lse, dout = inputs()
    launches.clear()
    found = gradients(q, k, v, out, lse, dout, scale=0.125)
    assert [name.partition("_sm_90a")[0] for name in launches] == [
        *("attention_bwd_delta", "attention_bwd", "attention_bwd_convert")
    ]
    wanted = attention_backward(dout, q, k, v, out, lse)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype is torch.bfloat16
        assert torch.allclose(mine.float(), theirs.float(), atol=2e-2)


def test_numbers_are_those_of_each_call(gradients: PlanKernel, launches: list[str]) -> None:
    q, k, v, out, lse, dout = inputs()
    first, second = (gradients(q, k, v, out, lse, dout, scale)[2] for scale in (0.125, 0.25))
    assert not torch.equal(first, second)
    assert launches


def test_it_is_compiled_as_one_graph(gradients: PlanKernel, launches: list[str]) -> None:
    def more(*arguments: Any) -> Tensor:
        return gradients(*arguments)[0] * 2

    compiled: Any = torch.compile(more, fullgraph=True, backend="eager")
    given = (*inputs(), 0.125)
    assert torch.equal(compiled(*given), more(*given))
    assert launches


def test_fake_results(gradients: PlanKernel) -> None:
    with FakeTensorMode():
        q = torch.empty(2, 70, 4, 64, dtype=torch.bfloat16)
        k = torch.empty(2, 90, 4, 64, dtype=torch.bfloat16)
        lse = torch.empty(2, 4, 70)
        dq, dk, dv = gradients(q, k, k, q, lse, q, 0.1)
    assert (dq.shape, dk.shape, dv.shape) == (q.shape, k.shape, k.shape)
    assert {x.dtype for x in (dq, dk, dv)} == {torch.bfloat16}


def test_what_does_not_fit(gradients: PlanKernel, launches: list[str]) -> None:
    q, k, v, out, lse, dout = inputs()
    with pytest.raises(ArgumentValueError, match="o: its seq_q is 60; allowed: 70"):
        gradients(q, k, v, out[:, :60], lse, dout, 0.125)
    with pytest.raises(ArgumentTypeError, match=r"k: its dtype is torch.float32"):
        gradients(q, k.float(), v, out, lse, dout, 0.125)
    with pytest.raises(TypeError, match="scale missing; arguments are q, k, v, o, lse, do, scale"):
        gradients(q, k, v, out, lse, dout)
    assert len(launches) == 1  # of attention
    with pytest.raises(ArgumentValueError, match="tuned: attention_gradients is a plan"):
        kernel("attention_gradients", target="h200", tuned="tuned.json")


def test_settings_reach_its_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each kernel is solved by what it is called in its file, with settings of its own."""
    asked: list[tuple[str, dict[str, str]]] = []

    def selected(name: str, _: str, settings: dict[str, str], *__: object, **___: object) -> None:
        asked.append((name, settings))
        raise SchedgenError("asked")

    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selecting, "selected", selected)
    with pytest.raises(SchedgenError, match="asked"):
        kernel(MLP, target="h200", tile_n=64)
    assert asked == [(f"{MLP}#product", {"dtype": "bf16", "tile_n": "64", "relu": "true"})]


@pytest.mark.medium
def test_extents_of_results_only(launches: list[str], tmp_path: Path) -> None:
    """A product in parts of k, whose number is a parameter."""
    path = tmp_path / "split.yaml"
    path.write_text(PARTS, "utf-8")
    split = kernel(path, target="h200", parts=3)
    a, b, c = (torch.randn(1, *shape).bfloat16() / 4 for shape in ((70, 640), (90, 640), (70, 90)))
    d = split(a, b, c, alpha=2.0, beta=0.5)
    assert len(launches) == 2
    wanted = 2.0 * (a.double() @ b.double().mT) + 0.5 * c.double()
    assert torch.allclose(d.double(), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.slow
def test_in_the_emulator(emulated: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both kernels of a file, from the text to the result."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    mlp = kernel(MLP, target="h200", tile_n=64)
    x, up, down = (
        (torch.randn(*shape) / math.sqrt(shape[-1])).bfloat16()
        for shape in ((70, 72), (136, 72), (72, 136))
    )
    y = mlp(x, up, down)
    wanted = (x.double() @ up.double().mT).relu() @ down.double().mT
    assert torch.allclose(y.double(), wanted, rtol=2e-2, atol=2e-2)
