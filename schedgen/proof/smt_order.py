"""What must happen before what: role order, in-order engines, barriers and wait_groups in a
window.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from schedgen.program.model import Commit, Program, RoleProgram, Run, Step, Wait, WaitGroup
from schedgen.program.operations import Engine
from schedgen.proof.smt_barriers import order_barrier, producers, waits
from schedgen.proof.smt_window import Event, Instant, Window, both, condition

IN_ORDER = (Engine.TENSOR, Engine.WGMMA, Engine.COPY_OUT)


@dataclass(frozen=True, slots=True)
class Item:
    """An event of one iteration in the order ``key`` = (shift, position, part) of its tile."""

    key: tuple[int, int, int]
    kind: str
    step: int
    guard: str


def add_order(window: Window) -> None:
    """All edges that hold in ``window``."""
    for role in window.program.roles:
        _Chain(window, role, "role", _role_items(role)).add()
        for engine in IN_ORDER:
            items = _queue_items(window.program, role, engine)
            if items:
                _Chain(window, role, engine.value, items).add()
        _steps(window, role)
    for barrier in window.program.barriers:
        makers = producers(window.program, barrier.name)
        for wait in waits(window.program, barrier.name):
            for maker in makers:
                order_barrier(window, maker, wait)


def _role_items(role: RoleProgram) -> list[Item]:
    items: list[Item] = []
    for number, step in enumerate(role.steps):
        kinds = ("poll", "at") if isinstance(step.action, Wait) else ("at",)
        for part, kind in enumerate(kinds):
            items.append(Item((step.shift, number, part), kind, number, step.guard.kind))
    return items


def _queue_items(program: Program, role: RoleProgram, engine: Engine) -> list[Item]:
    """Completions in order. A commit arrives some time after its mark."""
    items: list[Item] = []
    for number, step in enumerate(role.steps):
        key, action = (step.shift, number, 0), step.action
        if isinstance(action, Run) and program.operation[action.operation].engine is engine:
            items.append(Item(key, "done", number, step.guard.kind))
        elif isinstance(action, Commit) and engine is Engine.TENSOR:
            items.append(Item(key, "mark", number, step.guard.kind))
    return items


class _Chain:
    """Events of one role that happen in the order of its steps.

    Steps whose guard does not hold have a time too: it changes nothing about the others.
    """

    def __init__(self, window: Window, role: RoleProgram, name: str, items: list[Item]) -> None:
        self.window, self.role, self.name = window, role, name
        first, last = len(role.before), len(role.before) + len(role.loop)
        self.before = [item for item in items if item.step < first]
        self.loop = sorted(
            (item for item in items if first <= item.step < last), key=lambda item: item.key
        )
        self.after = [item for item in items if item.step >= last]

    def _event(self, item: Item, kind: str, number: int) -> Event:
        return Event(item.kind, self.role.name, item.step, Instant(kind, number))

    def _gate(self, kind: str, tile: int) -> Event:
        return Event(kind, f"{self.role.name} {self.name}", -1, Instant("tile", tile))

    def add(self) -> None:
        line: list[Event] = []
        for tile in range(self.window.tiles):
            line += [self._event(item, "tile", tile) for item in self.before]
            line += [self._gate("in", tile), self._gate("out", tile)]
            line += [self._event(item, "tile", tile) for item in self.after]
        for earlier, later in pairwise(line):
            self.window.edge(earlier, later, 1)
        if self.loop:
            self._cells()
            for tile in range(self.window.tiles):
                self._gates(tile)
                self._ends(tile)

    def _gates(self, tile: int) -> None:
        window = self.window
        for cell in range(window.cells):
            first = self._event(self.loop[0], "cell", cell)
            last = self._event(self.loop[-1], "cell", cell)
            window.edge(self._gate("in", tile), first, 1, window.starts(tile, cell))
            window.edge(last, self._gate("out", tile), 1, window.ends(tile, cell))

    def _cells(self) -> None:
        """Within one cell, from a cell to later ones, and against the count of iterations where the
        pipeline takes a later iteration first: that ends where a tile ends.
        """
        window, loop = self.window, self.loop
        for cell in range(window.cells):
            for one, other in pairwise(loop):
                window.edge(self._event(one, "cell", cell), self._event(other, "cell", cell), 1)
            for item in loop:
                self._neighbours(item, cell)
            if cell:
                last = self._event(loop[-1], "cell", cell - 1)
                first = self._event(loop[0], "cell", cell)
                window.edge(last, first, 1, condition(window.cut[cell]))

    def _neighbours(self, item: Item, cell: int) -> None:
        window, mine = self.window, self._event(item, "cell", cell)
        for distance in range(1, window.cells - cell):
            there = cell + distance
            if not window.counted(cell, there):
                return
            moved = (item.key[0] - distance, *item.key[1:])
            later = next((other for other in self.loop if other.key > moved), None)
            if later is not None:
                window.edge(mine, self._event(later, "cell", there), 1)
            sooner = next((other for other in reversed(self.loop) if other.key < moved), None)
            if sooner is not None:
                clear = window.uncut(cell, there)
                window.edge(self._event(sooner, "cell", there), mine, 1, clear)
            if later is self.loop[0]:
                return

    def _ends(self, tile: int) -> None:
        """The first and last iteration of a tile, whether its cells are in the window or not."""
        window = self.window
        firsts = [item for item in self.loop if window.jump or item.guard == "first"]
        lasts = [item for item in self.loop if window.jump or item.guard == "last"]
        for kind, items in (("first", firsts), ("last", lasts)):
            line = [self._event(item, kind, tile) for item in items]
            if line:
                for one, other in pairwise([self._gate("in", tile), *line]):
                    window.edge(one, other, 1)
                window.edge(line[-1], self._gate("out", tile), 1)
        empty = condition(window.empty[tile])
        for item in firsts:
            mine = self._event(item, "first", tile)
            later = next((other for other in lasts if other.key >= item.key), None)
            if later is not None:
                gap = 0 if later.key == item.key else 1
                window.edge(mine, self._event(later, "last", tile), gap)
            # An empty tile does both in iteration 0.
            done = [other for other in lasts if other.key < item.key and other.guard == "last"]
            if done and item.guard == "first":
                window.edge(self._event(done[-1], "last", tile), mine, 1, empty)


def _steps(window: Window, role: RoleProgram) -> None:
    """What a step has to do with its own completion, with other instants, and with wait_groups."""
    for number, step in enumerate(role.steps):
        kinds = _kinds(window.program, step)
        for instant in window.instants(role, number):
            mine = {kind: Event(kind, role.name, number, instant) for kind in kinds}
            if "done" in kinds:
                window.edge(mine["at"], mine["done"], 1)
            if "mark" in kinds:
                window.edge(mine["mark"], mine["done"], 0)
            if instant.kind in ("first", "last"):
                for kind in kinds:
                    _same(window, mine[kind])
            if isinstance(step.action, WaitGroup):
                _wait_group(window, role, number, instant)


def _kinds(program: Program, step: Step) -> tuple[str, ...]:
    match step.action:
        case Run(operation) if program.operation[operation].engine.asynchronous:
            return ("at", "done")
        case Commit():
            return ("at", "mark", "done")
        case Wait():
            return ("poll", "at")
        case _:
            return ("at",)


def _same(window: Window, event: Event) -> None:
    """An event of the first or last iteration of a tile is also one of a cell."""
    kind, tile = event.instant
    for cell in range(window.cells):
        when = window.starts(tile, cell) if kind == "first" else window.ends(tile, cell)
        if when is not None:
            window.same.append((event, event._replace(instant=Instant("cell", cell)), when))


def _wait_group(window: Window, role: RoleProgram, number: int, instant: Instant) -> None:
    """A wait_group knows nothing about iterations of an earlier tile."""
    wait_group = role.steps[number].action
    assert isinstance(wait_group, WaitGroup)
    mine, loop = Event("at", role.name, number, instant), len(role.before) + len(role.loop)
    for target, step in enumerate(role.steps):
        if not isinstance(step.action, Run) or step.action.operation != wait_group.operation:
            continue
        done = Event("done", role.name, target, instant)
        looped = len(role.before) <= target < loop
        inside = looped and instant.kind != "tile"
        if inside and (step.shift - wait_group.lag, target) > (role.steps[number].shift, number):
            continue  # not issued yet, and so nothing to wait for
        if instant.kind == "cell" and looped:
            cell = instant.number - wait_group.lag
            if cell >= 0 and window.counted(cell, instant.number):
                there = done._replace(instant=Instant("cell", cell))
                runs = window.runs(role.steps[number], instant.number, surely=True)
                window.edge(there, mine, 1, window.uncut(cell, instant.number), runs)
        elif instant.kind == "tile" and number >= loop and looped:
            _wait_group_loop(window, done, mine, wait_group.lag)
        elif (
            not wait_group.lag
            and looped == (instant.kind != "tile")
            and (looped or target < number)
        ):
            window.edge(
                done, mine, 1, window.runs_in_tile(role.steps[number], instant, surely=True)
            )


def _wait_group_loop(window: Window, done: Event, mine: Event, lag: int) -> None:
    """A wait_group after the loop counts back from the last iteration."""
    tile = mine.instant.number
    for cell in range(lag, window.cells):
        when = both(window.ends(tile, cell), window.inside(tile, cell - lag))
        window.edge(done._replace(instant=Instant("cell", cell - lag)), mine, 1, when)
    if window.jump and not lag:
        full = condition(window.no(window.empty[tile]))
        window.edge(done._replace(instant=Instant("last", tile)), mine, 1, full)
