"""Operands of attention: what there are kernels for, and whether they fit together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor

from schedgen.kernels import checks
from schedgen.kernels.errors import ArgumentValueError, GradientError

HEAD_DIMS = {dim: (dim,) for dim in range(32, 257, 32)} | {192: (192, 128)}
"""head_dim of q and k -> those of v that there are kernels for."""
SPLIT_DIMS = ((64, 64), (96, 96), (128, 128), (192, 128), (192, 192))
"""head_dim of q and k, and of v, with which keys can be split."""

GRADIENT_DIMS = (64, 128)
"""head_dim of q, k and v of which kernels of gradients are shipped; others are made when used."""
_ALONE = 128
"""Columns of the widest gradient that there is room for beside another one: where either is wider,
there is a kernel for each of them (`of` in the specs of gradients)."""


def check(q: Tensor, k: Tensor, v: Tensor, scale: float) -> None:
    """Raises ArgumentValueError or ArgumentTypeError: operands do not fit together."""
    checks.dtypes(q=q, k=k, v=v)
    fit(q, k, v, scale, HEAD_DIMS)


def fit(
    q: Tensor, k: Tensor, v: Tensor, scale: float, head_dims: Mapping[int, Collection[int]]
) -> None:
    """The same but for data types, with the ``head_dims`` of q and k, and of v for each of them."""
    checks.dimensions("q", q, 4, "(batch, seq_q, heads, head_dim)")
    checks.dimensions("k", k, 4, "(batch, seq_k, heads_k, head_dim)")
    checks.dimensions("v", v, 4, "(batch, seq_k, heads_k, head_dim)")
    checks.number("softmax_scale", scale, positive=True)
    batch, _, heads, head_dim = q.shape
    if head_dim not in tuple(head_dims):  # a symbol under torch.compile, which has no hash
        more = [d for d in head_dims if d > head_dim]
        fix = f"pad with zeros to {more[0]} and pass softmax_scale" if more else "split the heads"
        allowed = ", ".join(map(str, head_dims))
        raise ArgumentValueError("q", f"its head_dim is {head_dim}", allowed, fix)
    if v.shape[:3] != k.shape[:3]:
        got, like = f"its shape is {tuple(v.shape)}", f"{(*k.shape[:3], v.shape[3])}, like k"
        raise ArgumentValueError("v", got, like, "reshape v")
    for name, at, wanted in (("batch", 0, batch), ("head_dim", 3, head_dim)):
        if k.shape[at] != wanted:
            got = f"its {name} is {k.shape[at]}"
            raise ArgumentValueError("k", got, f"{wanted}, that of q", f"make {name} the same")
    of_v = head_dims[int(head_dim)]
    if v.shape[3] not in of_v:
        got, allowed = f"its head_dim is {v.shape[3]}", " or ".join(map(str, of_v))
        fix = "pad q and k, or v, with zeros and pass softmax_scale"
        raise ArgumentValueError("v", got, f"{allowed}, with {head_dim} of q and k", fix)
    if heads != 0 and (k.shape[2] == 0 or heads % k.shape[2] != 0):
        raise ArgumentValueError(
            "k",
            f"it has {k.shape[2]} heads",
            f"a divisor of {heads}, the heads of q",
            "repeat heads of k and v, or drop some",
        )


def dims(head_dim: int, head_dim_v: int) -> dict[str, str]:
    """The parameters of the spec for a head_dim of q and k, and one of v, as they name files."""
    of_v = {} if head_dim_v == head_dim else {"head_dim_v": str(head_dim_v)}
    return {"head_dim": str(head_dim), **of_v}


def derivable(head_dim: int, head_dim_v: int) -> None:
    """Raises GradientError: there are no kernels of gradients for a head_dim of q and k, and v."""
    known = head_dim in tuple(HEAD_DIMS)  # a symbol under torch.compile, which has no hash
    if not known or head_dim_v not in HEAD_DIMS[int(head_dim)]:
        raise GradientError(
            f"attention has no gradients with a head_dim of {head_dim} and {head_dim_v} of v; "
            f"there are those of {', '.join(map(str, HEAD_DIMS))}, the same of v, and of 192 with "
            "128; fix: pad with zeros and pass softmax_scale, or call it under torch.no_grad()"
        )


def walks(
    of_keys: str, of_queries: str, head_dim: int, head_dim_v: int
) -> tuple[tuple[str, dict[str, str]], ...]:
    """The kernels of gradients: the spec of each, and what it is told beside `dims`. The spec
    ``of_keys`` is there once, for keys and values, or of wide heads twice, for one of them each.
    """
    wide = max(head_dim, head_dim_v) > _ALONE
    alone = ("keys", "values") if wide else ()
    both = [(of_keys, {"of": each}) for each in alone] or [(of_keys, dict[str, str]())]
    return *both, (of_queries, {})
