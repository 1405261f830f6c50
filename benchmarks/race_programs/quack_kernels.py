"""quack's kernels through their own functions, compared with torch: a program for a GPU.

python quack_kernels.py NAME
"""

# quack and torch have no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import sys

import torch
from torch.nn import functional

WIDTH = 1024


def matrix(rows: int, columns: int, requires_grad: bool = False) -> torch.Tensor:
    made = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    return made.requires_grad_(requires_grad)


def gemm() -> None:
    from quack.gemm_interface import gemm

    a, b = matrix(256, 128), matrix(128, 256)
    close(gemm(a, b, tuned=False), a.float() @ b.float())


def gemm_add() -> None:
    from quack.gemm_interface import gemm_add

    a, b, c = matrix(256, 128), matrix(128, 256), matrix(256, 256)
    close(gemm_add(a, b, c, tuned=False), a.float() @ b.float() + c.float())


def gemm_symmetric() -> None:
    from quack.gemm_interface import gemm_symmetric

    a = matrix(256, 128)
    close(gemm_symmetric(a, a.mT), a.float() @ a.float().mT)


def gemm_gated() -> None:
    from quack.gemm_interface import gemm_gated

    a, b = matrix(256, 128), matrix(128, 256)
    product = a.float() @ b.float()
    _, found = gemm_gated(a, b, activation="swiglu", tuned=False)
    close(found, functional.silu(product[:, ::2]) * product[:, 1::2])


def gemm_act() -> None:
    from quack.gemm_interface import gemm_act

    a, b = matrix(256, 128), matrix(128, 256)
    product = a.float() @ b.float()
    before, found = gemm_act(a, b, activation="gelu_tanh_approx", tuned=False)
    close(before, product)
    close(found, functional.gelu(product, approximate="tanh"))


def gemm_rms() -> None:
    from quack.gemm_interface import gemm_rms

    a, b, weight = matrix(256, 128), matrix(128, 256), torch.randn(256, device="cuda")
    product = a.float() @ b.float()
    found, scale = gemm_rms(a, b, norm_weight=weight, tuned=False)
    close(found, product * weight)
    close(scale, torch.rsqrt(product.square().mean(-1) + 1e-6))


def gemm_norm_act() -> None:
    from quack.gemm_interface import gemm_norm_act

    a, b, scale = matrix(256, 128), matrix(128, 256), torch.rand(256, device="cuda")
    _, found = gemm_norm_act(a, b, rstd=scale, activation="relu", tuned=False)
    close(found, functional.relu((a.float() @ b.float()) * scale[:, None]))


def layernorm() -> None:
    from quack.rmsnorm import layernorm_fwd

    x, weight = matrix(64, WIDTH), torch.randn(WIDTH, device="cuda")
    close(layernorm_fwd(x, weight), functional.layer_norm(x.float(), (WIDTH,), weight, eps=1e-6))


def rmsnorm() -> None:
    from quack import rmsnorm

    x, weight = matrix(64, WIDTH), torch.randn(WIDTH, device="cuda")
    close(rmsnorm(x, weight), functional.rms_norm(x.float(), (WIDTH,), weight, 1e-6))


def rmsnorm_backward() -> None:
    from quack import rmsnorm

    x = matrix(64, WIDTH, requires_grad=True)
    weight = torch.randn(WIDTH, device="cuda", requires_grad=True)
    gradient = matrix(64, WIDTH)
    rmsnorm(x, weight).backward(gradient)
    plain = x.detach().float().requires_grad_()
    functional.rms_norm(plain, (WIDTH,), weight.detach(), 1e-6).backward(gradient.float())
    close(x.grad, plain.grad)


def softmax() -> None:
    from quack import softmax

    x = matrix(64, WIDTH)
    close(softmax(x), x.float().softmax(-1))


def softmax_backward() -> None:
    from quack import softmax

    x, gradient = matrix(64, WIDTH, requires_grad=True), matrix(64, WIDTH)
    softmax(x).backward(gradient)
    plain = x.detach().float().requires_grad_()
    plain.softmax(-1).backward(gradient.float())
    close(x.grad, plain.grad)


def cross_entropy() -> None:
    from quack import cross_entropy

    x = matrix(64, WIDTH)
    targets = torch.randint(0, WIDTH, (64,), device="cuda")
    found = cross_entropy(x, targets)
    kind = "none" if found.dim() else "mean"
    close(found, functional.cross_entropy(x.float(), targets, reduction=kind))


def topk() -> None:
    from quack.topk import topk

    x = matrix(64, WIDTH)
    close(topk(x, 8)[0], x.float().topk(8).values)


NAMES = {
    one.__name__: one
    for one in (
        *(gemm, gemm_add, gemm_symmetric, gemm_gated, gemm_act, gemm_rms, gemm_norm_act),
        *(layernorm, rmsnorm, rmsnorm_backward, softmax, softmax_backward, cross_entropy, topk),
    )
}


def close(found: torch.Tensor | None, wanted: torch.Tensor | None) -> None:
    """Up to what bfloat16 keeps, of the largest element."""
    assert found is not None
    assert wanted is not None
    most = float(wanted.abs().max())
    torch.testing.assert_close(found.float(), wanted, atol=2e-2 * most, rtol=2e-2)


if __name__ == "__main__":
    torch.manual_seed(0)
    NAMES[sys.argv[1]]()
