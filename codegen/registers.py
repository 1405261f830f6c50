"""Registers of a role: one array for each region that its operations work on."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.plan import DTYPES, Part, Plan
from schedgen.codegen.share import Share
from schedgen.codegen.source import Source
from schedgen.kernel import Region, Space


class Registers:
    """The arrays ``r_X``."""

    def __init__(self, plan: Plan, share: Share) -> None:
        self.plan, self.share = plan, share

    def name(self, region: Region) -> str:
        return self.plan.names.of("registers", region.name, "r_")

    def whole(self, part: Part) -> bool:
        return part == self.plan.covered(self.plan.pieces_of(part.region))

    def tensor(self, part: Part) -> str:
        """The elements of a part as a tensor."""
        name = self.name(part.region)
        if self.whole(part):
            return name
        return f"part_of({name}, {self.offset(part)}, {self.count(part)})"

    def offset(self, part: Part) -> int:
        """The first element of a part in its array."""
        return self.share.elements(part.column0)

    def count(self, part: Part) -> int:
        """Elements of a part in each thread."""
        vector = len(part.region.shape) == 1
        return self.share.values if vector else self.share.elements(part.columns)

    def declare(self, source: Source, role: str) -> None:
        """The arrays of all regions that a role works on."""
        for region in self._of_role(role):
            count = self.count(self.plan.covered(self.plan.pieces_of(region)))
            source.add(
                f"{self.name(region)} = cute.make_rmem_tensor({count}, {DTYPES[region.dtype]})"
            )

    def initialize(self, source: Source, role: str) -> None:
        """At the beginning of a tile."""
        for region in self._of_role(role):
            if region.initial is not None:
                source.add(f"{self.name(region)}.fill({initial_value(region.initial)})")

    def _of_role(self, role: str) -> list[Region]:
        found: dict[str, Region] = {}
        for operation in self.plan.runs[role]:
            for _, pieces in operation.operands:
                region = self.plan.kernel.region_of(pieces[0])
                if region.space is Space.REGISTERS:
                    self._check(self.plan.covered([self.plan.kernel.piece[p] for p in pieces]))
                    found[region.name] = region
        return list(found.values())

    def _check(self, part: Part) -> None:
        name, rows = part.region.name, self.share.rows
        if part.rows != rows:
            raise EmitError(f"'{name}': four warps work on {rows} rows, not {part.rows}")
        store = self.plan.program.store.get(name)
        if store is not None and store.slots > 1:
            raise EmitError(f"'{name}': a ring of registers is not supported")


def initial_value(value: str) -> str:
    """The initial value of a region, or what a mask writes, in the DSL."""
    known = {"-inf": "-Float32.inf", "inf": "Float32.inf"}
    return known[value] if value in known else str(float(value))
