"""Counts the work of an operation: what a machine model needs to price it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

from schedgen.expressions import Call, Name, OperationCounts, count_operations
from schedgen.expressions.nodes import walk
from schedgen.kernel import DTYPE_BITS, Piece, Space, Work
from schedgen.spec import entries
from schedgen.spec.shapes import Shapes
from schedgen.spec.values import Scope

# FMA slots of one exp2 by range reduction and a polynomial of degree 3
# (NVIDIA/cudnn-frontend pull request 1178).
POLYNOMIAL_SLOTS = Fraction(149, 20)


def count_work(entry: entries.Operation, shapes: Shapes, scope: Scope) -> Work | None:
    """Return the work of one instance whose operands fit together.

    None after reporting a wrong share of polynomials.
    """
    match entry:
        case entries.Load():
            return _transfer(shapes, "to")
        case entries.Store():
            return _transfer(shapes, "from")
        case entries.Mma():
            return _product(entry, shapes)
        case entries.Reduce():
            return _with_traffic(_reduction(entry, shapes), shapes)
        case entries.Map():
            work = _elementwise(entry, shapes, scope)
            return None if work is None else _with_traffic(work, shapes)
        case entries.Copy():
            rows, columns = shapes.shape("to")
            return _with_traffic(Work(rows=rows, columns=columns), shapes)
        case entries.Mask():
            rows, columns = shapes.shape("to")
            return _with_traffic(Work(rows=rows, columns=columns, alu=2 * rows * columns), shapes)


def _transfer(shapes: Shapes, operand: str) -> Work:
    rows, columns = shapes.shape(operand)
    return Work(
        rows=rows,
        columns=columns,
        bytes=shapes.bytes(operand),
        row_bytes=shapes.row_bytes(operand),
    )


def _product(entry: entries.Mma, shapes: Shapes) -> Work:
    (m, k), (_, n) = shapes.shape("a"), shapes.shape("d")
    in_smem = {
        name: shapes.bytes(name) if shapes.space(name) is Space.SMEM else 0 for name in ("a", "b")
    }
    return Work(
        rows=m,
        columns=n,
        m=m,
        n=n,
        k=k,
        a_bytes=in_smem["a"],
        b_bytes=in_smem["b"],
        element_bytes=DTYPE_BITS[shapes.dtype("a")] // 8,
    )


def _reduction(entry: entries.Reduce, shapes: Shapes) -> Work:
    rows, columns = shapes.shape("from")
    lanes = rows * columns
    return Work(
        rows=rows,
        columns=columns,
        alu=lanes if entry.op == "max" else 0,
        fma=lanes if entry.op == "sum" else 0,
        row_steps=sum(_row_steps(_counts(name, shapes)) for name in entry.then),
    )


def _elementwise(entry: entries.Map, shapes: Shapes, scope: Scope) -> Work | None:
    work = Work()
    for name in entry.to:
        (rows, columns), counts = shapes.shape(name), _counts(name, shapes)
        lanes = rows * columns
        if shapes.is_vector(name) or lanes == 1:
            work = replace(work, row_steps=work.row_steps + _row_steps(counts))
        else:
            narrow = DTYPE_BITS[shapes.dtype(name)] < 32
            work = replace(
                work,
                fma=work.fma + counts.tile_fma * lanes,
                alu=work.alu + counts.tile_alu * lanes,
                mufu=work.mufu + counts.tile_mufu * lanes,
                converts=work.converts + (lanes if narrow else 0),
            )
        work = replace(work, rows=max(work.rows, rows), columns=max(work.columns, columns))
    share = _polynomial_share(entry, shapes, scope)
    if share is None:
        return None
    emulated = ceil(work.mufu * share)
    slots = ceil(emulated * POLYNOMIAL_SLOTS)
    return replace(work, fma=work.fma + slots, mufu=work.mufu - emulated)


def _polynomial_share(entry: entries.Map, shapes: Shapes, scope: Scope) -> Fraction | None:
    """Return the share of exp2 that FMA units compute, or None after reporting that it is wrong."""
    before = scope.errors
    share = scope.value(entry.polynomial, (*shapes.path, "polynomial"))
    if isinstance(share, Fraction) and 0 <= share <= 1:
        exponentials = any(
            isinstance(node, Call) and node.function in ("exp2", "exp")
            for formula in shapes.draft.formulas.values()
            for node in walk(formula)
        )
        if exponentials or not share:
            return share
        message = "there is no exp2 in the formulas that a polynomial could compute"
        shapes.fail("polynomial-without-exp2", message, "polynomial", "remove it")
    elif scope.errors == before:
        message = "the share of polynomials is a number from 0 to 1"
        shapes.fail("out-of-range", message, "polynomial", "write for example 3/16")
    return None


def _counts(name: str, shapes: Shapes) -> OperationCounts:
    """Return what the formula of an output costs per element and per row."""

    def is_tile(reference: Name) -> bool:
        if reference.name in shapes.draft.operands:
            return not shapes.is_vector(reference.name)
        return reference.name == "column"

    def is_scalar(reference: Name) -> bool:
        return reference.name not in (*shapes.draft.operands, "row", "column")

    return count_operations(shapes.draft.formulas[name], is_tile, is_scalar)


def _row_steps(counts: OperationCounts) -> int:
    return counts.row_fma + counts.row_alu + counts.row_mufu


def _with_traffic(work: Work, shapes: Shapes) -> Work:
    """Add what the operation moves to and from tensor memory and shared memory."""
    moved = {"tmem_in": 0, "tmem_out": 0, "smem_in": 0, "smem_out": 0}
    read = {read.piece for read in shapes.draft.reads}
    pieces = {piece.name: piece for group in shapes.draft.operands.values() for piece in group}
    for piece in pieces.values():
        space = shapes.layout.regions[piece.region].space
        for way, touched in (("in", read), ("out", shapes.draft.writes)):
            if piece.name in touched and space is not Space.REGISTERS:
                moved[f"{space}_{way}"] += _amount(piece, space)
    return replace(work, **moved)


def _amount(piece: Piece, space: Space) -> int:
    """Return bytes of shared memory, or columns of tensor memory."""
    return piece.bytes if space is Space.SMEM else -(-(piece.byte1 - piece.byte0) // 4)
