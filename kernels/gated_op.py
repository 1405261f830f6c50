"""Gated products on generated kernels: ``torch.ops.schedgen.gemm_gated_silu`` and its like.

Both products are computed in one pass over ``a``. Right operands are read along k, as the
transposed views of row-major weights lie: halves of one matrix, or every other row of one, are
views that are not copied. Others are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from schedgen.kernels import checks, choosing, operands
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.operators import Operator
from schedgen.kernels.tiling import GATES


def gemm_gated(
    a: Tensor,
    b_gate: Tensor,
    b_up: Tensor,
    *,
    activation: Literal["silu", "gelu"] = "silu",
    row_scale: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """activation(r a @ b_gate) * (r a @ b_up): SwiGLU or GEGLU, rounded once; r is ``row_scale``.

    Both products are accumulated in float32, and a is read once for both. With the weights of a
    layer in one matrix ``w`` of shape (2 n, k), ``b_gate`` and ``b_up`` are ``w[:n].mT`` and
    ``w[n:].mT``, or ``w[0::2].mT`` and ``w[1::2].mT`` where they alternate; neither copies, while
    right operands that do not lie along k are copied first. Shapes and their broadcasting are those
    of ``torch.matmul`` for matrices. For gradients both products are computed again.

    Args:
        a: (..., m, k), bfloat16 or float16.
        b_gate: (..., k, n), of the same type.
        b_up: of the type and shape of ``b_gate``.
        activation: of the gate; ``"gelu"`` is the one with tanh, as in
            ``torch.nn.functional.gelu(approximate="tanh")``.
        row_scale: (..., m), float32; the second result of `gemm_rms` normalizes the rows of a.
            None for 1.
        out: where the result is written; of the same type and the result's shape. It may share no
            memory with the operands.

    Returns:
        (..., m, n) of the same type, contiguous; or ``out``.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or words that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if activation not in GATES:
        got, fix = f"it is {activation!r}", "apply it to the results of two calls of gemm"
        raise ArgumentValueError("activation", got, ", ".join(map(repr, GATES)), fix)
    into_new, into_out = OPERATORS[activation]
    if out is None:
        return into_new(a, b_gate, b_up, row_scale)
    arguments.refuse_gradients(a, b_gate, b_up, row_scale, out)
    into_out(a, b_gate, b_up, row_scale, out)
    return out


def _shape(a: Tensor, b_gate: Tensor, b_up: Tensor, row_scale: Tensor | None) -> torch.Size:
    """Shape of the result. Raises ArgumentValueError, ArgumentTypeError."""
    checks.dtypes(a=a, b_gate=b_gate, b_up=b_up)
    if b_up.shape != b_gate.shape:
        got = f"its shape is {tuple(b_up.shape)}"
        allowed = f"{tuple(b_gate.shape)}, the shape of b_gate"
        raise ArgumentValueError("b_up", got, allowed, "pass as many columns for both")
    shape = arguments.result_shape(a, b_gate, None, 1.0, 1.0, False, b_name="b_gate")
    operands.check_row_scale(row_scale, shape)
    return shape


def _compute(
    device: torch.device,
    gate: str,
    factors: tuple[Tensor, Tensor, Tensor],
    row_scale: Tensor | None,
    out: Tensor,
) -> None:
    """Writes the result into ``out``; all arguments fit together. ``factors``: a, b_gate, b_up."""
    a, *right = factors
    if not out.numel():
        return
    if not a.shape[-1]:
        out.zero_()  # empty sums
        return
    found = operands.operands(a, right, out)
    batch, m, n, k = found.shape
    scaled = row_scale is not None
    both = (batch, m, 2 * n, k)
    _, run = _kernel(device, out.dtype, both, gate=gate, scaled=scaled)
    scale = [] if row_scale is None else [found.of_rows(row_scale)]
    run.launch((found.a, *found.right, *scale, found.out), ())
    found.give(out)


_kernel = lru_cache(1024)(choosing.fused)


def _define(gate: str) -> tuple[Operator, Operator]:
    """The operator that returns its result, and the one that writes it to ``out``."""

    def fake(a: Tensor, b_gate: Tensor, b_up: Tensor, row_scale: Tensor | None) -> Tensor:
        return a.new_empty(_shape(a, b_gate, b_up, row_scale))

    def fake_out(
        a: Tensor, b_gate: Tensor, b_up: Tensor, row_scale: Tensor | None, out: Tensor
    ) -> None:
        arguments.check_out(out, _shape(a, b_gate, b_up, row_scale), a.dtype)

    def run(a: Tensor, b_gate: Tensor, b_up: Tensor, row_scale: Tensor | None) -> Tensor:
        out = fake(a, b_gate, b_up, row_scale)
        device = checks.devices(a=a, b_gate=b_gate, b_up=b_up, row_scale=row_scale)
        _compute(device, gate, (a, b_gate, b_up), row_scale, out)
        return out

    def run_out(
        a: Tensor, b_gate: Tensor, b_up: Tensor, row_scale: Tensor | None, out: Tensor
    ) -> None:
        fake_out(a, b_gate, b_up, row_scale, out)
        device = checks.devices(a=a, b_gate=b_gate, b_up=b_up, row_scale=row_scale, out=out)
        if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
            arguments.check_apart(out, a=a, b_gate=b_gate, b_up=b_up)
        _compute(device, gate, (a, b_gate, b_up), row_scale, out)

    name, takes = f"gemm_gated_{gate}", "Tensor a, Tensor b_gate, Tensor b_up, Tensor? row_scale"
    operator = Operator(f"{name}({takes}) -> Tensor", run, fake)
    into = Operator(f"{name}_out({takes}, Tensor(a!) out) -> ()", run_out, fake_out)
    return operator, into


OPERATORS = {gate: _define(gate) for gate in GATES}
"""Activation of the gate -> operators that return their result, and that write it to ``out``."""
