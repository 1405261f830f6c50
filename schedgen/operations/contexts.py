"""What a kind of operation may ask of the stages: of the reader, of the interpreters.

Each is the part of a class there that kinds use, so that kinds depend on no stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from schedgen.expressions import Expression, OperationCounts
from schedgen.kernel import Operation, Piece, Space, Work

if TYPE_CHECKING:
    import torch

Path = Sequence[str | int]
"""Where something stands in a spec file."""


class Axes(Protocol):
    """The extents along which rows and columns of a tile lie, '' for those that nobody knows."""

    @property
    def rows(self) -> str: ...
    @property
    def columns(self) -> str: ...
    @property
    def turned(self) -> Axes: ...


class Draft(Protocol):
    """An instance under construction (`schedgen.spec.draft.Draft`)."""

    operands: dict[str, tuple[Piece, ...]]
    writes: dict[str, None]
    formulas: dict[str, Expression]

    def read(self, text: str, operand: str, path: Path) -> None: ...
    def write(self, name: str, operand: str, path: Path) -> None: ...
    def output(self, name: str, text: str | int, path: Path) -> None: ...
    def formula(
        self,
        text: str | int,
        path: Path,
        *,
        output: str | None,
        condition: bool = False,
        before: bool = False,
    ) -> Expression | None: ...
    def tensor(self, name: str, operand: str, path: Path) -> str:
        """The tensor ``name`` after checking that ``operand`` can be copied with it."""
        ...

    def accumulate(self, operand: str, path: Path) -> None:
        """Note that ``operand`` is added to: to what this iteration made of it, else to what the
        one before did.
        """
        ...


class Shapes(Protocol):
    """What operands look like (`schedgen.spec.shapes.Shapes`)."""

    @property
    def path(self) -> Path: ...
    def shape(self, operand: str) -> tuple[int, int]: ...
    def bytes(self, operand: str) -> int: ...
    def row_bytes(self, operand: str) -> int: ...
    def space(self, operand: str) -> Space: ...
    def dtype(self, operand: str) -> str: ...
    def is_vector(self, operand: str) -> bool: ...
    def pieces(self, operand: str) -> tuple[Piece, ...]: ...
    def fail(self, rule: str, message: str, key: str, fix: str, *, at_key: str = "") -> bool:
        """Report that the value of ``key`` does not fit (or its key ``at_key``); False."""
        ...

    def formula_fits(self, formula: str, output: str, path: Path) -> bool: ...
    def counts(self, formula: str) -> OperationCounts:
        """What the formula of an output costs per element and per row."""
        ...

    def exponentials(self) -> bool:
        """Whether a formula has an exponential."""
        ...

    def share(self, text: bool | int | str, key: str) -> Any:
        """A number from 0 to 1, None after reporting anything else."""
        ...

    def widened(self, work: Work) -> Work:
        """``work`` with what makes float32 of the elements of 8 bits that formulas read."""
        ...

    def traffic(self, work: Work) -> Work:
        """``work`` with what is moved to and from tensor memory and shared memory."""
        ...


class Alignment(Protocol):
    """Along which extents tiles lie (`schedgen.spec.alignment`)."""

    computed: dict[str, tuple[str, str]]

    def lies(self, operation: Operation) -> Axes:
        """The extents that the tile of a load or store lies along."""
        ...

    def of(self, operation: Operation, operand: str) -> Axes: ...
    def note(self, operation: Operation, operand: str, axes: Axes) -> None: ...
    def agree(self, operation: Operation, operand: str, one: Axes, other: Axes) -> bool: ...
    def product(self, operation: Operation) -> None: ...
    def formulas(self, operation: Operation, rows: str = "") -> Axes: ...


class Execution(Protocol):
    """One execution of an operation by an interpreter (`schedgen.interpret.tiles`)."""

    @property
    def operation(self) -> Operation: ...
    @property
    def formulas(self) -> Mapping[str, Expression]: ...
    def tile(self, operand: str) -> torch.Tensor:
        """What an operand reads, in the data type of its buffer."""
        ...

    def factor(self, operand: str) -> torch.Tensor:
        """An operand of a product, as float32 numbers that its data type has."""
        ...

    def formula(self, formula: Expression) -> torch.Tensor: ...
    def make(self, operand: str, value: torch.Tensor) -> None:
        """Note what an operand becomes, cast to the data type of its buffer."""
        ...

    def loaded(self) -> torch.Tensor:
        """The tile of a load."""
        ...

    def store(self, tile: torch.Tensor) -> None: ...
    def holds(self) -> bool:
        """Whether a load or a store happens."""
        ...
