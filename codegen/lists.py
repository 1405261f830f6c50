"""What roles that take rows through a list are given: the tensor, the list, where it begins.

A list holds the rows of what it makes one behind the other, as packed tensors do: those of an
output tile's number begin where its elements begin, and are as many.
"""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.ir import Code, Name, code, joined
from schedgen.codegen.kinds import gather
from schedgen.codegen.plan import Plan
from schedgen.codegen.ragged import begin
from schedgen.codegen.source import Source
from schedgen.kernel import Kind, Operation
from schedgen.layouts import DTYPE_BITS
from schedgen.tensors import Argument

_BITS = 128
"""What a thread loads at a time."""


class Lists:
    """Those of a kernel."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        operations = (o for o in plan.kernel.operations if o.kind is Kind.GATHER)
        names = dict.fromkeys(o.tensor or "" for o in operations)
        self.all = [argument for argument in plan.kernel.arguments if argument.name in names]

    def tensors(self) -> dict[str, str]:
        """Parameters of the kernel with tensors and lists, and their arguments."""
        names = [name for one in self.all for name in (one.name, one.index)]
        return {f"of_{name}": name for name in names}

    def refuse(self, source: Source, kernel: str) -> None:
        """No tiles where 16 bytes of a row are not side by side, or not at a multiple of that."""
        for one in self.all:
            each = _BITS // DTYPE_BITS[one.dtype]
            last = len(one.passed) - 1
            terms = [f"{one.name}.stride[{last}] != 1"]
            terms = [f"{one.name}.shape[{last}] > 1 and {terms[0]}"]
            terms += [
                f"{one.name}.shape[{axis}] > 1 and {one.name}.stride[{axis}] % {each} != 0"
                for axis in range(last)
            ]
            with source.block(f"if {' or '.join(terms)}:"):
                text = f"{kernel}: rows of {one.name} do not begin at multiples of {each} elements"
                source.call("cute.printf", [f'"{text}; not launched"'])
                source.add("tiles = Int32(0)")

    def argument(self, operation: Operation, use: str) -> Code:
        """What the function of an operation is given for one of `gather.PARAMETERS`."""
        if use == gather.ROWS:
            return self._matrix(operation, self._tensor(operation))
        return code(self.plan.names.of(use, operation.name, f"{use}_", operation.base))

    def once(self, operation: Operation) -> bool:
        """Whether the rows of an output tile are the same in all iterations."""
        place = operation.places[self._along(operation)]
        return not (place.step or place.counts)

    def find(self, source: Source, operation: Operation, fragment: Fragment, first: Code) -> None:
        """Writes where the rows of a thread begin, of a tile whose rows are those from ``first``
        on.
        """
        tensor, extent = self._tensor(operation), operation.places[self._along(operation)].extent
        ragged = self.plan.ragged.get(extent)
        found, there = (self.argument(operation, use) for use in (gather.FOUND, gather.THERE))
        arguments = [
            self._matrix(operation, tensor),
            code("{}", Name(f"of_{tensor.index}")),
            code("Int32(0)") if ragged is None else code("{}", Name(begin(ragged))),
            code("{}", Name(extent)),
            first,
            code("thread"),
            *(code(str(n)) for n in gather.division(self.plan, fragment, operation)),
        ]
        source.uses("rows_of_list")
        source.call(code("{}, {} = rows_of_list", found, there), arguments)

    def _tensor(self, operation: Operation) -> Argument:
        return next(one for one in self.all if one.name == operation.tensor)

    def _along(self, operation: Operation) -> int:
        """The axis along which rows of the tile lie, and the list.

        Raises EmitError if rows or columns lie along another one.
        """
        sides = [place.side for place in operation.places]
        tensor = self._tensor(operation)
        rows = len(tensor.shape) - len(tensor.passed)
        if sides[rows] != "rows" or sides[-1] != "columns":
            raise EmitError(
                f"{operation.name}: rows of the tile do not lie along the list, or its columns not "
                f"along the last extent of '{tensor.name}'",
                operation,
                rule="sides-of-gather",
                fix="say in 'tiled' of the tensor: its first extent, and its last one",
            )
        return rows

    def _matrix(self, operation: Operation, tensor: Argument) -> Code:
        """Rows and columns of a tensor, at the element of a tile along its other extents."""
        first = self._along(operation)
        whole = Name(f"of_{tensor.name}")
        if len(tensor.passed) == len(("rows", "columns")):
            return code("{}", whole)
        others = [
            self._element(operation, axis) for axis in range(first + 1, len(tensor.shape) - 1)
        ]
        return code("{}[(None, {}, None)]", whole, joined(", ", others))

    def _element(self, operation: Operation, axis: int) -> Code:
        """Which element along an axis a tile has: one that output tiles are cut along."""
        place = operation.places[axis]
        if place.step or place.counts or not place.along:
            raise EmitError(
                f"{operation.name}: along '{place.extent}' a tile is not the element of its number",
                operation,
                rule="sides-of-gather",
                fix="gather rows of a tensor whose other extents are those of the result",
            )
        along = Name(f"at_{place.along}")
        if place.grouped:
            return code("{} * {} // {}", along, Name(place.extent), Name(place.along))
        return code("{}", along)
