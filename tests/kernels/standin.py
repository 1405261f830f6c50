"""A GPU that is not there: generated kernels computed by torch on the CPU.

It checks what a launch demands of its tensors, so that tests of the functions around the kernels
see what a GPU would refuse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from schedgen.codegen.facts import file_name
from schedgen.interpret.philox import uniform
from schedgen.kernels import (
    checks,
    choosing,
    cross_entropy_op,
    dropout_op,
    gated_op,
    gathered_op,
    gemm_op,
    grouped_op,
    keys,
    layouts,
    library,
    mixed_op,
    rms_op,
    scaled_op,
)
from tests.kernels import of_attention

CPU = torch.device("cpu")


_FUSED = (
    "dropout",
    "gemm_dropout",
    "gemm_gated",
    "gemm_lse",
    "gemm_quantized",
    "gemm_rms",
    "gemm_rotary",
    "gemm_scaled",
    "rms_factors",
)


class StandIn:
    """Stands in for `Launcher`; remembers which files were launched."""

    def __init__(self, calls: list[str], name: str) -> None:
        self.calls, self.name = calls, name
        self.zeros = {d: torch.zeros(8, dtype=d) for d in (torch.bfloat16, torch.float16)}
        turns = ("turns", (("batch", 1), ("heads", 1)), "ceil(seq_q / 64)")
        counts = name.startswith("attention_bwd_sm") or None
        tells = counts and ("done", ("batch", "heads"), (("seq_k", 128),))
        self.facts = SimpleNamespace(turns=(turns,) if "_ordered" in name else (), tells=tells)

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        self.calls.append(self.name)
        parts = self.name.startswith("gemm_parts")
        dtypes = {t.dtype for t in tensors[:-1]} if parts else set[torch.dtype]()
        assert not dtypes or tensors[-1].dtype is torch.float32
        for tensor in tensors:
            assert layouts.problem(tensor) is None, layouts.problem(tensor)
            assert all(s * tensor.element_size() % 16 == 0 for s in layouts.strides(tensor))
            assert tensor.numel()
        if self.name.startswith("attention_fwd"):
            q, v = tensors[0].shape[-1], tensors[2].shape[-1]
            assert f"head_dim{q}_" + f"head_dim_v{v}_" * (v != q) in self.name
            of_attention.attention(tensors, scalars[0], causal="causal" in self.name)
        elif self.name.startswith("attention_bwd"):
            of_attention.backward(self.name, tensors, scalars)
        elif self.name.startswith(("attention_parts", "attention_whole")):
            of_attention.splits(self.name, tensors, scalars)
        elif self.name.startswith("attention_combine"):
            p, part_lse, out, lse = tensors
            weights = part_lse.softmax(2).nan_to_num(0.0)
            out.copy_((p * weights[..., None]).sum(2))
            lse.copy_(part_lse.logsumexp(2))
        elif self.name.startswith("gemm_epilogue"):
            a, b, bias, _ = (x.float() for x in tensors)
            assert bias.dim() == 1
            bias = functional.pad(bias, (0, tensors[3].shape[-1] - len(bias)))
            b = b if "_kn" in self.name else b.mT
            tensors[3].copy_(functional.gelu(a @ b + bias, approximate="tanh"))
        elif self.name.startswith(_FUSED):
            _fused(self.name, tensors, scalars)
        elif self.name.startswith(("gemm_grouped", "gemm_gathered")):
            _grouped(self.name, _taken(self.name, tensors))
        elif self.name.startswith(("gemm_fp8", "gemm_mixed")):
            _narrow(self.name, tensors, scalars)
        elif self.name.startswith("gemm_chain"):
            a, b, c, _ = (x.float() for x in tensors)
            tensors[3].copy_((a @ b.mT) @ c)
        elif self.name.startswith("gemm_transposed"):
            a, b, d = tensors
            (alpha,) = scalars
            d.copy_((alpha * (a.float() @ b.float().mT)).mT)
        elif "_parts_" in self.name:
            a, b, d = tensors
            left, right = self._as_written(a, b)
            _parts(left, right, d, triangle="symmetric" in self.name)
        elif "_sum_" in self.name:
            p, c, d = tensors
            _linear(p.sum(1), (c, d), scalars, symmetric="symmetric" in self.name)
        else:
            a, b, c, d = tensors
            operands = (*self._as_written(a, b), c, d)
            _product(operands, scalars, symmetric="symmetric" in self.name)

    def _as_written(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """(..., m, k) and (..., k, n)."""
        return (a.mT if "_km" in self.name else a), (b if "_kn" in self.name else b.mT)


def _narrow(name: str, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
    """Operands of which one or both have 8 bits."""
    if name.startswith("gemm_mixed"):
        _mixed(tensors, groups="_groups" in name)
    else:
        _scaled(tensors, blocks="_blocks" in name, alpha=scalars)


def _scaled(tensors: Sequence[Tensor], *, blocks: bool, alpha: Sequence[float]) -> None:
    """Factors (batch, rows) of both operands; (batch, blocks of 128 along k, rows), four for each
    128 rows of b; or (batch,), with ``alpha`` beside them.
    """
    a, b, scale_a, scale_b, d = tensors
    if alpha:
        factor = scale_a * scale_b * alpha[0]
        d.copy_(a.float() @ b.float().mT * factor[:, None, None])
        return
    if not blocks:
        d.copy_(scale_a[..., None] * (a.float() @ b.float().mT) * scale_b[:, None])
        return
    of_b = scale_b.repeat_interleave(128, -2)[..., : b.shape[-2], :]
    factors = (s.repeat_interleave(128, -1)[..., : a.shape[-1]] for s in (scale_a.mT, of_b))
    a, b = (x.float() * factor for x, factor in zip((a, b), factors, strict=True))
    d.copy_(a @ b.mT)


def _turned(tensors: Sequence[Tensor]) -> None:
    """Pairs of columns, turned by the angles of their rows."""
    a, first, second, cosine, sine, *out = tensors
    x, y = (torch.einsum("bmk,hnk->bmhn", a.float(), b.float()) for b in (first, second))
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    for made, turned in zip(out, (x * cosine - y * sine, y * cosine + x * sine), strict=True):
        made.copy_(turned)


def _of_rows(tensors: Sequence[Tensor], scale: float, columns: int) -> None:
    """Logarithms of sums of exponentials, and logits of targets, of each output tile."""
    a, b, target, lse, logit = tensors
    logits = a.float() @ b.float().mT * (scale * math.log(2))
    for n in range(lse.shape[1]):
        part = logits[..., columns * n : columns * (n + 1)]
        lse[:, n] = part.logsumexp(-1)
        at = torch.arange(columns * n, columns * n + part.shape[-1])
        logit[:, n] = (part * (target[..., None] == at)).sum(-1)


def _quantized(tensors: Sequence[Tensor], least: float) -> None:
    """Factors (batch, blocks of 128 columns, rows); powers of two of 32."""
    a, b, d, factors = tensors
    wide = factors.dtype is torch.float32
    size = 128 if wide else 32
    whole = a.float() @ b.float().mT
    for n in range(factors.shape[1]):
        part = slice(size * n, size * (n + 1))
        factor = whole[..., part].abs().amax(-1).clamp(min=least) / 448
        if not wide:
            factor = factor.log2().ceil().exp2()
        factors[:, n] = factor.to(factors.dtype)
        d[..., part] = (whole[..., part] / factor[..., None]).to(d.dtype)


def _mixed(tensors: Sequence[Tensor], *, groups: bool) -> None:
    """Weights (batch, n, k) with factors (batch, n), or of groups of 128 (batch, groups, n)."""
    a, w, scale, d = tensors
    if w.dtype is torch.uint8:  # pairs of numbers of 4 bits
        pairs = torch.stack((w & 15, w >> 4), -1).reshape(*w.shape[:-1], -1).char()
        w = (pairs - 16 * (pairs > 7))[..., : a.shape[-1]]
    if not groups:
        d.copy_(a.float() @ w.float().mT * scale[:, None])
        return
    of_k = scale.mT.repeat_interleave(128, -1)[..., : w.shape[-1]]
    d.copy_(a.float() @ (w.float() * of_k).to(a.dtype).float().mT)


def _taken(name: str, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The rows that a list takes instead of both, zeros for those that are not there."""
    if "gathered" not in name:
        return tensors
    a, rows, *others = tensors
    there = (rows >= 0) & (rows < len(a))
    return a[torch.where(there, rows, 0).long()] * there[:, None], *others


def _grouped(name: str, tensors: Sequence[Tensor]) -> None:
    """Rows of each group, others stay what they were; or a matrix of each, added up along rows."""
    a, b, ends, out = tensors
    kn, along_k = "_kn" in name, "grouped_k_" in name
    begin = 0
    for group, end in enumerate(map(int, ends)):
        if along_k:
            out[group] = a[begin:end].float().mT @ b[begin:end].float()
            begin = end
            continue
        right = b[group] if kn else b[group].mT
        out[begin:end] = a[begin:end].float() @ right.float()
        begin = end


def activated(name: str, gate: Tensor) -> Tensor:
    """What a kernel for gated products makes of its gate."""
    if "_gelu" in name:
        return functional.gelu(gate, approximate="tanh")
    return functional.silu(gate)


def _fused(name: str, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
    """Products whose epilogues do more, and the factors of rows that some of them take."""
    *given, out = tensors
    if "dropout" in name:
        _dropped(tensors, scalars)
    elif name.startswith("gemm_rms"):
        _with_squares(tensors, scalars, int((re.search(r"_tile_n(\d+)", name) or [0, 256])[1]))
    elif name.startswith("gemm_quantized"):
        _quantized(tensors, scalars[0])
    elif name.startswith("gemm_lse"):
        arch = "sm_90a" if "sm_90a" in name else "sm_100a"
        _of_rows(tensors, scalars[0], cross_entropy_op.COLUMNS[arch])
    elif name.startswith("gemm_rotary"):
        _turned(tensors)
    elif name.startswith("rms_factors"):
        inverse, eps = scalars
        out.copy_((given[0].sum(1) * inverse + eps).rsqrt())
    else:
        scale = given.pop()[..., None] if "_scaled" in name else 1.0
        a, *right = (x.float() for x in given)
        first, *second = (a @ b.mT * scale for b in right)
        assert len(second) == ("_gated" in name)
        out.copy_(activated(name, first) * second[0] if second else first)


def _dropped(tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
    """A matrix, or a product with a bias and an addend (batch, m, n), that are dropped in part."""
    *given, out = tensors
    p, scale, *beta, low, high = scalars
    assert all(isinstance(half, int) for half in (low, high))
    value, addend = given[0].float(), torch.zeros(())
    if beta:
        a, b, bias, c = (x.float() for x in given)
        n = out.shape[-1]
        value = a @ b.mT + functional.pad(bias, (0, max(n - len(bias), 0)))[:n]
        addend = c * beta[0] if beta[0] else addend
    row = torch.arange(out.shape[:-1].numel()).view(*out.shape[:-1], 1)
    halves = (torch.tensor(half) for half in (low, high))
    drawn = uniform([*halves, row, torch.arange(out.shape[-1])])
    # as float32, as the kernel has it
    out.copy_(torch.where(drawn < torch.tensor(p), 0.0, scale * value) + addend)


def _with_squares(tensors: Sequence[Tensor], scalars: Sequence[float], columns: int) -> None:
    """A sum of squares for each row of each output tile."""
    a, b, c, d, squares = tensors
    whole = torch.empty(d.shape)
    _product((a, b.mT, c, whole), (1.0, *scalars), symmetric=False)
    d.copy_(whole)
    assert squares.shape[1] == -(-whole.shape[-1] // columns)
    for n in range(squares.shape[1]):
        squares[:, n] = whole[..., n * columns : (n + 1) * columns].square().sum(-1)


def _product(tensors: Sequence[Tensor], scalars: Sequence[float], *, symmetric: bool) -> None:
    a, b, c, d = tensors
    _linear(a.float() @ b.float(), (c, d), scalars, symmetric=symmetric)


def _parts(a: Tensor, b: Tensor, d: Tensor, *, triangle: bool) -> None:
    """Products of parts of k; above the diagonal, where no tile is, nothing is written."""
    parts, k = d.shape[1], a.shape[-1]
    size = -(-k // parts)
    for part in range(parts):
        here = slice(part * size, (part + 1) * size)
        product = a[..., here].float() @ b[..., here, :].float()
        d[:, part] = (
            product.tril().masked_fill(~_lower(product), torch.nan) if triangle else product
        )


def _lower(matrix: Tensor) -> Tensor:
    return torch.ones(matrix.shape, dtype=torch.bool).tril()


def _linear(
    product: Tensor, tensors: Sequence[Tensor], scalars: Sequence[float], *, symmetric: bool
) -> None:
    c, d = tensors
    alpha, beta = scalars
    product = alpha * (product.tril().where(_lower(product), 0.0) if symmetric else product)
    # Outside of a tensor, bulk copies read zeros; a negative padding cuts off.
    missing = [n - have for n, have in zip(product.shape, c.shape, strict=True)]
    padding = [amount for n in reversed(missing) for amount in (0, n)]
    addend = functional.pad(c.float(), padding)
    result = product + beta * addend
    d.copy_(result.tril() + result.tril(-1).mT if symmetric else result)


def launcher(calls: list[str], device: torch.device, spec: str, **settings: str) -> StandIn:
    """Like `library.launcher`."""
    assert device == CPU
    return StandIn(calls, file_name(spec, "sm_90a", settings))


def _cpu(**tensors: Tensor | None) -> torch.device:
    del tensors
    return CPU


def install(patch: pytest.MonkeyPatch) -> list[str]:
    """Puts the stand-in in the place of a Hopper GPU; returns the list of launches to come."""
    calls: list[str] = []
    patch.setattr(checks, "devices", _cpu)
    patch.setattr(library, "launcher", partial(launcher, calls))
    for module in (keys, choosing, mixed_op, scaled_op):
        patch.setattr(module, "architecture", lambda device: "sm_90a")  # pyright: ignore
    decode = import_module("schedgen.kernels.attention_decode")  # the package has the function
    for module in (decode, choosing, mixed_op, scaled_op):
        patch.setattr(module, "multiprocessors", lambda device: 132)  # pyright: ignore
    products = (gemm_op, gated_op, grouped_op, gathered_op, rms_op, mixed_op, scaled_op, dropout_op)
    for module in products:
        module._kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]
    for cached in (gemm_op._along_m, grouped_op._kernel_along_k):  # pyright: ignore[reportPrivateUsage]
        cached.cache_clear()
    return calls
