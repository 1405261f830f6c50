"""A kernel's PTX becomes a program, and the program is proven.

`docs/lift.md` has what is assumed and what a proof covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Instruction, Kernel
from schedgen.lift.breaks import least
from schedgen.lift.build import Builder, Made, setup_of
from schedgen.lift.cells import Cells, every
from schedgen.lift.closing import Open, completed, left_open
from schedgen.lift.cutoff import MOST, Limits, Looker
from schedgen.lift.items import Item, Role, Word
from schedgen.lift.numbering import Numbering, numbered, ring_text
from schedgen.lift.roles import Threads, threads_of
from schedgen.lift.rolling import Sign, Steps, agrees, in_front, rolled
from schedgen.lift.running import ENOUGH, TILES, Race, Run, for_certain, race, run
from schedgen.lift.simulate import Wrong
from schedgen.lift.turns import Turn, circles, turned, unturned
from schedgen.program.model import AwaitKernel, Program, SetUp

MANY = 1000
"""Executions that are worth their time."""
_CONDITIONS = 3
"""Conditions on parameters that are looked at both ways."""


@dataclass(frozen=True)
class Lifted:
    """A program, and what it was made of.

    Attributes:
        limits: trip counts up to ``limits.trips`` were compared with the steps.
        assumed: conditions on parameters with what they were taken to be, as texts.
        compared: tiles of any role that were compared.
        once: whether a block has one tile, behind which only the program goes on.
        breaks: where data has loops divide the trip count.
        turns: that roles hand to each other; ``made`` has them as the kernel does.
        race: accesses that nothing orders in an execution, looked for where there are turns.
    """

    made: Made
    numbering: Numbering
    steps: Mapping[str, Steps]
    limits: Limits
    assumed: tuple[str, ...]
    compared: int
    trip: str
    once: bool
    turns: tuple[Turn, ...] = ()
    breaks: tuple[str, ...] = ()
    race: Race | None = None

    @property
    def program(self) -> Program:
        """With turns in every iteration."""
        return turned(self.made.program, self.turns) if self.turns else self.made.program

    @property
    def without_turns(self) -> Program | None:
        """Where roles hand turns to each other: the program without them, which is to be right."""
        return unturned(self.made.program, self.turns) if self.turns else None


@dataclass
class Lifting:
    """Lifts one kernel: one program for each way that its conditions on parameters may turn out."""

    kernel: Kernel
    arch: str
    found: list[Lifted] = field(default_factory=list[Lifted])
    _cells: Cells | None = None

    def programs(self) -> list[Lifted]:
        """All programs.

        Raises:
            Refusal: it cannot be lifted. Hang, Miscount, Race: it is wrong for some trip count.
        """
        threads = threads_of(self.kernel)
        try:
            return self._programs(threads)
        except Wrong as error:
            if threads.breaks and not for_certain(threads, error, self._cells):
                text = "it goes wrong if data ever divides its loops in some way"
                raise Refusal(text, error.at) from error
            raise

    def _programs(self, threads: Threads) -> list[Lifted]:
        first = run(threads, (ENOUGH,) * TILES)
        asked = list(threads.assumed)
        if len(asked) > _CONDITIONS:
            raise Refusal(f"{len(asked)} conditions on parameters decide what happens")
        del first
        for values in product((0, 1), repeat=len(asked)):
            threads.assumed.update(zip(asked, values, strict=True))
            self.found.append(self._program(threads))
        return self.found

    def _program(self, threads: Threads) -> Lifted:
        more = run(threads, (ENOUGH + 1,) * TILES)
        self._cells = more.cells
        fewer = run(threads, (ENOUGH,) * TILES, more.cells)
        try:
            made = self._made(threads, fewer, more)
        except Refusal:
            # Where no program describes it, an execution may show that it is wrong.
            found = race(threads, more.cells)
            if found is not None:
                raise found from None
            raise
        found = race(threads, more.cells) if made.turns else None
        if found is not None and threads.breaks and not for_certain(threads, found, more.cells):
            found = None
        return replace(made, race=found)

    def _made(self, threads: Threads, fewer: Run, more: Run) -> Lifted:
        tiled = more.traces.tiled
        numbering = numbered(
            fewer.roles, fewer.counts, fewer.cells, ENOUGH, more.roles, tiled=tiled
        )
        tile = _rolled_tile(more)
        steps: dict[str, Steps] = {}
        for role, other in zip(more.roles, fewer.roles, strict=True):
            signs = _signs(numbering, fewer, other, tile), _signs(numbering, more, role, tile)
            made = rolled(*signs, ENOUGH + 1)
            if made is None:
                text = f"{role.name} does not repeat with its iterations in one loop"
                raise Refusal(text, _first(role))
            steps[role.name] = made
        steps = in_front(steps)
        opened = None if tiled else left_open(numbering, more.counts, more.simulation, ENOUGH + 1)
        slots = [place.slots for place in (*numbering.words.values(), *numbering.cells.values())]
        looker = Looker(threads.trip, slots, threads.breaks)
        limits = looker.limits(threads.skeletons.values())
        compared = self._compared(threads, limits, numbering, steps, opened, more.counts)
        turns = () if tiled else self._turns(self._built(more, numbering, steps), more, numbering)
        given = {turn.barrier for turn in turns}
        left = {
            p: n for p, n in (opened or {}).items() if ring_text(p.ring, numbering) not in given
        }
        built = self._built(more, numbering, completed(steps, left, numbering))
        assumed = tuple(f"{term}: {value}" for term, value in threads.assumed.items())
        trip = " + ".join(map(str, threads.trip))
        places = tuple(map(str, threads.breaks))
        return Lifted(
            built, numbering, steps, limits, assumed, compared, trip, not tiled, turns, places
        )

    def _built(self, found: Run, numbering: Numbering, steps: Mapping[str, Steps]) -> Made:
        builder = Builder(self.kernel.name, self.arch, numbering, found.counts, self._setup(found))
        builder.skipped, builder.once = found.skipped, not found.traces.tiled
        tile = _rolled_tile(found)
        each = [steps[role.name] for role in found.roles]
        return builder.build(found.roles, each, [role.tiles[tile] for role in found.roles])

    @staticmethod
    def _turns(made: Made, found: Run, numbering: Numbering) -> tuple[Turn, ...]:
        rings = {numbering.ring_of(word) for word in numbering.words if word[0] == "bar"}
        beside = {role.name: role.beside for role in found.roles if role.beside}
        return circles(made.program, {ring_text(ring, numbering) for ring in rings}, beside)

    def _setup(self, found: Run) -> list[SetUp]:
        """Before the roles. A kernel that does not say so is launched behind the one before it."""
        setup = setup_of([event.kind for event in found.traces.setup(0)])
        if not any(one.opcode == "griddepcontrol" for one in self.kernel.body):
            setup.append(AwaitKernel())
        return setup

    def _compared(
        self,
        threads: Threads,
        limits: Limits,
        numbering: Numbering,
        steps: Mapping[str, Steps],
        opened: Open | None,
        counts: Mapping[Word, int],
    ) -> int:
        if limits.trips > MOST:
            text = (
                f"trip counts up to {limits.trips} would have to be looked at, {MOST} at most are"
            )
            raise Refusal(text)
        if threads.breaks and opened is None:
            raise Refusal("data divides the loops of each of several tiles")
        lowest = [least(term) for term in threads.breaks]
        if any(True for _ in islice(divided(limits, lowest, tiled=opened is None), MANY, None)):
            raise Refusal(f"more than {MANY} executions would have to be looked at")
        tiles = 0
        for trips, at in divided(limits, lowest, tiled=opened is None):
            found = run(threads, trips, numbering.shared, at)
            _check(found, numbering, steps)
            if opened is not None and opened != left_open(
                numbering, counts, found.simulation, trips[0]
            ):
                raise Refusal(f"a tile of {trips[0]} iterations leaves other phases open")
            tiles += len(trips)
        return tiles


def plan(limits: Limits, *, tiled: bool) -> Iterator[tuple[int, ...]]:
    """Trip counts of the tiles of each execution that is compared: every number up to the limit,
    for the first tiles; small ones, which never fill a pipeline, from every slot and phase on.
    """
    for trips in range(1, limits.trips + 1):
        yield (trips,) * (TILES if tiled else 1)
    if tiled:
        yield from ((trips,) * (limits.modulus + 1) for trips in range(1, limits.constant + 2))


def divided(
    limits: Limits, lowest: Sequence[int | None], *, tiled: bool
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The same, each with all places where loops may divide its tiles: from ``lowest`` on, or from
    far in front of a tile where that is None, to far behind it.
    """
    for trips in plan(limits, tiled=tiled):
        places = (
            range(-limits.beyond if low is None else low, trips[0] + limits.beyond + 1)
            for low in lowest
        )
        yield from ((trips, at) for at in product(*places))


def _rolled_tile(found: Run) -> int:
    """Which tile steps are made of: the second, where there is one."""
    return min(1, len(found.roles[0].tiles) - 1)


def _signs(numbering: Numbering, found: Run, role: Role, tile: int) -> list[Sign]:
    before = found.before(tile)
    return [numbering.sign(item, before, tile) for item in role.tiles[tile]]


def _check(found: Run, numbering: Numbering, steps: Mapping[str, Steps]) -> None:
    for role in found.roles:
        for tile, trips in enumerate(found.trips[: len(role.tiles)]):
            signs = _signs(numbering, found, role, tile)
            where = agrees(steps[role.name], signs, trips)
            if where is not None:
                items = role.tiles[tile]
                at = items[min(where, len(items) - 1)].instruction if items else None
                text = f"{role.name} does something else in a tile of {trips} iterations"
                raise Refusal(text, at)


def _first(role: Role) -> Instruction | None:
    return next((item.instruction for item in every(role)), None)


__all__ = ["Item", "Lifted", "Lifting", "Race", "Run", "plan", "run"]
