"""PTX as written: declarations and statements before names are looked up.

The grammar's callbacks make these, and `names` turns them into what `tree` describes. Operands are
those of the tree already, with every name, that of a register too, still a ``Symbol``.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.emulator.ptx.tree import Guard, Operand, Symbol


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction with its dotted name."""

    name: str
    operands: list[Operand]
    line: int
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """``{ … }``: a scope of its own for registers, variables and labels."""

    statements: list[Part]
    line: int


@dataclass(frozen=True, slots=True)
class SourceLine:
    """``.loc``: where the instructions that follow come from.

    ``inlined`` are file, line and column of the call, where it is in an inlined function.
    """

    file: int
    number: int
    line: int
    column: int = 0
    inlined: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """``name: .branchtargets …``; ``entries`` with ranges expanded."""

    name: str
    entries: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Registers:
    """``.reg``: ``names`` with ranges expanded. ``vector`` is 1 for scalars."""

    type: str
    vector: int
    names: tuple[str, ...]
    line: int


Value = int | float | Symbol | list["Value"]
"""An initializer: a number, the address of a variable, or a list of these."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A variable or parameter. ``shape`` has None for a dimension without a length."""

    space: str
    type: str
    vector: int
    align: int | None
    name: str
    shape: tuple[int | None, ...]
    value: Value | None
    external: bool
    line: int


@dataclass(frozen=True, slots=True)
class Variables:
    declared: list[Declared]


@dataclass(frozen=True, slots=True)
class Routine:
    """An ``.entry`` or ``.func``; ``body`` is None for a prototype."""

    name: str
    entry: bool
    results: list[Declared]
    parameters: list[Declared]
    tuning: dict[str, tuple[int, ...]]
    body: Block | None
    line: int


Part = Statement | Label | Block | SourceLine | Table | Registers | Variables
"""What stands between the braces of a routine."""


@dataclass(frozen=True, slots=True)
class Header:
    """``.version``, ``.target`` or ``.address_size`` with its value as written."""

    directive: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class File:
    """``.file``."""

    index: int
    path: str


Item = Header | File | Variables | Routine
"""What stands outside of routines."""
