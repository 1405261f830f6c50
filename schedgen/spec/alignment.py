"""Whether what is computed together lies along the same extents of tensors.

Loads say along which extents the rows and columns of a tile lie, and operations carry that on: a
product adds up along one extent of both of its operands, what a formula reads element by element
lies where its output does, and a store puts a tile where it belongs. Equal sizes are no reason to
think so: a square tile that lies the other way round fits as well.

What nobody says, such as the columns of a vector, fits everything; so does, in formulas, an extent
that a tile covers as a whole: it may be a pattern that repeats in each tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedgen.kernel import Operation, Read
from schedgen.operations import KINDS
from schedgen.operations.contexts import Axes
from schedgen.spec.layout import Layout
from schedgen.spec.values import Location, Scope

_PASSES = 2
"""The second one knows what the first iteration has left in buffers."""


@dataclass(frozen=True, slots=True)
class _Axes:
    """The extents along which rows and columns of a tile lie; '' for those that nobody knows."""

    rows: str = ""
    columns: str = ""

    def with_(self, other: _Axes) -> _Axes:
        return _Axes(self.rows or other.rows, self.columns or other.columns)

    @property
    def turned(self) -> _Axes:
        return _Axes(self.columns, self.rows)


def _differ(one: Axes, other: Axes) -> str:
    """Both names where axes disagree, '' if they do not."""
    for mine, its in ((one.rows, other.rows), (one.columns, other.columns)):
        if mine and its and mine != its:
            return f"'{mine}' and '{its}'"
    return ""


def check_alignment(
    scope: Scope,
    layout: Layout,
    operations: Sequence[Operation],
    locations: Mapping[tuple[str, Read], Location],
) -> dict[str, tuple[str, str]]:
    """Report operations whose operands lie along different extents; ``locations`` says where in the
    file each of their reads stands.

    Returns for each operation of threads along which extents the rows and columns of what it
    computes lie, '' for those that nobody knows.
    """
    checker = _Checker(scope, layout, locations)
    for _ in range(_PASSES):
        for operation in operations:
            checker.visit(operation)
    return checker.computed


class _Checker:
    def __init__(
        self, scope: Scope, layout: Layout, locations: Mapping[tuple[str, Read], Location]
    ) -> None:
        self.scope, self.layout, self.at = scope, layout, locations
        self.region = {
            piece: region for region, pieces in layout.pieces.items() for piece in pieces
        }
        self.axes: dict[str, _Axes] = {}
        self.moving: set[str] = set()  # extents that tiles are parts of
        self.counted: dict[str, str] = {}  # extents of blocks, by what these are blocks of
        self.computed: dict[str, tuple[str, str]] = {}
        self._reported: set[tuple[str, str]] = set()

    def visit(self, operation: Operation) -> None:
        """Check one operation, and note along what its results lie."""
        self.moving |= {p.extent for p in operation.places if p.along or p.step or p.grouped}
        self.counted |= {p.extent: p.counts for p in operation.places if p.counts}
        KINDS[operation.kind].align(self, operation)

    def product(self, operation: Operation) -> None:
        """Check that a product adds up along one extent; note along what its result lies."""
        operands = dict(operation.operands)
        a, b = self._of(operands["a"]), self._of(operands["b"])
        a = a.turned if operation.transpose_a else a
        b = b.turned if operation.transpose_b else b
        # Rows of b that lie in another order than columns of a may lie along an extent of theirs.
        inner = not operation.as_results and _differ(_Axes(a.columns), _Axes(b.rows))
        if inner:
            message = (
                f"the product adds up along {inner}: "
                f"{'rows' if operation.transpose_a else 'columns'} of "
                f"'{self._name(operands['a'])}' and "
                f"{'columns' if operation.transpose_b else 'rows'} of "
                f"'{self._name(operands['b'])}' are of the same size, but not the same extent"
            )
            fix = "multiply tiles that lie along one extent, or give both extents one name"
            self._report(operation, "b", message, fix)
            return
        product = _Axes(a.rows, b.columns)
        if operation.accumulate:
            self.agree(operation, "d", self._of(operands["d"]), product)
        self._write(operands["d"], product)

    def formulas(self, operation: Operation, rows: str = "") -> _Axes:
        """Check that all operands of formulas lie along the same, with rows along ``rows`` if that
        is known; return along what.
        """
        known, operands = _Axes(rows), dict(operation.operands)
        outputs = [name for name, _ in operation.formulas if name in operands]
        names = [name for name in operands if name not in ("from", "to")]
        for name in sorted(names, key=lambda name: name in outputs):
            if any(read.piece in operands[name] for read in operation.reads):
                mine = self._moving(self._of(operands[name]))
                if self.agree(operation, name, known, mine):
                    known = known.with_(mine)
        for name in outputs:
            self._write(operands[name], self._shaped(operands[name], known))
        return known

    def _shaped(self, pieces: Sequence[str], axes: _Axes) -> _Axes:
        """What an output has of the axes of its operands: a vector has rows only."""
        region = self.layout.regions[self.region[pieces[0]]]
        return _Axes(axes.rows) if len(region.shape) == 1 else axes

    def _moving(self, axes: _Axes) -> _Axes:
        """Of axes those along which tiles are parts; values for blocks lie along what has these."""
        both = [self.counted.get(name, name) for name in (axes.rows, axes.columns)]
        rows, columns = (name if name in self.moving else "" for name in both)
        return _Axes(rows, columns)

    # -- what is known -------------------------------------------------------------------------

    def lies(self, operation: Operation) -> _Axes:
        """The extents that the tile of a load or store lies along.

        A tile that is stored in the transposed place lies as the output tile does. A side of one
        element lies along nothing, as it is the same for everything that it is put together with.
        """
        sides = {
            place.side: (place.along or place.extent) if operation.transposed else place.extent
            for place in operation.places
            if place.side and place.size > 1
        }
        return _Axes(sides.get("rows", ""), sides.get("columns", ""))

    def of(self, operation: Operation, operand: str) -> _Axes:
        """Along what an operand lies."""
        return self._of(dict(operation.operands)[operand])

    def note(self, operation: Operation, operand: str, axes: Axes) -> None:
        """What is written lies along ``axes``."""
        self._write(dict(operation.operands)[operand], _Axes(axes.rows, axes.columns))

    def _of(self, pieces: Sequence[str]) -> _Axes:
        return self.axes.get(self.region[pieces[0]], _Axes())

    def _write(self, pieces: Sequence[str], axes: _Axes) -> None:
        for piece in pieces:
            self.axes[self.region[piece]] = axes

    def _name(self, pieces: Sequence[str]) -> str:
        return self.layout.regions[self.region[pieces[0]]].base

    # -- mistakes ------------------------------------------------------------------------------

    def agree(self, operation: Operation, operand: str, one: Axes, other: Axes) -> bool:
        """Report where an operand lies along other extents than it should."""
        both = _differ(one, other)
        if both:
            name = self._name(dict(operation.operands)[operand])
            message = (
                f"'{operation.base}' puts {both} together at '{name}': they are of the same size "
                "here, but not the same extent"
            )
            fix = "transpose one of them with a copy, or give both extents one name"
            self._report(operation, operand, message, fix)
        return not both

    def _report(self, operation: Operation, operand: str, message: str, fix: str) -> None:
        if (operation.base, operand) in self._reported:
            return
        self._reported.add((operation.base, operand))
        pieces = dict(operation.operands)[operand]
        at = next(
            location
            for (name, read), location in self.at.items()
            if name == operation.name and read.piece in pieces
        )
        self.scope.error("extent-mismatch", message, at, fix=fix)
