"""What the operands of an operation look like: shapes, data types, memory spaces, traffic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from schedgen.expressions import Call, Name, OperationCounts, count_operations, references
from schedgen.expressions.nodes import walk
from schedgen.kernel import Piece, Space, Work
from schedgen.layouts import DTYPE_BITS, PACKED
from schedgen.operations.base import size
from schedgen.operations.widening import WIDENING
from schedgen.spec.draft import Draft
from schedgen.spec.layout import Layout
from schedgen.spec.values import Location, Path

_BLOCK = 8
"""Columns: a thread of Hopper has two of every eight."""


class Shapes:
    """What the operands of a draft look like, and where to report that they do not fit."""

    def __init__(self, draft: Draft, layout: Layout, path: Path) -> None:
        self.draft = draft
        self.layout = layout
        self.scope = layout.scope
        self.path = path

    def shape(self, operand: str) -> tuple[int, int]:
        """Return the rows and columns that the pieces of an operand make up together."""
        pieces = self.draft.operands[operand]
        rows = max(p.row1 for p in pieces) - min(p.row0 for p in pieces)
        width = max(p.byte1 for p in pieces) - min(p.byte0 for p in pieces)
        return rows, width * 8 // DTYPE_BITS[self.dtype(operand)]

    def numbers(self, operand: str) -> tuple[int, int]:
        """Return the same of the numbers that elements consist of."""
        rows, columns = self.shape(operand)
        return rows, columns * PACKED.get(self.dtype(operand), 1)

    def bytes(self, operand: str) -> int:
        """Return the bytes of an operand."""
        return sum(piece.bytes for piece in self.draft.operands[operand])

    def row_bytes(self, operand: str) -> int:
        """Return the bytes of a row of the buffer that an operand is in."""
        return self.layout.regions[self.draft.operands[operand][0].region].row_bytes

    def space(self, operand: str) -> Space:
        """Return the memory space of an operand."""
        return self.layout.regions[self.draft.operands[operand][0].region].space

    def dtype(self, operand: str) -> str:
        """Return the data type of an operand."""
        return self.layout.regions[self.draft.operands[operand][0].region].dtype

    def is_vector(self, operand: str) -> bool:
        """Whether an operand is a value per row."""
        return len(self.layout.regions[self.draft.operands[operand][0].region].shape) == 1

    def pieces(self, operand: str) -> tuple[Piece, ...]:
        """Return the pieces of an operand."""
        return self.draft.operands[operand]

    def fail(self, rule: str, message: str, key: str, fix: str, *, at_key: str = "") -> bool:
        """Report that the value of ``key`` does not fit, or its key ``at_key``; return False."""
        path = (*self.path, key, at_key) if at_key else (*self.path, key)
        self.draft.error(rule, message, Location(path, key=bool(at_key)), fix=fix)
        return False

    def formula_fits(self, formula: str, output: str, path: Path) -> bool:
        """Whether what a formula reads has the shape of its output, or a row or column of it."""
        shape = self.shape(output)
        for name in references(self.draft.formulas[formula]):
            at = Location(path).of(name)
            if name.name == "column" and self.is_vector(output):
                message = "'column' has no meaning where a value per row is computed"
                self.draft.error("shape-mismatch", message, at, fix="compute a tile instead")
                return False
            if name.name not in self.draft.operands:
                continue
            other = self.numbers(name.name)
            if other[0] not in (1, shape[0]) or not self._columns_fit(name.name, shape):
                message = f"'{name.name}' is {size(other)}, what is computed is {size(shape)}"
                fix = "make the shapes equal, or broadcast one row, one column, or a row of values "
                fix += f"that each stand for as many columns, a multiple of {_BLOCK}"
                self.draft.error("shape-mismatch", message, at, fix=fix)
                return False
        return True

    def _columns_fit(self, operand: str, shape: tuple[int, int]) -> bool:
        rows, columns = self.numbers(operand)
        if columns in (1, shape[1]):
            return True
        return rows == 1 and not shape[1] % columns and not shape[1] // columns % _BLOCK

    def _is_row_of_blocks(self, operand: str, output: str) -> bool:
        """Whether a value of an operand stands for a block of columns of an output."""
        rows, columns = self.shape(operand)
        return rows == 1 and columns < self.shape(output)[1]

    # -- work ----------------------------------------------------------------------------------

    def counts(self, formula: str) -> OperationCounts:
        """Return what the formula of an output costs per element and per row."""

        def is_tile(reference: Name) -> bool:
            if reference.name in self.draft.operands:
                blocks = self._is_row_of_blocks(reference.name, formula)
                return not (blocks or self.is_vector(reference.name))
            return reference.name == "column"

        def is_scalar(reference: Name) -> bool:
            return reference.name not in (*self.draft.operands, "row", "column")

        return count_operations(self.draft.formulas[formula], is_tile, is_scalar)

    def exponentials(self) -> bool:
        """Whether a formula has an exponential."""
        return any(
            isinstance(node, Call) and node.function in ("exp2", "exp")
            for formula in self.draft.formulas.values()
            for node in walk(formula)
        )

    def share(self, text: bool | int | str, key: str) -> Fraction | None:
        """Return a number from 0 to 1, or None after reporting anything else."""
        before = self.scope.errors
        share = self.scope.value(text, (*self.path, key))
        if isinstance(share, Fraction) and 0 <= share <= 1:
            return share
        if self.scope.errors == before:
            message = "the share of polynomials is a number from 0 to 1"
            self.fail("out-of-range", message, key, "write for example 3/16")
        return None

    def widened(self, work: Work) -> Work:
        """Return ``work`` with what makes float32 of the elements of 8 bits that formulas read."""
        read = {read.piece for read in self.draft.reads}
        pieces = {piece.name: piece for group in self.draft.operands.values() for piece in group}
        for name in sorted(read):
            region = self.layout.regions[pieces[name].region]
            if region.dtype in WIDENING and len(region.shape) > 1:
                work = WIDENING[region.dtype].added(work, pieces[name].bytes)
        return work

    def traffic(self, work: Work) -> Work:
        """Return ``work`` with what is moved to and from tensor memory and shared memory."""
        moved = {"tmem_in": 0, "tmem_out": 0, "smem_in": 0, "smem_out": 0}
        read = {read.piece for read in self.draft.reads}
        pieces = {piece.name: piece for group in self.draft.operands.values() for piece in group}
        for piece in pieces.values():
            space = self.layout.regions[piece.region].space
            for way, touched in (("in", read), ("out", self.draft.writes)):
                if piece.name in touched and space is not Space.REGISTERS:
                    moved[f"{space}_{way}"] += _amount(piece, space)
        return replace(work, **moved)


def _amount(piece: Piece, space: Space) -> int:
    """Return bytes of shared memory, or columns of tensor memory."""
    return piece.bytes if space is Space.SMEM else -(-(piece.byte1 - piece.byte0) // 4)
