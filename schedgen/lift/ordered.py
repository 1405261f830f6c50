"""Whether accesses of one execution are ordered: a counterexample where no program can be made.

What a role knows to have happened grows along its items and with each phase that it waits for. Two
accesses to the same bytes, one of which writes, that come one after the other here, are a race if
the second role does not know of the first by then: with other latencies they change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schedgen.lift.cells import Cells, every
from schedgen.lift.items import Item, Role, Touch


@dataclass(frozen=True, slots=True)
class Unordered:
    """Two accesses that nothing orders."""

    first: tuple[Role, Item]
    second: tuple[Role, Item]


@dataclass(slots=True)
class _Knows:
    """How far each role is known to have come, with its products; which copies are complete."""

    steps: dict[int, int] = field(default_factory=dict[int, int])
    products: dict[int, int] = field(default_factory=dict[int, int])
    copies: set[int] = field(default_factory=set[int])

    def learn(self, other: _Knows) -> None:
        for mine, theirs in ((self.steps, other.steps), (self.products, other.products)):
            for role, at in theirs.items():
                mine[role] = max(at, mine.get(role, -1))
        self.copies |= other.copies


def unordered(
    roles: Sequence[Role], order: Sequence[tuple[Role, Item]], cells: Cells
) -> Unordered | None:
    """The first race; ``order``: items as a simulation came to them, with their phases."""
    knows = {role.number: _Knows() for role in roles}
    phases: dict[tuple[object, int], _Knows] = {}
    place = {id(item): at for role in roles for at, item in enumerate(every(role))}
    touched: dict[int, list[tuple[Role, Item, Touch]]] = {}
    for role, item in order:
        mine, at = knows[role.number], place[id(item)]
        mine.steps[role.number] = at
        if item.kind == "wait" and item.number is not None:
            mine.learn(phases.setdefault((item.word, item.number), _Knows()))
        elif item.kind == "arrive" and item.number is not None:
            phases.setdefault((item.word, item.number), _Knows()).learn(mine)
        elif item.kind == "copy" and item.number is not None:
            phase = phases.setdefault((item.word, item.number), _Knows())
            phase.copies.add(id(item))
        elif item.kind == "group" and item.target is not None:
            mine.products[role.number] = max(
                place[id(item.target)], mine.products.get(role.number, -1)
            )
        for touch in item.touches:
            before = touched.setdefault(cells.of(touch, item), [])
            for other, earlier, its in before:
                if not _conflict(touch, its) or _known(mine, (role, item), (other, earlier), place):
                    continue
                return Unordered((other, earlier), (role, item))
            before.append((role, item, touch))
    return None


def _conflict(one: Touch, other: Touch) -> bool:
    if not one.write and not other.write:
        return False
    if not one.owners or not other.owners:
        return True
    return not {granule for granule, _ in one.owners}.isdisjoint(g for g, _ in other.owners)


def _known(
    knows: _Knows, now: tuple[Role, Item], then: tuple[Role, Item], place: dict[int, int]
) -> bool:
    (role, item), (other, earlier) = now, then
    if item is earlier:
        return True
    match earlier.kind:
        case "copy":
            return id(earlier) in knows.copies
        case "products":
            queue = role is other and item.kind == "products"
            return queue or knows.products.get(other.number, -1) >= place[id(earlier)]
        case _:
            return role is other or knows.steps.get(other.number, -1) >= place[id(earlier)]
