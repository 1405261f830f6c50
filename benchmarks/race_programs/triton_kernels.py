"""Kernels in Triton, compared with torch: a program for a GPU.

python triton_kernels.py NAME
"""

# Triton and torch have no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportUnknownLambdaType=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

SMS = 4


@triton.jit
def add_kernel(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, y, rows, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(y + row * columns + at, powers / tl.sum(powers, 0), mask=at < columns)


@triton.autotune(
    [
        triton.Config({"M": 64, "N": 128, "K": 64}, num_warps=4, num_stages=3),
        triton.Config({"M": 128, "N": 256, "K": 64}, num_warps=8, num_stages=4),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul_kernel(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_at = a + rows[:, None] * k + inner[None, :]
    b_at = b + inner[:, None] * n + columns[None, :]
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(a_at, mask=inner[None, :] < k - start, other=0.0)
        right = tl.load(b_at, mask=inner[:, None] < k - start, other=0.0)
        sums = tl.dot(left, right, sums)
        a_at += K
        b_at += K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(tl.float16), mask=inside)


@triton.jit
def persistent_kernel(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    wide = tl.cdiv(n, N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, M) * wide, tl.num_programs(0)):
        row, column = tile // wide * M, tile % wide * N
        sums = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, k, K):
            sums = tl.dot(a.load([row, start]), b.load([column, start]).T, sums)
        c.store([row, column], sums.to(tl.float16))


@triton.jit
def split_kernel(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    inner += tl.program_id(0) * K
    left = tl.load(a + rows[:, None] * k + inner[None, :])
    right = tl.load(b + inner[:, None] * n + columns[None, :])
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], tl.dot(left, right))


@triton.jit
def attention_kernel(
    q, k, v, out, length, scale, CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    D: tl.constexpr,
):  # fmt: skip
    rows, inner = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    head = tl.program_id(1) * length * D
    queries = tl.load(q + head + rows[:, None] * D + inner[None, :])
    top = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    last = (tl.program_id(0) + 1) * M if CAUSAL else length
    for start in range(0, last, N):
        columns = start + tl.arange(0, N)
        keys = tl.load(k + head + columns[None, :] * D + inner[:, None])
        scores = tl.dot(queries, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        weights, decay = tl.exp2(scores - new[:, None]), tl.exp2(top - new)
        values = tl.load(v + head + columns[:, None] * D + inner[None, :])
        sums = tl.dot(weights.to(tl.float16), values, sums * decay[:, None])
        total, top = total * decay + tl.sum(weights, 1), new
    sums /= total[:, None]
    tl.store(out + head + rows[:, None] * D + inner[None, :], sums.to(tl.float16))


@triton.jit
def norm_kernel(x, w, y, scale_of, columns, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    factor = tl.rsqrt(tl.sum(values * values, 0) / columns + 1e-6)
    tl.store(scale_of + row, factor)
    weights = tl.load(w + at, mask=inside)
    tl.store(y + row * columns + at, values * factor * weights, mask=inside)


@triton.jit
def norm_weights_kernel(
    x, dy, scale_of, dw, locks, columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    given = tl.load(dy + row * columns + at, mask=inside, other=0.0)
    part = values * given * tl.load(scale_of + row)
    group = row % GROUPS
    lock, count, room = locks + group, locks + GROUPS + group, dw + group * columns + at
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(room, mask=inside)
    tl.store(room, part, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def described_kernel(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K])
    result = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        sums = tl.dot(left.load([row, start]), right.load([column, start]).T, sums)
    result.store([row, column], sums.to(tl.float16))


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").half() / 4


def add() -> None:
    a, b = torch.randn(2, 1000, device="cuda")
    c = torch.empty_like(a)
    add_kernel[(triton.cdiv(1000, 256),)](a, b, c, 1000, BLOCK=256)
    close(c, a + b)


def softmax() -> None:
    x = torch.randn(24, 300, device="cuda")
    y = torch.empty_like(x)
    softmax_kernel[(SMS,)](x, y, *x.shape, BLOCK=512)
    close(y, x.softmax(1))


def matmul() -> None:
    a, b, c = half(128, 160), half(160, 256), half(128, 256)
    grid = lambda meta: (triton.cdiv(128, meta["M"]), triton.cdiv(256, meta["N"]))  # noqa: E731
    matmul_kernel[grid](a, b, c, 128, 256, 160)
    close(c, a.float() @ b.float())


def matmul_persistent() -> None:
    a, b, c = half(256, 192), half(320, 192), half(256, 320)
    tiles = (
        TensorDescriptor.from_tensor(one, list(block))
        for one, block in ((a, (128, 64)), (b, (64, 64)), (c, (128, 64)))
    )
    persistent_kernel[(SMS,)](*tiles, 256, 320, 192, M=128, N=64, K=64)
    close(c, a.float() @ b.float().T)


def matmul_described() -> None:
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda").byte())
    a, b, c = half(256, 192), half(128, 192), half(256, 128)
    described_kernel[(2, 2)](a, b, c, 256, 128, 192, M=128, N=64, K=64)
    close(c, a.float() @ b.float().T)


def matmul_split() -> None:
    a, b = half(64, 256), half(256, 64)
    c = torch.zeros(64, 64, device="cuda")
    split_kernel[(4,)](a, b, c, 64, 256, M=64, N=64, K=64)
    close(c, a.float() @ b.float())


def attention(causal: bool = False) -> None:
    q, k, v = (half(2, 256, 64) for _ in range(3))
    out = torch.empty_like(q)
    scale = 64**-0.5
    grid = 256 // 64, 2
    attention_kernel[grid](q, k, v, out, 256, scale * 1.44269504, causal, M=64, N=64, D=64)
    scores = q.float() @ k.float().mT * scale
    if causal:
        later = torch.ones(256, 256, dtype=torch.bool, device="cuda").triu(1)
        scores = scores.masked_fill(later, -float("inf"))
    close(out, scores.softmax(-1) @ v.float())


def attention_causal() -> None:
    attention(causal=True)


def norm() -> None:
    x, dy, w = torch.randn(16, 200, device="cuda"), torch.randn(16, 200, device="cuda"), None
    w = torch.randn(200, device="cuda")
    y, scales = torch.empty_like(x), torch.empty(16, device="cuda")
    norm_kernel[(16,)](x, w, y, scales, 200, BLOCK=256)
    wanted = torch.rsqrt((x * x).mean(1) + 1e-6)
    close(y, x * wanted[:, None] * w)
    parts = torch.empty(2, 200, device="cuda")
    locks = torch.zeros(4, dtype=torch.int32, device="cuda")
    norm_weights_kernel[(16,)](x, dy, scales, parts, locks, 200, GROUPS=2, BLOCK=256)
    close(parts.sum(0), (x * dy * wanted[:, None]).sum(0))


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.float(), wanted.float(), atol=1e-2, rtol=1e-2)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
