"""Attention under flash-attn's name and with its arguments, so that one import switches.

    from schedgen.kernels import flash_attn_func

Where neither a window, nor a soft cap, slopes or sinks are asked for, the shipped kernels are
called. Everything else is a variant
(`schedgen.kernels.variants`), made on the first call: one for all windows, caps and slopes, since
these are numbers and tensors that a kernel is given.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from schedgen.kernels import checks
from schedgen.kernels.attention_op import attention
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError

NO_END = 1 << 22
"""Keys that a window reaches on a side where it has no end."""
_LEFT = "column >= row + seq_k - seq_q - window_left"
_RIGHT = "column <= row + seq_k - seq_q + window_right"
_CAP = "softcap * tanh(score * inverse_softcap)"
_DISTANCE = "abs(row + seq_k - seq_q - column)"


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    learnable_sink: Tensor | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    attention_chunk: int = 0,
    qv: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
) -> Any:
    """softmax(q k^T softmax_scale) v, called as FlashAttention-2's ``flash_attn_func`` is.

    Calls by name that are written for FlashAttention-3 and -4 are right as well; by position, the
    fourth argument is FlashAttention-2's. Gradients are those of `attention`.

    Args:
        q: (batch, seq_q, heads, head_dim), as of `schedgen.kernels.attention`.
        k: (batch, seq_k, heads_k, head_dim); heads is a multiple of heads_k.
        v: (batch, seq_k, heads_k, head_dim_v).
        dropout_p: 0.
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q`` (aligned bottom right).
        window_size: (left, right): row i sees keys from ``i + seq_k - seq_q - left`` to
            ``i + seq_k - seq_q + right``; a side of -1 or None has no end.
        softcap: above 0, scores become ``softcap tanh(score / softcap)``.
        alibi_slopes: (heads,) or (batch, heads): ``slope |i + seq_k - seq_q - j|`` is taken away
            from scores.
        deterministic: accepted: results are the same in every run.
        return_attn_probs: returns ``(out, lse, None)``, as FlashAttention-2 without dropout.
        learnable_sink, sinks: (heads,), a logit of each head that has no value; two names of one
            argument. The logarithms of sums have it, too.
        return_lse: returns ``(out, lse)``, as FlashAttention-3 and -4 do.
        num_splits, pack_gqa, sm_margin: accepted where they change nothing but the speed.
        attention_chunk, qv, q_descale, k_descale, v_descale: not supported, if they are given.

    Returns:
        ``out`` (batch, seq_q, heads, head_dim_v), or a tuple that begins with it. ``lse`` is
        (batch, heads, seq_q), float32. Rows that see no key are 0, and -inf in ``lse``.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument does not fit, or is not supported.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    del deterministic, pack_gqa, sm_margin
    require("dropout_p", dropout_p, 0.0, "there is no dropout")
    require("attention_chunk", attention_chunk, 0, "say it as a mask of attention")
    if num_splits not in (0, 1):
        require("num_splits", num_splits, 1, "leave it out")
    for name, given in (
        ("qv", qv), ("q_descale", q_descale), ("k_descale", k_descale), ("v_descale", v_descale),
    ):  # fmt: skip
        require(name, given, None, "leave it out")
    asked = variant_arguments(q, causal, window_size, softcap, alibi_slopes)
    sink = one_of("sinks", sinks, "learnable_sink", learnable_sink)
    out, lse = attention(q, k, v, softmax_scale=softmax_scale, return_lse=True, sinks=sink, **asked)
    if return_attn_probs:
        return out, lse, None
    return (out, lse) if return_lse else out


def require(name: str, value: object, allowed: object, fix: str) -> None:
    """Raises ArgumentValueError: ``value`` is not what ``name`` has to be."""
    if value is not None if allowed is None else value != allowed:
        got = "it is given" if allowed is None else f"it is {value}"
        raise ArgumentValueError(name, got, f"{allowed}", fix)


def one_of(name: str, one: Tensor | None, other_name: str, other: Tensor | None) -> Tensor | None:
    """The one of two names of an argument that is given, if any; ArgumentValueError: both are."""
    if one is not None and other is not None:
        raise ArgumentValueError(name, f"{other_name} is given, too", "None", "give one of them")
    return one if other is None else other


def variant_arguments(
    q: Tensor,
    causal: bool,
    window_size: tuple[int | None, int | None],
    softcap: float,
    alibi_slopes: Tensor | None,
) -> dict[str, Any]:
    """Arguments of `attention` beside operands and sinks, for arguments of `flash_attn_func`."""
    left, right = sides(window_size)
    if causal:
        right = 0
    given: dict[str, Any] = {}
    if left is None and right in (None, 0):
        given["causal"] = right == 0
    else:
        given["mask"] = f"{_LEFT} and {_RIGHT}"
        given["window_left"] = NO_END if left is None else min(left, NO_END)
        given["window_right"] = NO_END if right is None else min(right, NO_END)
    score = "score"
    if softcap:
        checks.number("softcap", softcap, positive=True)
        score, given["softcap"], given["inverse_softcap"] = _CAP, float(softcap), 1 / softcap
    if alibi_slopes is not None:
        slope, given["alibi_slopes"] = _slope(q, alibi_slopes), alibi_slopes
        score = f"{score} - {slope} * {_DISTANCE}"
    return given | ({"score": score} if score != "score" else {})


def sides(window_size: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    """Left and right, None where there is no end.

    Raises ArgumentValueError, ArgumentTypeError: it is no window.
    """
    if len(window_size) != 2:
        got, fix = f"it has {len(window_size)} numbers", "give (left, right)"
        raise ArgumentValueError("window_size", got, "2", fix)
    for side in window_size:
        if side is not None and not isinstance(side, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError("window_size", f"{side!r} is in it", "ints and None", "(-1, 0)")
    left, right = (None if side is None or side < 0 else side for side in window_size)
    return left, right


def _slope(q: Tensor, slopes: Tensor) -> str:
    """The slope of a head in an expression."""
    shapes = {
        (q.shape[2],): "alibi_slopes[head]",
        (*q.shape[::2][:2],): "alibi_slopes[batch, head]",
    }
    if tuple(slopes.shape) not in shapes:
        got, fix = f"its shape is {tuple(slopes.shape)}", "pass one for each head"
        raise ArgumentValueError("alibi_slopes", got, f"({q.shape[2]},) or (batch, heads)", fix)
    return shapes[tuple(slopes.shape)]
