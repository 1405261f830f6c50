"""What a tensor map is of: boxes of a global tensor that bulk copies move."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.codegen.ir import Name
from schedgen.tensors import Argument, Ragged


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor map: tiles of ``rows`` x ``columns`` of an argument, along two of its axes.

    ``sides`` has for each axis of the argument "rows", "columns" or "". Of a ``ragged`` one the
    elements along an axis end where data says, see `schedgen.codegen.ragged`. A store that ``adds``
    reduces: elements are added where they lie. Tiles of ``step`` columns overlap: a copy brings
    ``columns``, of which those behind the first ones are of the next tiles; 0 if they do not.
    """

    name: str
    argument: Argument
    rows: int
    columns: int
    sides: tuple[str, ...]
    store: bool
    ragged: Ragged | None = None
    adds: bool = False
    step: int = 0

    @property
    def folded(self) -> bool:
        """Whether numbers, or pages, are along an axis of their own, which is that of rows here."""
        return self.ragged is not None and not self.ragged.packed and self._outer is not None

    @property
    def pitch(self) -> Name:
        """How many rows such are apart."""
        return Name(f"pitch_{self.argument.name}")

    @property
    def folds(self) -> tuple[int, int]:
        """The axes of a tensor that is passed that are folded: of numbers, and of their rows."""
        assert self.ragged is not None
        shape = self.argument.shape
        return shape.index(self.ragged.of), shape.index(self.ragged.extent)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of the argument that are those of the tensor: that of rows, that of columns, the
        others.
        """
        sided = [self.sides.index(side) for side in ("rows", "columns") if side in self.sides]
        rest = [axis for axis, side in enumerate(self.sides) if not side and axis != self._outer]
        return (*sided, *reversed(rest))

    @property
    def axes(self) -> list[int]:
        """`order` in axes of the tensor that is passed."""
        if self._outer is None or self.folded:
            return [*self.order]
        outer = self._outer
        return [axis - (axis > outer) for axis in self.order]

    @property
    def _outer(self) -> int | None:
        """The axis along which numbers have elements of their own, which a map has none for."""
        if self.ragged is None or self.ragged.of not in self.argument.shape:
            return None
        axis = self.argument.shape.index(self.ragged.of)
        return None if self.sides[axis] else axis

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements along each axis of `order`, and of what a ragged map has more."""
        sizes = {"rows": self.box, "columns": self.columns, "": 1}
        sided = [sizes[self.sides[axis]] for axis in self.order]
        return (*sided, 1, 1) if self.ragged else tuple(sided)

    @property
    def box(self) -> int:
        """Rows of a copy: those of a page, if a tile has more."""
        paged = self.ragged is not None and self.ragged.table
        return min(self.rows, self.ragged.page_size) if paged and self.ragged else self.rows

    @property
    def mode(self) -> int:
        """Which one of `order` the ragged axis is."""
        assert self.ragged is not None
        return self.order.index(self.argument.shape.index(self.ragged.extent))
