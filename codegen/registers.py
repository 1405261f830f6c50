"""Registers of a role: one array for each region that its operations work on.

A role that works on several blocks of rows, such as both halves of an output tile, has an array for
each of them: threads have one row of each block.
"""

from __future__ import annotations

from functools import cached_property

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.ir import Code, called, code
from schedgen.codegen.operands import Shape, shape_of
from schedgen.codegen.plan import Part, Plan
from schedgen.codegen.source import Source
from schedgen.exchanges import kept_as_results
from schedgen.kernel import Space


class Registers:
    """The arrays ``r_X``."""

    def __init__(self, plan: Plan, fragment: Fragment) -> None:
        self.plan, self.fragment = plan, fragment

    def name(self, part: Part) -> str:
        """The array of a part's region and rows."""
        region = part.region.name
        if self._blocks(region) > 1:
            region = f"{region}_{part.row0 // self.fragment.rows}"
        return self.plan.names.of("registers", region, "r_")

    def _blocks(self, region: str) -> int:
        """The most blocks of rows of a region that one role works on."""
        return max(len(rows) for rows in self._rows[region].values())

    @cached_property
    def _rows(self) -> dict[str, dict[str, set[int]]]:
        """Region -> role -> the first rows of the parts that the role works on."""
        found: dict[str, dict[str, set[int]]] = {}
        for role in self.plan.runs:
            for part in self._parts(role):
                of_region = found.setdefault(part.region.name, {})
                of_region.setdefault(role, set()).add(part.row0)
        return found

    def whole(self, part: Part) -> bool:
        return part == self.plan.covered(self.plan.pieces_of(part.region))

    def tensor(self, part: Part) -> Code:
        """The elements of a part as a tensor."""
        name = code(self.name(part))
        if self.whole(part):
            return name
        layout = self._layout(part, self.count(part))
        if layout:
            return code(f"cute.make_tensor({{}}.iterator + {self.offset(part)}, {layout})", name)
        return called("part_of", name, self.offset(part), self.count(part))

    def offset(self, part: Part) -> int:
        """The first element of a part in its array."""
        return self.fragment.elements(part.column0)

    def count(self, part: Part) -> int:
        """Elements of a part in each thread."""
        vector = len(part.region.shape) == 1
        return self.fragment.values if vector else self.fragment.elements(part.columns)

    def declare(self, source: Source, role: str) -> None:
        """The arrays of all regions that a role works on."""
        for name, part in self._of_role(role).items():
            count = self.count(self.plan.covered(self.plan.pieces_of(part.region)))
            shape = self._layout(part, count) or str(count)
            source.add(f"{name} = cute.make_rmem_tensor({shape}, {DTYPES[part.region.dtype]})")

    def _layout(self, part: Part, count: int) -> str:
        """How elements lie that a product takes in the order of results: four of a row are one
        register of its operand. '' of all others, which lie in that order.
        """
        if part.region.name not in self._as_results:
            return ""
        return f"cute.make_layout((2, 2, 2, {count // 8}), stride=(1, 4, 2, 8))"

    @cached_property
    def _as_results(self) -> frozenset[str]:
        return kept_as_results(self.plan.kernel)

    def initialize(self, source: Source, role: str) -> None:
        """At the beginning of a tile."""
        for name, part in self._of_role(role).items():
            if part.region.initial is not None:
                source.add(f"{name}.fill({initial_value(part.region.initial)})")

    def _of_role(self, role: str) -> dict[str, Part]:
        """Array -> a part that lies in it."""
        found: dict[str, Part] = {}
        for part in self._parts(role):
            self._check(part)
            found.setdefault(self.name(part), part)
        return found

    def _parts(self, role: str) -> list[Part]:
        """What the operations of a role work on in registers."""
        return [
            self.plan.covered([self.plan.kernel.piece[p] for p in pieces])
            for operation in self.plan.runs[role]
            for _, pieces in operation.operands
            if self.plan.kernel.region_of(pieces[0]).space is Space.REGISTERS
        ]

    def _check(self, part: Part) -> None:
        name, rows = part.region.name, self.fragment.rows
        if part.rows != rows and shape_of(part) is not Shape.COLUMNS:
            raise EmitError(
                f"'{name}': four warps work on {rows} rows, not {part.rows}",
                part.region,
                rule="rows-of-registers",
                fix=f"split it over a dimension of {rows} rows each, and its operations over that "
                "('split: {rows: band}' and 'over: [band]', docs/faq.md)"
                if part.rows > rows
                else f"make it {rows} rows; those beyond a tensor's end are zero",
            )
        allocation = self.plan.program.allocation.get(name)
        if allocation is not None and allocation.slots > 1:
            raise EmitError(
                f"'{name}': a ring of {allocation.slots} slots in registers, which have no index",
                part.region,
                rule="ring-of-registers",
                fix="give it 'depth: 1', or keep it in shared or tensor memory",
            )


def initial_value(value: str) -> str:
    """The initial value of a region, or what a mask writes, in the DSL."""
    known = {"-inf": "-Float32.inf", "inf": "Float32.inf"}
    return known[value] if value in known else str(float(value))
