"""An operation under construction: the pieces behind its operands, what it reads and writes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from schedgen.errors import suggest
from schedgen.expressions import Expression, Name, of_this_iteration, references
from schedgen.kernel import Piece, Read
from schedgen.layouts import DTYPE_BITS
from schedgen.spec.dimensions import Index
from schedgen.spec.names import MAX_DISTANCE, Names
from schedgen.spec.values import Location, Path

_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:@([0-9]{1,9}))?")


class Draft:
    """One instance of an operation; ``complete`` unless something about it was reported."""

    def __init__(
        self,
        names: Names,
        index: Index,
        written: Collection[str] | None = None,
        earlier: Collection[str] = (),
    ) -> None:
        """``written``: pieces that the main loop has written before, None outside of it;
        ``earlier``: those that earlier instances of the same operation have.
        """
        self.operands: dict[str, tuple[Piece, ...]] = {}
        self.reads: dict[Read, Location] = {}
        self.writes: dict[str, None] = {}
        self.formulas: dict[str, Expression] = {}
        self.complete = True
        self._names = names
        self._scope = names.scope
        self._layout = names.layout
        self._index = index
        self._written = written
        self._earlier = earlier

    def error(self, rule: str, message: str, at: Path | Location, *, fix: str) -> None:
        """Report a mistake; the operation cannot be completed."""
        self._scope.error(rule, message, at, fix=fix)
        self.complete = False

    def read(self, text: str, operand: str, path: Path) -> None:
        """Note that ``operand`` reads the buffer ``text``, a name or name@distance."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            fix = "write the name of a buffer, or name@1 for its value one iteration earlier"
            self.error("bad-operand", f"'{text}' is not a buffer", path, fix=fix)
            return
        distance = int(match[2] or 0)
        if distance > MAX_DISTANCE:
            message = f"'{text}' is more than {MAX_DISTANCE} iterations old"
            self.error("out-of-range", message, path, fix=f"use {MAX_DISTANCE} or less")
            return
        self._read(match[1], distance, operand, Location(path))

    def write(self, name: str, operand: str, path: Path, *, key: bool = False) -> None:
        """Note that ``operand`` writes buffer ``name``."""
        for piece in self._pieces(name, operand, Location(path, key=key)):
            self.writes[piece.name] = None

    def formula(
        self,
        text: str | int,
        path: Path,
        *,
        output: str | None,
        condition: bool = False,
        before: bool = False,
    ) -> Expression | None:
        """Return a formula, or None after reporting what is wrong; note what it reads.

        ``output`` names what it computes, if that is of any use later. What is evaluated ``before``
        the operation writes anything reads what the operation finds.
        """
        expression = self._scope.expression(text, path)
        if expression is None or not self._names.check(expression, path, condition=condition):
            self.complete = False
            return None
        handed = {n.name for n in references(expression) if n.distance == 1 and self._handed(n)}
        if self._overwritten(expression, handed, path, before=before):
            return None
        expression = of_this_iteration(expression, handed)
        for name in references(expression):
            if name.name in self._names.spec.buffers and (before or not self._made_here(name)):
                self._read(name.name, name.distance, name.name, Location(path).of(name))
        if output is not None:
            self.formulas[output] = expression
        return expression

    def output(self, name: str, text: str | int, path: Path) -> None:
        """Note that buffer ``name`` is written with the value of a formula."""
        self.formula(text, path, output=name)
        self.write(name, name, path, key=True)

    def accumulate(self, operand: str, path: Path) -> None:
        """Note that ``operand`` is added to: to this iteration's value if there is one, else to the
        one before.
        """
        for piece in self.operands.get(operand, ()):
            carried = self._written is not None and piece.name not in self._written
            self.reads.setdefault(Read(piece.name, int(carried)), Location(path))

    def tensor(self, name: str, operand: str, path: Path) -> str:
        """Return the tensor ``name`` after checking that ``operand`` can be copied with it."""
        arguments = self._names.spec.arguments
        argument = arguments.get(name)
        if argument is None:
            fix = suggest(name, arguments) or "declare it under 'arguments'"
            message = f"'{name}' is not an argument of this kernel"
            self.error("unknown-argument", message, path, fix=fix)
        elif not argument.shape:
            fix = "use it in a formula, or give it a shape"
            message = f"'{name}' is a scalar, which no tile is part of"
            self.error("scalar-argument", message, path, fix=fix)
        elif operand in self.operands:
            dtype = self._scope.value(argument.dtype, ("arguments", name, "dtype"))
            region = self._layout.regions[self.operands[operand][0].region]
            if dtype in DTYPE_BITS and dtype != region.dtype:
                message = f"'{name}' is {dtype}, but '{region.base}' is {region.dtype}"
                fix = f"make both {dtype}, and convert in a map"
                self.error("dtype-mismatch", message, path, fix=fix)
        return name

    def _handed(self, name: Name) -> bool:
        """Whether an earlier instance of the operation wrote this value over the one that is an
        iteration old: instances hand a sum to each other, the last one to the next iteration.
        """
        buffer = self._layout.present.get(name.name)
        if not self._earlier or buffer is None or any(d not in self._index for d in buffer.per):
            return False
        pieces = self._layout.selected(name.name, self._index)
        return all(piece.name in self._earlier for piece in pieces)

    def _overwritten(
        self, expression: Expression, handed: Collection[str], path: Path, *, before: bool
    ) -> bool:
        """Reports a value that an earlier instance handed on, where the same formula names a newer
        one, or the operation has written it already: both would be called the same.
        """
        newer = {name.name for name in references(expression) if not name.distance}
        for name in references(expression):
            if name.name not in handed or name.distance != 1:
                continue
            pieces = self._layout.selected(name.name, self._index)
            made = not before and any(piece.name in self.writes for piece in pieces)
            if made or name.name in newer:
                text = name.name
                message = f"'{text}@1' is what the instance before this one made of '{text}', and "
                message += "is written already" if made else f"so is '{text}' here"
                fix = f"compute what needs '{text}@1' first, and '{text}' last"
                self.error("bad-formula", message, Location(path).of(name), fix=fix)
                return True
        return False

    def _made_here(self, name: Name) -> bool:
        """Whether the operation itself wrote this value a moment ago, in an earlier output."""
        if name.distance or not self.writes or name.name not in self._layout.present:
            return False
        if any(dim not in self._index for dim in self._layout.present[name.name].per):
            return False
        pieces = self._layout.selected(name.name, self._index)
        made = all(piece.name in self.writes for piece in pieces)
        if made:
            self.operands.setdefault(name.name, tuple(pieces))
        return made

    def _read(self, name: str, distance: int, operand: str, location: Location) -> None:
        for piece in self._pieces(name, operand, location):
            self.reads.setdefault(Read(piece.name, distance), location)

    def _pieces(self, name: str, operand: str, location: Location) -> Sequence[Piece]:
        """Return the pieces of a buffer that an operand stands for."""
        if name in self._layout.broken:
            self.complete = False
            return ()
        if name not in self._layout.present:
            buffers = self._names.spec.buffers
            message = f"'{name}' is not a buffer of this kernel"
            fix = suggest(name, buffers) or "declare it under 'buffers'"
            if name in buffers:
                message = f"buffer '{name}' does not exist for these parameters"
                fix = "leave this operation out with 'only' as well, or keep the buffer"
            self.error("unknown-buffer", message, location, fix=fix)
            return ()
        missing = [dim for dim in self._layout.present[name].per if dim not in self._index]
        if missing:
            fix = f"add '{missing[0]}' to 'over'"
            message = (
                f"there is one '{name}' per {missing[0]}, but this operation has no {missing[0]}"
            )
            self.error("missing-dimension", message, location, fix=fix)
            return ()
        pieces = tuple(self._layout.selected(name, self._index))
        if self.operands.setdefault(operand, pieces) != pieces:
            message = f"'{name}' is also what this operation calls another operand"
            self.error("name-clash", message, location, fix=f"rename buffer '{name}'")
        return pieces
