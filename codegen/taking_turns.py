"""How a role adds to a tensor after the output tile before (`schedgen.program.taking_turns`)."""

from __future__ import annotations

from schedgen.codegen.formulas import whole
from schedgen.codegen.ir import Code, Name, called, code
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.tile_trips import every_trip, numbers_of_tile
from schedgen.codegen.tiles import Tiles
from schedgen.codegen.transfers import atom
from schedgen.extents import uneven
from schedgen.ordered import OrderedSum, ordered_sums
from schedgen.program.model import RoleProgram, Run
from schedgen.program.taking_turns import awaits, is_turn, tensor_of

_BEFORE, _FIRST, _END = Name("before"), Name("before_first"), Name("before_end")
"""The tile before along the extent, and which iterations it has."""
_PLACE, _NUMBER = Name("turns_at"), Name("turn_number")
"""Where the turns of a tile are, and how many tiles come before it."""


class Turns:
    """Those of a kernel."""

    def __init__(self, plan: Plan, tiles: Tiles) -> None:
        self.plan, self.tiles = plan, tiles
        self.sums = {one.tensor: one for one in ordered_sums(plan.kernel)}

    def tensors(self) -> dict[str, str]:
        """Parameters of the kernel with the words, and their arguments."""
        return {f"of_{one.turns}": one.turns for one in self.sums.values()}

    def refuse(self, source: Source, host: dict[str, str]) -> None:
        """No tiles where there are not enough words."""
        for one in self.sums.values():
            (extent,) = next(a for a in self.plan.kernel.arguments if a.name == one.turns).shape
            count = code("{}", self.tiles.all_trips)
            for axis in one.places:
                count = code("{} * {}", count, self.tiles.count(axis))
            count = count.renamed(host)
            with source.block(code(f"if {host[extent]} < {{}}:", count)):
                text = f"{self.plan.kernel.name}: {one.turns} has {{}} words, and there are {{}} "
                text += "turns; not launched"
                given = [f'"{text}"', host[extent], count]
                source.call("cute.printf", given)
                source.add("tiles = Int32(0)")

    def begin(self, source: Source, role: RoleProgram) -> None:
        """What a role that takes turns finds out for each of its tiles."""
        ran = {s.action.operation for s in role.loop if isinstance(s.action, Run)}
        for one in dict.fromkeys(self.sums[tensor_of(name)] for name in ran if is_turn(name)):
            place = code("Int32(0)")
            for number, axis in enumerate(one.places):
                at = code("{}", Name(f"at_{axis}"))
                times = code("({}) * {} + {}", place, self.tiles.count(axis), at)
                place = times if number else at
            source.add(code("{} = ({}) * {}", _PLACE, place, self.tiles.all_trips))
            source.add(code("{} = {}", _NUMBER, self._number(one)))
            if uneven(self.plan.kernel):
                self._before(source, one)

    def take(self, source: Source, operation: str, at: Iteration | None) -> None:
        """An operation of a turn in an iteration."""
        assert at is not None
        one = self.sums[tensor_of(operation)]
        words = Name(f"of_{one.turns}")
        iteration = code("{}", at)
        if self.plan.kernel.tile_first is not None:
            iteration = code("{} + {}", Name("skipped"), iteration)
        where = code("{} + {}", _PLACE, iteration)
        if not awaits(operation):
            source.add(called("pass_turn", words, where, code("{} + 1", _NUMBER)))
            return
        number = code("{}", _NUMBER)
        if uneven(self.plan.kernel):
            i = atom(iteration)
            there = code("({} <= {}) & ({} < {})", _FIRST, i, i, _END)
            number = code("cutlass.select_({}, {}, Int32(0))", there, number)
        source.add(called("await_turn", words, where, number))

    def _backwards(self, one: OrderedSum) -> bool:
        """Whether the tile with the largest number along the extent comes first."""
        if self.tiles.dense is not None:
            return self.tiles.dense.turned_around
        return self.tiles.last_first and one.along == self.plan.kernel.tile_extents[0]

    def _number(self, one: OrderedSum) -> Code:
        """How many tiles along the extent come before."""
        at = code("{}", Name(f"at_{one.along}"))
        if not self._backwards(one):
            return at
        return code("{} - 1 - {}", self.tiles.count(one.along), at)

    def _before(self, source: Source, one: OrderedSum) -> None:
        """Which iterations the tile before has; of the first tile nobody asks."""
        kernel = self.plan.kernel
        sign = "+" if self._backwards(one) else "-"
        source.add(code(f"{{}} = {{}} {sign} 1", _BEFORE, Name(f"at_{one.along}")))
        names = {
            name: _BEFORE.text if at == f"at_{one.along}" else at
            for name, at in numbers_of_tile(kernel).items()
        }
        end = every_trip(kernel)
        if kernel.tile_trips is not None:
            trips = whole(kernel.tile_trips, names, extremes=True)
            end = code("cutlass.min({}, cutlass.max(Int32({}), Int32(1)))", end, trips)
        source.add(code("{} = {}", _END, end))
        first = code("Int32(0)")
        if kernel.tile_first is not None:
            skipped = whole(kernel.tile_first, names, extremes=True)
            first = code("cutlass.max(cutlass.min({} - 1, {}), Int32(0))", _END, skipped)
        source.add(code("{} = {}", _FIRST, first))
