"""`attention_decode` without a GPU: what it refuses, shapes, torch's checks, splits, with kernels
that torch computes on the CPU.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.driver import lock_file
from schedgen.kernels import attention, attention_decode, flash_attn_func
from schedgen.kernels.attention_arguments import dims
from schedgen.kernels.attention_decode import (
    COMBINE,
    HEAD_DIMS,
    IN_TURN,
    MOST_SPLITS,
    PARTS,
    STEP,
    WHOLE,
    in_turn,
    packed,
    split_keys,
)
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.test_attention_op import operands, reference

Shape = tuple[int, ...]
BOTH = ["attention_parts_sm_90a_head_dim64_bf16.py", "attention_combine_sm_90a_bf16.py"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 300, 4, 1), (2, 1, 129, 6, 2), (2, 3, 700, 4, 2), (1, 5, 130, 2, 2), (1, 9, 4, 3, 1)],
)
def test_result_is_that_of_float64(launches: list[str], shape: Shape, causal: bool) -> None:
    q, k, v = operands(*shape)  # type: ignore[arg-type]
    out, lse = attention_decode(q, k, v, causal=causal, split=128, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, 1 / 8, causal)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-5)
    assert out.is_contiguous()
    assert lse.is_contiguous()
    mask = causal and shape[1] > 1  # of a single token there is nothing to mask
    assert launches == [BOTH[0].replace(".py", "_causal" * mask + ".py"), BOTH[1]]


@pytest.mark.parametrize(("head_dim", "head_dim_v"), HEAD_DIMS)
def test_head_dims(launches: list[str], head_dim: int, head_dim_v: int) -> None:
    q, k, v = operands(1, 2, 300, 2, 1, head_dim, head_dim_v)
    out = attention_decode(q, k, v, split=128)
    assert torch.allclose(out.double(), reference(q, k, v, head_dim**-0.5, False)[0], atol=2e-2)


@pytest.mark.medium
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("shape", "head_dims"),
    [
        ((32, 1, 1200, 16, 4), (128, 128)),
        ((33, 3, 1100, 12, 4), (96, 96)),
        ((2, 70, 1100, 64, 64), (128, 128)),
    ],
)
def test_splits_in_turn(
    launches: list[str],
    shape: tuple[int, int, int, int, int],
    head_dims: tuple[int, int],
    causal: bool,
) -> None:
    """Where heads of keys, or tiles of their rows, fill 132 SMs."""
    q, k, v = operands(*shape, *head_dims)
    out, lse = attention_decode(q, k, v, causal=causal, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, head_dims[0] ** -0.5, causal)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-5)
    masked = "_causal" * (causal and shape[1] > 1)
    of_v = f"_head_dim_v{head_dims[1]}" * (head_dims[0] != head_dims[1])
    assert launches == [f"attention_whole_sm_90a_head_dim{head_dims[0]}{of_v}_bf16{masked}.py"]


def test_splits_in_turn_are_for_full_waves() -> None:
    """Batches of 8 heads of keys on an H200."""
    found = [batch for batch in range(1, 60) if in_turn(8 * batch, 132)]
    assert found == [15, 16, *range(30, 34), *range(46, 50)]


def test_one_split_is_none_in_turn(launches: list[str]) -> None:
    q, k, v = operands(32, 1, 1024, 16, 4, 128)
    attention_decode(q, k, v)
    assert launches == [
        f"attention_{n}_sm_90a_{d}bf16.py" for n, d in (("parts", "head_dim128_"), ("combine", ""))
    ]


def test_there_is_a_lock_of_every_kernel() -> None:
    for arch in ("sm_90a", "sm_100a"):
        for dtype in ("bf16", "fp16"):
            assert lock_file.locked(COMBINE, arch, {"dtype": dtype})
            for sizes in HEAD_DIMS:
                for causal in ({}, {"causal": "true"}):
                    settings = dims(*sizes) | {"dtype": dtype} | causal
                    assert lock_file.locked(PARTS, arch, settings)
                    if sizes in IN_TURN[arch]:
                        assert lock_file.locked(WHOLE, arch, settings)


def test_a_single_token_is_packed_without_a_copy() -> None:
    q, _, _ = operands(2, 1, 1, 8, 2)
    rows = packed(q, 2)
    assert rows.shape == (2, 2, 4, 64)
    assert rows.data_ptr() == q.data_ptr()
    q, _, _ = operands(2, 3, 1, 8, 2)
    rows = packed(q, 2)
    assert torch.equal(rows[1, 1, 2 * 4 + 3], q[1, 2, 4 + 3])


def test_a_split_depends_on_the_number_of_keys_only() -> None:
    sizes = [split_keys(n) for n in range(1, 100_000, 37)]
    assert all(size % STEP == 0 for size in sizes)
    assert sizes == sorted(sizes)
    assert all(-(-n // split_keys(n)) <= MOST_SPLITS for n in range(1, 1_000_000, 997))


def test_without_keys_or_queries(launches: list[str]) -> None:
    q, k, v = operands(2, 3, 0, 2, 1)
    out, lse = attention_decode(q, k, v, return_lse=True)
    assert not out.any()
    assert (lse == -math.inf).all()
    q, k, v = operands(2, 0, 5, 2, 1)
    assert attention_decode(q, k, v).shape == (2, 0, 2, 64)
    assert not launches


def test_what_is_refused(launches: list[str]) -> None:
    q, k, v = operands(1, 1, 300, 4, 1)
    for split in (-128, 100):
        with pytest.raises(ArgumentValueError, match="multiples of 128; fix: 128, or leave"):
            attention_decode(q, k, v, split=split)
    with pytest.raises(ArgumentTypeError, match="dtype"):
        attention_decode(q.float(), k.float(), v.float())
    with pytest.raises(ArgumentValueError, match="head_dim is 160"):
        attention_decode(*operands(1, 1, 300, 4, 1, 160))


@pytest.mark.parametrize("causal", [False, True])
def test_opcheck(launches: list[str], causal: bool) -> None:
    for shape in ((2, 1, 300, 4, 2), (1, 3, 200, 6, 2), (2, 3, 0, 2, 1)):
        arguments = (*operands(*shape), 0.125, causal, 128)
        torch.library.opcheck(torch.ops.schedgen.attention_decode.default, arguments)


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        q = torch.empty(3, 2, 8, 128, device="cuda", dtype=torch.float16)
        k = torch.empty(3, 2000, 2, 128, device="cuda", dtype=torch.float16)
        out, lse = attention_decode(q, k, k, return_lse=True)
    assert (out.shape, out.dtype, out.device) == (q.shape, q.dtype, q.device)
    assert (lse.shape, lse.dtype, lse.stride()) == ((3, 8, 2), torch.float32, (16, 2, 1))


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def block(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention_decode(q * 2, k, v).float().sigmoid()

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in ((2, 1, 700, 4, 2), (1, 2, 1200, 2, 2)):
        arguments = operands(*shape)
        assert torch.equal(compiled(*arguments), block(*arguments))


@pytest.mark.parametrize(
    ("tokens", "keys", "heads", "splits"),
    [(1, 1024, 4, True), (1, 1023, 4, False), (2, 1024, 4, True), (17, 1024, 4, False)],
)
def test_attention_and_flash_attn_call_it(
    launches: list[str], tokens: int, keys: int, heads: int, splits: bool
) -> None:
    """Few tokens over many keys."""
    q, k, v = operands(2, tokens, keys, heads, 1)
    wanted, wanted_lse = reference(q, k, v, 1 / 8, True)
    for function in (attention, flash_attn_func):
        out, lse = function(q, k, v, causal=True, return_lse=True)
        assert torch.allclose(out.double(), wanted, atol=2e-2)
        assert torch.allclose(lse.double(), wanted_lse, atol=1e-5)
        assert (out.shape, lse.shape) == (q.shape, (2, heads, tokens))
    named = [BOTH[0].replace(".py", "_causal" * (tokens > 1) + ".py"), BOTH[1]]
    assert (launches == named * 2) == splits
    assert any(name.startswith("attention_fwd") for name in launches) != splits


def test_what_attention_refuses_does_not_depend_on_keys(launches: list[str]) -> None:
    q, k, v = operands(1, 1, 2000, 4, 1)
    for function in (attention, attention_decode):
        with pytest.raises(ArgumentValueError, match=r"softmax_scale: it is -1\.0"):
            function(q, k, v, softmax_scale=-1.0)
        with pytest.raises(ArgumentValueError, match=r"k: its batch is 1"):
            function(torch.cat([q, q]), k, v)
        with pytest.raises(ArgumentTypeError, match="k: its dtype"):
            function(q, k.half(), v)
    assert not launches
