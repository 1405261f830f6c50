"""Products of groups of rows that a list takes from the left operand:
``torch.ops.schedgen.gathered_gemm``, by which `grouped_gemm` multiplies ``rows``.

Nobody copies the rows first: threads of the kernel take them through the list (docs/adr/0029).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, choosing, layouts
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels import grouped_arguments as groups
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.operators import Operator


def gathered_gemm(
    a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor, out: Tensor | None
) -> Tensor:
    """`grouped_gemm` with ``rows``, and ``out`` if there is one. Raises what that does."""
    if out is None:
        return _gathered_gemm(a, b, offsets, rows)
    arguments.refuse_gradients(a, b, out)
    _gathered_gemm_out(a, b, offsets, rows, out)
    return out


def _shape(a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor) -> tuple[int, int]:
    """Shape of the result. Raises ArgumentValueError, ArgumentTypeError."""
    groups.check_operands(a, b)
    checks.dimensions("a", a, 2, "(sources, k)")
    checks.dimensions("b", b, 3, "(groups, k, n): rows are taken for matrices of groups")
    groups.check_matrices(a, b)
    groups.check_offsets(offsets, b)
    groups.check_integers("rows", rows)
    if rows.dim() != 1:
        got, fix = f"its shape is {tuple(rows.shape)}", "pass rows.flatten()"
        raise ArgumentValueError("rows", got, "(rows,), a row of a for each of the result", fix)
    return rows.shape[0], b.shape[2]


def _compute(
    device: torch.device, a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor, out: Tensor
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    if not (out.numel() and offsets.numel()):
        return
    if not a.numel():
        out.zero_()  # empty sums, or no row that could be taken
        return
    direct = layouts.problem(out) is None
    target = out if direct else layouts.room(out, out.shape)
    right, b_layout = groups.right(b)
    # Tiles are chosen as if all groups had as many rows: how many they have nobody knows here.
    shape = (len(b), -(-len(rows) // len(b)), b.shape[2], b.shape[1])
    _, run = _kernel(device, out.dtype, shape, b_layout=b_layout, gathered=True)
    lists = (layouts.accessible(rows.contiguous()), right, layouts.accessible(offsets.contiguous()))
    run.launch((layouts.accessible(a), *lists, target), ())
    if not direct:
        out.copy_(target)


_kernel = lru_cache(1024)(choosing.fused)


# -- operators ------------------------------------------------------------------------------------


def _fake(a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
    return a.new_empty(_shape(a, b, offsets, rows))


def _run(a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor) -> Tensor:
    out = _fake(a, b, offsets, rows)
    device = checks.devices(a=a, b=b, offsets=offsets, rows=rows)
    _compute(device, a, b, offsets, rows, out)
    return out


def _fake_out(a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor, out: Tensor) -> None:
    arguments.check_out(out, torch.Size(_shape(a, b, offsets, rows)), a.dtype)


def _run_out(a: Tensor, b: Tensor, offsets: Tensor, rows: Tensor, out: Tensor) -> None:
    _fake_out(a, b, offsets, rows, out)
    device = checks.devices(a=a, b=b, offsets=offsets, rows=rows, out=out)
    if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
        arguments.check_apart(out, a=a, b=b)
    _compute(device, a, b, offsets, rows, out)


_TAKES = "Tensor a, Tensor b, Tensor offsets, Tensor rows"
_gathered_gemm = Operator(f"gathered_gemm({_TAKES}) -> Tensor", _run, _fake)
_gathered_gemm_out = Operator(
    f"gathered_gemm_out({_TAKES}, Tensor(a!) out) -> ()", _run_out, _fake_out
)
GATHERED = _gathered_gemm
"""The operator that returns its result."""
