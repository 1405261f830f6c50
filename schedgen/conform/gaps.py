"""Accesses by threads beside the operations that do arithmetic."""

from __future__ import annotations

from schedgen.conform.actions import ACCESSES
from schedgen.conform.expected import Expected
from schedgen.conform.places import WORD, inside
from schedgen.conform.runs import COLUMN_BITS
from schedgen.conform.taking import CLOSE, SOFT, WAITS, Taker
from schedgen.conform.trace import Event
from schedgen.conform.values import SHARED_ALIGNMENT, Value
from schedgen.kernel import Space
from schedgen.program.model import Fence, FenceKind, Run

_TRACKED = {
    WAITS[FenceKind.TMEM_LOADED]: ("tmem read",),
    WAITS[FenceKind.TMEM_STORED]: ("tmem write",),
}
"""What these wait for."""


class Gaps(Taker):
    """What comes between two events that are compared one by one."""

    def gap(self, wanted: list[Expected], behind: str, *, frame: bool = False) -> None:
        """Accesses up to the next other event belong to operations of threads, in their order."""
        used: set[tuple[int, int]] = set()
        found: list[tuple[Event, int]] = []
        """Accesses with the number of their operation, and waits for tensor memory, with -1."""
        place = 0
        while self.at < len(self.events):
            event = self.events[self.at]
            if frame and event.action.kind not in ACCESSES:
                break
            if event.action.kind in CLOSE:
                self.skip_closed()
                continue
            if event.action.kind not in SOFT:
                break
            if event.action.kind in ACCESSES:
                place = self._access(event, wanted, place, used, behind)
                found.append((event, place))
            else:
                found.append((event, -1))
            self.at += 1
        self._covered(wanted, used)
        for kind in WAITS.values():
            self._waited(kind, wanted, found)

    def _waited(self, kind: str, wanted: list[Expected], found: list[tuple[Event, int]]) -> None:
        """Waits for loads from, or stores to, tensor memory: where the program has them, behind
        all that operations before them do, and within operations behind each piece or behind none.
        """
        places = [
            number
            for number, one in enumerate(wanted)
            if isinstance(one.step.action, Fence) and WAITS[one.step.action.kind] == kind
        ]
        own = self._own_waits(kind, found)
        for number in places:
            before = [at for at, (_, run) in enumerate(found) if 0 <= run < number]
            behind = [at for at, (_, run) in enumerate(found) if run > number]
            begin, end = max(before, default=-1), min(behind, default=len(found))
            here = sum(event.action.kind == kind for event, _ in found[begin + 1 : end])
            same = sum(
                not any(min(p, number) < found[at][1] < max(p, number) for at in before + behind)
                for p in places
            )
            inner = bool(before) and own.get(found[begin][1], False)
            inner = inner and found[begin][0].action.kind in _TRACKED[kind]
            if here < same + inner:
                event = found[begin + 1][0] if begin + 1 < len(found) else None
                event = event or (self.events[self.at] if self.at < len(self.events) else None)
                self.differ(f"'{kind}' is missing", wanted[number].text, event)

    def _own_waits(self, kind: str, found: list[tuple[Event, int]]) -> dict[int, bool]:
        """Which operations wait themselves behind each access of a kind but the last."""
        own: dict[int, bool] = {}
        for at, (event, run) in enumerate(found):
            if event.action.kind not in _TRACKED[kind]:
                continue
            later = next((n for n in range(at + 1, len(found)) if found[n][1] >= 0), None)
            if later is None or found[later][1] != run:
                continue
            waits = any(e.action.kind == kind for e, _ in found[at + 1 : later])
            overwrites = kind == WAITS[FenceKind.TMEM_LOADED] and (
                found[later][0].action.kind == "tmem write"
            )
            if overwrites and not waits:
                what = f"no '{kind}' between it and the load before"
                self.differ(what, "an operation of threads", found[later][0])
            if own.setdefault(run, waits) is not waits:
                what = f"no '{kind}' behind it, although other pieces have one"
                self.differ(what, "an operation of threads", event)
        return own

    def _access(
        self,
        event: Event,
        wanted: list[Expected],
        place: int,
        used: set[tuple[int, int]],
        behind: str,
    ) -> int:
        """The operation that an access belongs to, by where it is."""
        value = self.known(event, event.action.address, behind)
        write = event.action.kind.endswith("write")
        tensor = event.action.kind.startswith("tmem")
        if not tensor and not write and self._system(value):
            return place
        for number in range(place, len(wanted)):
            one = wanted[number]
            action = one.step.action
            if isinstance(action, Fence):
                continue
            assert isinstance(action, Run)
            for index, candidate in enumerate(self.places_of(one, action)):
                if candidate.write != write or (candidate.space is Space.TMEM) != tensor:
                    continue
                at = value.array & COLUMN_BITS if tensor else value.array
                if inside(candidate, at):
                    used.add((number, index))
                    self.mapped.append((one.text, event.action.instruction))
                    return number
        names = ", ".join(one.text for one in wanted[place:]) or f"nothing before {behind}"
        return self.differ("it accesses what no operation there does", names, event)

    def _system(self, value: Value) -> bool:
        """The word with the address of tensor memory."""
        word = WORD * (self.places.plan.words + 1)
        return value.shared == SHARED_ALIGNMENT and bool((value.array == word).all())

    def _covered(self, wanted: list[Expected], used: set[tuple[int, int]]) -> None:
        for number, one in enumerate(wanted):
            action = one.step.action
            if not isinstance(action, Run):
                continue
            places = self.places_of(one, action)
            hit = {(places[i].store, places[i].write) for n, i in used if n == number}
            for place in places:
                if place.needed and (place.store, place.write) not in hit:
                    event = self.events[self.at] if self.at < len(self.events) else None
                    what = "writes to" if place.write else "reads from"
                    self.differ(f"no instruction {what} '{place.store}'", one.text, event)
