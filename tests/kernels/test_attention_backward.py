"""Gradients of `attention` without a GPU: what they are, torch's checks, what is refused, when the
kernels are computed by torch on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from schedgen.driver import lock_file
from schedgen.kernels import attention, attention_backward, keys, launcher, one_walk
from schedgen.kernels.attention_backward import (
    ARCHITECTURES,
    KEYS,
    QUERIES,
    WHOLE,
    without_turns,
)
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, GradientError
from schedgen.kernels.one_walk import ORDERED, UNORDERED
from schedgen.kernels.variants import calling
from schedgen.spec.reader import read_spec
from tests.kernels.test_attention_op import operands, reference
from tests.kernels.walks import Walk

Shape = tuple[int, ...]


def derived(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, dout: Tensor, dlse: Tensor | None
) -> tuple[Tensor, ...]:
    """By torch, in float64."""
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = reference(leaves[0], leaves[1], leaves[2], scale, causal)
    seen = torch.isfinite(lse)
    total = (out * dout.double()).sum()
    if dlse is not None:
        total = total + (lse * dlse.double()).where(seen, 0).sum()
    found = torch.autograd.grad(total, leaves)
    return tuple(x.nan_to_num(0.0) for x in found)


def near(found: Tensor, wanted: Tensor) -> bool:
    return bool((found.double() - wanted).abs().max() <= 1e-2 * max(1.0, wanted.abs().max()))


def in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has few queries take turns, too, where many do."""

    def always(arch: str, head_dims: tuple[int, int], *_: object) -> bool:
        return head_dims[0] == head_dims[1] and head_dims[0] in ORDERED[arch]

    monkeypatch.setattr(one_walk, "in_turns", always)


TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [(1, 8, 8, 1, 1), (2, 5, 9, 4, 2), (1, 4, 3, 4, 1), (1, 7, 7, 2, 2, 128), (1, 1, 7, 2, 1)],
)
def test_gradients_are_those_of_float64(
    launches: list[str], monkeypatch: pytest.MonkeyPatch, shape: Shape, causal: bool, dtype: str
) -> None:
    in_turns(monkeypatch)
    q, k, v = (x.to(TYPES[dtype]).requires_grad_() for x in operands(*shape))  # type: ignore[arg-type]
    out = attention(q, k, v, causal=causal)
    dout = torch.randn(out.shape).to(out.dtype)
    found = torch.autograd.grad(out, (q, k, v), dout)
    wanted = derived(q, k, v, q.shape[3] ** -0.5, causal, dout, None)
    for mine, its, operand in zip(found, wanted, (q, k, v), strict=True):
        assert near(mine, its)
        assert mine.dtype == operand.dtype
        assert mine.shape == operand.shape
    end = f"sm_90a_head_dim{q.shape[3]}_{dtype}" + "_causal" * causal
    names = [f"kv_{end}.py", f"q_{end}.py"]
    if q.shape[3] in ORDERED["sm_90a"]:
        names = [f"{end}_ordered.py", f"convert_sm_90a_{dtype}_follows.py"]
    names = [f"delta_sm_90a_{dtype}.py", *names]
    assert launches[1:] == [f"attention_bwd_{name}" for name in names]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 9, 4, 2), (1, 7, 7, 2, 2, 128), (1, 7, 4, 2, 1)])
def test_gradients_in_any_order(
    launches: list[str], shape: Shape, causal: bool, dtype: str
) -> None:
    """By one kernel that adds to what has to be zeros, and one that rounds."""
    q, k, v = (x.to(TYPES[dtype]).requires_grad_() for x in operands(*shape))  # type: ignore[arg-type]
    out = attention(q, k, v, causal=causal, deterministic=False)
    dout = torch.randn(out.shape).to(out.dtype)
    found = torch.autograd.grad(out, (q, k, v), dout)
    assert all(map(near, found, derived(q, k, v, q.shape[3] ** -0.5, causal, dout, None)))
    end = f"_head_dim{q.shape[3]}_{dtype}" + "_causal" * causal + ".py"
    names = [f"delta_sm_90a_{dtype}.py", f"sm_90a{end}", f"convert_sm_90a_{dtype}_follows.py"]
    assert launches[1:] == [f"attention_bwd_{name}" for name in names]


@pytest.mark.parametrize(("arch", "head_dim"), [("sm_90a", 64), ("sm_100a", 64), ("sm_100a", 128)])
def test_order_is_kept_where_that_is_no_slower(
    launches: list[str], monkeypatch: pytest.MonkeyPatch, arch: str, head_dim: int
) -> None:
    """One kernel instead of two is a question of model cycles, which locks know."""
    monkeypatch.setattr(keys, "architecture", lambda device: arch)  # pyright: ignore
    q, k, v = operands(1, 8, 8, 1, 1, head_dim)
    out, lse = attention(q, k, v, return_lse=True)
    before = len(launches)
    attention_backward(torch.ones_like(out), q, k, v, out, lse, deterministic=False)
    one_walk = any("convert" in name for name in launches[before:])
    assert one_walk == (head_dim in UNORDERED[arch])


def test_few_queries_or_tiles_take_no_turns(
    launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    def two(device: torch.device) -> int:
        del device
        return 2

    monkeypatch.setattr(launcher, "multiprocessors", two)
    for (queries, heads), turns in {(2047, 8): False, (2048, 7): False, (2048, 8): True}.items():
        q, k, v = operands(1, queries, 8, heads, heads, 128)
        out, lse = attention(q, k, v, return_lse=True)
        before = len(launches)
        attention_backward(torch.ones_like(out), q, k, v, out, lse)
        assert any("_ordered" in name for name in launches[before:]) == turns


def test_tiles_are_those_of_the_spec() -> None:
    assert read_spec(WHOLE).file.parameters["keys"].default == one_walk.BLOCK


def test_gradients_without_sums_over_blocks(launches: list[str]) -> None:
    """By two kernels where one would take turns."""
    assert 128 in ORDERED["sm_90a"]
    q, k, v = operands(2, 5, 9, 4, 2, 128)
    out, lse = attention(q, k, v, return_lse=True)
    dout = torch.randn(out.shape).to(out.dtype)
    found = without_turns(dout, q, k, v, out, lse)
    assert all(map(near, found, derived(q, k, v, 128**-0.5, False, dout, None)))
    assert [name.split("_sm")[0] for name in launches[2:]] == [KEYS, QUERIES]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_walk_takes_fewer_model_cycles(arch: str) -> None:
    """Than two, for as many keys and queries, for each head_dim that there is one for."""

    def cycles(spec: str) -> dict[tuple[str, bool], float]:
        lock = lock_file.read(lock_file.folder() / f"{spec}_{arch}.json")
        return {
            (kernel.settings["head_dim"], "causal" in kernel.settings): schedule.ii_cycles
            for schedule in lock.schedules
            for kernel in schedule.kernels
        }

    whole, of_keys, of_queries = map(cycles, (WHOLE, KEYS, QUERIES))
    assert {int(head_dim) for head_dim, _ in whole} == set(UNORDERED[arch])
    # Of 128 keys: queries of an iteration, and of the last one 128 of 96 keys on Hopper.
    hopper = {"64": (128, 128, 96), "128": (80, 64, 96)}
    for one, taken in whole.items():
        sizes = hopper[one[0]] if arch == "sm_90a" else (128, 128, 128)
        each = (taken, of_keys[one], of_queries[one])
        together, keys, queries = (c / size for c, size in zip(each, sizes, strict=True))
        assert together < keys + queries


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_lse(launches: list[str], causal: bool) -> None:
    q, k, v = (x.requires_grad_() for x in operands(2, 5, 9, 4, 2))
    out, lse = attention(q, k, v, causal=causal, return_lse=True, softmax_scale=0.3)
    dout, dlse = torch.randn(out.shape).to(out.dtype), torch.randn(lse.shape)
    found = torch.autograd.grad((out, lse), (q, k, v), (dout, dlse), retain_graph=True)
    wanted = derived(q, k, v, 0.3, causal, dout, dlse)
    assert all(map(near, found, wanted))
    found = torch.autograd.grad(lse, (q, k), dlse)
    wanted = derived(q, k, v, 0.3, causal, torch.zeros_like(dout), dlse)
    assert all(map(near, found, wanted[:2]))


def test_rows_that_see_no_key(launches: list[str]) -> None:
    q, k, v = (x.requires_grad_() for x in operands(1, 7, 4, 2, 1))
    out = attention(q, k, v, causal=True)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), torch.randn(out.shape).to(out.dtype))
    assert not dq[:, :3].any()
    assert all(torch.isfinite(x).all() for x in (dq, dk, dv))


def test_single_token(launches: list[str]) -> None:
    """Over many keys it is decoded, but for its gradients."""
    q, k, v = operands(1, 1, 1100, 4, 1)
    attention(q, k, v)
    assert not any(name.startswith("attention_fwd") for name in launches)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attention(leaves[0], leaves[1], leaves[2])
    found = torch.autograd.grad(out.sum(), leaves)
    assert all(map(near, found, derived(q, k, v, 1 / 8, False, torch.ones_like(out), None)))


def test_gradient_of_any_layout(launches: list[str]) -> None:
    """That of a sum has strides of 0; others may begin anywhere."""
    q, k, v = (x.requires_grad_() for x in operands(1, 8, 8, 2, 2))
    attention(q, k, v).sum().backward()
    wanted = derived(q, k, v, 1 / 8, False, torch.ones_like(q), None)
    assert all(map(near, (q.grad, k.grad, v.grad), wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(1, 4, 0, 2, 1), (2, 0, 4, 2, 2), (0, 4, 4, 2, 2)])
def test_nothing_to_derive(launches: list[str], shape: Shape) -> None:
    q, k, v = (x.requires_grad_() for x in operands(*shape))  # type: ignore[arg-type]
    attention(q, k, v).sum().backward()
    assert all(x.grad is not None and not x.grad.any() for x in (q, k, v))
    assert launches == []


def test_graph_is_used_once(launches: list[str]) -> None:
    q, k, v = (x.requires_grad_() for x in operands(1, 8, 8, 1, 1))
    total = attention(q, k, v).sum()
    total.backward()
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


def test_no_second_derivative(launches: list[str]) -> None:
    q, k, v = (x.requires_grad_() for x in operands(1, 8, 8, 1, 1))
    (dq,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(GradientError, match="attention_bwd has no backward pass"):
        dq.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dim", "dim_v"), [(32, 32), (96, 96), (192, 128), (256, 256)])
def test_kernels_that_are_made_on_first_use(
    launches: list[str], monkeypatch: pytest.MonkeyPatch, dim: int, dim_v: int, causal: bool
) -> None:
    """Those of a head_dim that none is shipped for, of shared heads; wide ones in two parts."""
    asked: list[tuple[str, str]] = []

    def made(base: str, device: torch.device, settings: Mapping[str, str]) -> Walk:
        del device
        assert settings["head_dim"] == str(dim)
        asked.append((base, settings.get("of", "")))
        return Walk(base, settings, causal="causal" in settings)

    monkeypatch.setattr(calling, "without_expressions", made)
    shapes = (7, 4, dim), (9, 2, dim), (9, 2, dim_v)
    q, k, v = (torch.randn(2, *one).bfloat16().requires_grad_() for one in shapes)
    out = attention(q, k, v, causal=causal)
    dout = torch.randn(out.shape).bfloat16()
    found = torch.autograd.grad(out, (q, k, v), dout)
    assert all(map(near, found, derived(q, k, v, dim**-0.5, causal, dout, None)))
    assert [x.shape for x in found] == [x.shape for x in (q, k, v)]
    walks = ["keys", "values"] if dim > 128 else [""]
    assert asked == [*((KEYS, of) for of in walks), (QUERIES, "")]
    assert launches[1:] == ["attention_bwd_delta_sm_90a_bf16.py"]


def test_refused(launches: list[str]) -> None:
    q, k, v = operands(1, 8, 8, 1, 1)
    out, lse = attention(q, k, v, return_lse=True)
    with pytest.raises(ArgumentValueError, match="dout: its shape is"):
        attention_backward(out[:, :4], q, k, v, out, lse)
    with pytest.raises(ArgumentValueError, match=r"lse: its shape is"):
        attention_backward(out, q, k, v, out, lse[..., :4])
    with pytest.raises(ArgumentTypeError, match=r"dout: its dtype is torch\.float32"):
        attention_backward(out.float(), q, k, v, out, lse)
    with pytest.raises(ArgumentTypeError, match=r"dlse: its dtype is torch\.float64"):
        attention_backward(out, q, k, v, out, lse, dlse=lse.double())


@pytest.mark.medium
@pytest.mark.parametrize("dtype", TYPES.values())
def test_checks_of_torch(launches: list[str], dtype: torch.dtype) -> None:
    """By the stand-in, sums have the same bits in any order, too."""
    q, k, v = (x.to(dtype) for x in operands(1, 8, 12, 2, 1))
    out, lse = attention(q, k, v, return_lse=True)
    arguments = (torch.ones_like(out), q, k, v, out, lse, None, 1 / math.sqrt(64), False)
    torch.library.opcheck(torch.ops.schedgen.attention_bwd.default, arguments)
    torch.library.opcheck(torch.ops.schedgen.attention_bwd_unordered.default, arguments)
    leaves = (*(x.requires_grad_() for x in (q, k, v)), 0.125, True)
    torch.library.opcheck(torch.ops.schedgen.attention_fwd.default, leaves)
    torch.library.opcheck(torch.ops.schedgen.attention_fwd_unordered.default, leaves)


@pytest.mark.medium
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(launches: list[str], dynamic: bool, deterministic: bool) -> None:
    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, lse = attention(q, k, v, causal=True, return_lse=True, deterministic=deterministic)
        return (out.float() * 0.5).sum() + lse.sum()

    leaves = [x.requires_grad_() for x in operands(1, 8, 12, 2, 1)]
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves)
    wanted = torch.autograd.grad(loss(*leaves), leaves)
    assert all(map(torch.equal, found, wanted))
