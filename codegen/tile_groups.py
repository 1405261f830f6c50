"""How many output tiles along the last axis follow each other in a group, where tiles of all rows
read the same in the main loop and those along that axis something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schedgen.codegen.architecture import KEPT
from schedgen.codegen.ir import Code, Name, called, code
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.kernel import LOADS, Operation, Phase
from schedgen.sums import adds

_LEAST = 8
"""Tiles of each block in a slice, at least, where a list has those of a slice in the order of their
work: at the end of one the first of the next are drawn, which are the longest.
"""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups along ``inner`` of tiles whose slices are all ``rows``.

    Attributes:
        trips: the name for the iterations of a tile, or the most that one may have.
        slices: how many there would be without groups.
        in_turns: rows are gone through down and up in turn in slices.
        ordered: tiles of a slice are in the order of their work.
    """

    plan: Plan
    inner: str
    trips: str
    rows: Code
    count: Code
    slices: Code
    in_turns: bool
    ordered: bool

    def write(self, source: Source, host: dict[str, str]) -> None:
        """Computes the size of a group on the host."""
        loads = loads_of_loop(self.plan)
        read = sum(self._bytes(load.writes) for load in loads)
        # Sums lie in L2, too. Tiles that are not fixed go one way in all slices, and smaller slices
        # took claimed ones 3 to 5 % longer on an H200; with a block for each it was not measured.
        if self.plan.kernel.claim == "fixed":
            sums = sums_of_loop(self.plan)
            read += sum(self._bytes([r.piece for r in store.reads]) for store in sums)
        trips = code("cutlass.max({}, 1)", Name(self.trips))
        most = code(f"{KEPT[self.plan.program.arch] // read} // {{}}", trips)
        sharing = [p for load in loads for p in load.places if p.along == self.inner and p.grouped]
        if sharing:
            most = code("{} * ({} // {})", most, Name(self.inner), Name(sharing[0].extent))
        source.comment(f"as many {self.inner} one after the other as what they read stays in L2")
        if self.in_turns:
            source.comment("slices, of which an even number balances")
            half = code("{} // (1 + {} * ({} + 1) % 2)", self.count, self.slices, self.count)
            most = code("cutlass.min({}, {})", most, half)
        if self.ordered:
            source.comment("or more, so that there is something short at the end of a slice")
            least = code(f"cute.ceil_div({_LEAST} * {{}}, {{}})", Name("sms"), self.rows)
            most = code("cutlass.max({}, {})", most, least)
        group = called("divisor_of", self.count, most).renamed(host)
        source.add(code("{} = {}", Name(f"{self.inner}_in_group"), group))

    def _bytes(self, pieces: Iterable[str]) -> int:
        kernel = self.plan.kernel
        regions = {kernel.piece[piece].region for piece in pieces}
        return sum(kernel.region[name].slot_bytes for name in regions)


def loads_of_loop(plan: Plan) -> list[Operation]:
    """Loads of the main loop."""
    operations = plan.kernel.operations
    return [o for o in operations if o.kind in LOADS and o.phase is Phase.BODY]


def sums_of_loop(plan: Plan) -> list[Operation]:
    """Stores of the main loop that add to what is in global memory."""
    return [o for o in plan.kernel.operations if adds(o) and o.phase is Phase.BODY]
