"""Events of a role beside the steps of its program, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from schedgen.conform.actions import ACCESSES
from schedgen.conform.cases import Case
from schedgen.conform.evaluate import SHARED_ALIGNMENT, Array, Value
from schedgen.conform.expected import Expected, Frame, Who
from schedgen.conform.places import Place, Places, inside, offset_in, partition
from schedgen.conform.refusal import Refusal
from schedgen.conform.terms import Term
from schedgen.conform.trace import Event
from schedgen.emulator.ptx.tree import Instruction
from schedgen.kernel import Space
from schedgen.program.model import (
    Arrive,
    Commit,
    Drain,
    Engine,
    Fence,
    FenceKind,
    RoleProgram,
    Run,
    Wait,
)

_FENCES = {
    FenceKind.ASYNC_PROXY: "fence.proxy.async",
    FenceKind.REGISTERS: "wgmma.fence",
    FenceKind.TMEM_BEFORE: "tcgen05.fence::before_thread_sync",
    FenceKind.TMEM_AFTER: "tcgen05.fence::after_thread_sync",
}
_WAITS = {
    FenceKind.TMEM_LOADED: "tcgen05.wait::ld",
    FenceKind.TMEM_STORED: "tcgen05.wait::st",
}
_TRACKED = {
    _WAITS[FenceKind.TMEM_LOADED]: ("tmem read",),
    _WAITS[FenceKind.TMEM_STORED]: ("tmem write",),
}
"""What these wait for."""
_SOFT = ACCESSES | set(_WAITS.values())
"""Events that belong to the operations of threads between two other events."""
_CLOSE = {"close products": "drain products", "close copies": "drain copies read"}
_DESCRIPTOR_UNIT, _DESCRIPTOR_BITS = 16, 0x3FFF
_COLUMN_BITS = 0xFFFF


class Mismatch(Refusal):
    """Kernel and program differ: ``step`` says where in the program, the instruction where in the
    kernel."""

    def __init__(self, message: str, step: str, instruction: Instruction | None) -> None:
        super().__init__(message, instruction)
        self.step = step


@dataclass
class _Groups:
    """Groups of asynchronous operations of one engine that were committed, and the open one."""

    closed: list[set[tuple[str, int]]] = field(default_factory=list[set[tuple[str, int]]])
    open: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def close(self) -> None:
        self.closed.append(self.open)
        self.open = set()


class Comparison:
    """One tile of a role, or what stands around its tiles, in one case."""

    def __init__(
        self, places: Places, role: RoleProgram | None, case: Case | None, events: Sequence[Event],
        first: int,
    ) -> None:  # fmt: skip
        self.places, self.role, self.case = places, role, case
        self.events, self.at, self.first = events, 0, first
        self.groups = {kind: _Groups() for kind in _CLOSE}
        self.announced: list[tuple[str, Term, bool]] = []
        self.last: dict[str, int] = {}
        self.mapped: list[tuple[str, Instruction]] = []

    def compare(self, wanted: Sequence[Expected | Frame]) -> None:
        """Raises Mismatch at the first difference."""
        gap: list[Expected] = []
        for one in wanted:
            if isinstance(one, Expected) and self._soft(one):
                gap.append(one)
                continue
            self._gap(gap, one.text, frame=isinstance(one, Frame) and one.kind in _SOFT)
            gap = []
            if isinstance(one, Frame):
                self._frame(one)
            else:
                self._step(one)
        self._gap(gap, "the end")
        self._skip_closed()
        if self.at < len(self.events):
            event = self.events[self.at]
            self._differ(f"'{event.action.instruction.name}' belongs to no step", "the end", event)
        if any(groups.open for groups in self.groups.values()):
            raise Mismatch("operations are not committed to a group", "the end", None)

    def _soft(self, one: Expected) -> bool:
        action = one.step.action
        if isinstance(action, Fence):
            return action.kind in _WAITS
        return isinstance(action, Run) and self._engine(action.operation) is Engine.THREADS

    def _engine(self, operation: str) -> Engine:
        return self.places.program.operation[operation].engine

    def _differ(self, message: str, step: str, event: Event | None) -> None:
        where = ""
        if self.case is not None:
            turn = event.turn if event is not None else None
            where = f" ({', '.join(filter(None, (turn.text if turn else '', self.case.text)))})"
        raise Mismatch(message + where, step, event.action.instruction if event else None)

    # -- taking events -------------------------------------------------------------------------

    def _skip_closed(self) -> None:
        while self.at < len(self.events) and self.events[self.at].action.kind in _CLOSE:
            event = self.events[self.at]
            self._who(event, "all", "a group of operations")
            self.groups[event.action.kind].close()
            self.at += 1

    def _take(self, kind: str, step: str) -> Event:
        """The next event, which has to be of a kind."""
        self._skip_closed()
        if self.at == len(self.events):
            self._differ(f"no instruction is left for it (wanted: {kind})", step, None)
        event = self.events[self.at]
        if event.action.kind != kind:
            self._differ(f"'{event.action.instruction.name}' stands in its place", step, event)
        self.at += 1
        self.mapped.append((step, event.action.instruction))
        return event

    def _who(self, event: Event, who: Who, step: str, *, when: bool = False) -> None:
        """Whether the right threads do it, and on no condition but one that may be there."""
        if event.conditions and not when:
            self._differ("it hangs on a condition", step, event)
        if who == "one" and not event.elected:
            self._differ("all threads do it, not one", step, event)
        if who == "all" and event.elected:
            self._differ("one thread does it, not all", step, event)

    # -- what stands around --------------------------------------------------------------------

    def _frame(self, one: Frame) -> None:
        event = self._take(one.kind, one.text)
        if one.warp is None:
            self._who(event, one.who, one.text)
        else:
            self._who(event, one.who, one.text, when=True)
            self._warp(event, one)
        if one.address is not None:
            self._address(event, event.action.address, np.array(one.address), one.text)
        values = event.action.values[-len(one.values) :] if one.values else ()
        for term, wanted in zip(values, one.values, strict=True):
            self._value(event, term, np.array(wanted), one.text)

    def _warp(self, event: Event, one: Frame) -> None:
        """Whether exactly the threads of one warp come there."""
        mine = np.ones((1, 1, 1, 1), bool)
        for condition, holds in event.conditions:
            value = event.env.value(condition)
            if value is None or not value.plain:
                self._differ("which threads do it is not known", one.text, event)
                return
            mine = mine & ((value.array != 0) == holds)
        threads = 32 * (self.role.warps if self.role else 4)
        warps = self.first + np.arange(threads) // 32
        if not bool((np.broadcast_to(mine.reshape(-1), (threads,)) == (warps == one.warp)).all()):
            self._differ(f"other threads than those of warp {one.warp} do it", one.text, event)

    # -- values --------------------------------------------------------------------------------

    def _known(self, event: Event, term: Term | None, step: str) -> Value:
        value = None if term is None else event.env.value(term)
        if value is None or value.modulus:
            self._differ("an operand cannot be worked out", step, event)
            raise AssertionError
        return value

    def _address(self, event: Event, term: Term | None, wanted: Array, step: str) -> None:
        value = self._known(event, term, step)
        if value.shared != SHARED_ALIGNMENT or value.tensor:
            self._differ("its address is none of shared memory", step, event)
        if not bool((value.array == wanted).all()):
            text = f"it is at byte {_sample(value.array, wanted)}"
            self._differ(text, step, event)

    def _value(self, event: Event, term: Term, wanted: Array, step: str) -> None:
        value = self._known(event, term, step)
        if not value.plain or not bool((value.array == wanted).all()):
            self._differ(f"its operand is {_sample(value.array, wanted)}", step, event)

    # -- steps ---------------------------------------------------------------------------------

    def _step(self, one: Expected) -> None:
        match one.step.action:
            case Wait() as action:
                self._wait(one, action)
            case Arrive() as action:
                self._arrive(one, action)
            case Commit() as action:
                event = self._take("commit", one.text)
                self._who(event, "one", one.text)
                at, _ = self._barrier(action, one)
                self._address(event, event.action.address, at, one.text)
            case Drain() as action:
                self._drain(one, action)
            case Fence(kind):
                self._who(self._take(_FENCES[kind], one.text), "all", one.text)
            case Run() as action:
                self._run(one, action)

    def _barrier(self, action: Wait | Arrive | Commit, one: Expected) -> tuple[Array, Array]:
        assert self.case is not None
        return self.places.barrier(action.barrier, action.number, self.case, one.iteration)

    def _meets(self, barrier: str) -> bool:
        """Whether the warps of the role meet there: one instruction arrives and waits."""
        return self.places.program.barrier[barrier].kind == "role"

    def _meet(self, one: Expected, action: Wait) -> None:
        assert self.role is not None
        event = self._take("bar.sync", one.text)
        self._who(event, "all", one.text)
        number = self.places.plan.meeting_ids[self.role.name]
        wanted = (number, self.places.program.barrier[action.barrier].arrivals)
        if len(event.action.values) != len(wanted):
            self._differ("it does not say how many threads meet", one.text, event)
        for term, value in zip(event.action.values, wanted, strict=True):
            self._value(event, term, np.array(value), one.text)

    def _wait(self, one: Expected, action: Wait) -> None:
        if self._meets(action.barrier):
            self._meet(one, action)
            return
        event = self._take("wait", one.text)
        self._who(event, "all", one.text)
        at, parity = self._barrier(action, one)
        self._address(event, event.action.address, at, one.text)
        self._value(event, event.action.values[0], parity, one.text)

    def _arrive(self, one: Expected, action: Arrive) -> None:
        if self._meets(action.barrier):
            return  # with the wait right behind it
        event = self._take("expect" if action.bytes else "arrive", one.text)
        assert self.role is not None
        self._who(event, "one" if action.count == 1 else "all", one.text)
        at, _ = self._barrier(action, one)
        self._address(event, event.action.address, at, one.text)
        term = event.action.values[0]
        if not action.bytes:
            each = 1 if action.count == 1 else action.count // (32 * self.role.warps)
            self._value(event, term, np.array(each), one.text)
            return
        if term.op == "select":
            condition, yes, no = term.parts
            plain, holds = _plain(condition)
            if no.number == action.bytes:
                yes, no, holds = no, yes, not holds
            if no.number == 0:
                self.announced.append((action.barrier, plain, holds))
                term = yes
        self._value(event, term, np.array(action.bytes), one.text)

    def _drain(self, one: Expected, action: Drain) -> None:
        kind = "close products" if self._engine(action.operation) is Engine.WGMMA else "close copies"
        event = self._take(_CLOSE[kind], one.text)
        self._who(event, "all", one.text)
        groups = self.groups[kind]
        left = event.action.values[0].number
        if left is None or left < 0:
            self._differ("how many groups it leaves is not known", one.text, event)
            return
        if one.section == "loop":
            target = action.operation, one.index - action.lag
        else:
            target = action.operation, self.last.get(action.operation, 0)
        pending = groups.closed[len(groups.closed) - left :] if left else []
        if groups.open or any(target in group for group in pending):
            self._differ(
                f"it leaves {left} groups, '{action.operation}' among them", one.text, event
            )

    # -- runs ----------------------------------------------------------------------------------

    def _run(self, one: Expected, action: Run) -> None:
        engine = self._engine(action.operation)
        self.last[action.operation] = max(one.index, self.last.get(action.operation, one.index))
        if engine in (Engine.COPY_IN, Engine.COPY_OUT):
            self._copies(one, action, loads=engine is Engine.COPY_IN)
        else:
            self._products(one, action, engine)
        if engine in (Engine.COPY_OUT, Engine.WGMMA):
            kind = "close products" if engine is Engine.WGMMA else "close copies"
            self.groups[kind].open.add((action.operation, one.index))
            if self.at == len(self.events) or self.events[self.at].action.kind != kind:
                event = self.events[self.at] if self.at < len(self.events) else None
                self._differ("its group is not committed behind it", one.text, event)

    def _copies(self, one: Expected, action: Run, *, loads: bool) -> None:
        """Bulk copies of one tile: together they make it up, each in the slot of its number."""
        assert self.case is not None
        kind = "load" if loads else "store"
        places = [p for p in self._places(one, action) if p.write == loads]
        parts = [part for place in places for part in place.parts]
        found: list[int] = []
        while True:
            event = self._take(kind, one.text)
            found.append(self._copied(one, action, event, places))
            if self._complete(parts, found) or not self._another(kind, places):
                break
        if not partition(parts, found):
            self._differ("copies are missing, or there are too many", one.text, event)

    def _complete(self, parts: list[tuple[int, int]], found: list[int]) -> bool:
        """Whether what comes next cannot belong to the same tile, although it lies in it."""
        return len(set(found)) < len(found)

    def _another(self, kind: str, places: list[Place]) -> bool:
        """Whether the next event copies another part of the same tile."""
        if self.at == len(self.events) or self.events[self.at].action.kind != kind:
            return False
        event = self.events[self.at]
        address = event.action.address
        value = None if address is None else event.env.value(address)
        if value is None or value.modulus:
            return False
        return any(self._part(place, value.array) is not None for place in places)

    def _part(self, place: Place, at: Array) -> int | None:
        """Where in a slot a copy begins, if it does so within the parts of a place."""
        offset = offset_in(place, at)
        if offset is None or not any(a <= offset < b for a, b in place.parts):
            return None
        return offset

    def _copied(self, one: Expected, action: Run, event: Event, places: list[Place]) -> int:
        when = self.places.plan.operation(action.operation).when is not None
        loads = action.barrier is not None
        self._who(event, "one" if loads else "any", one.text, when=when)
        if when and not event.conditions:
            self._differ("it does not hang on the condition of its operation", one.text, event)
        if when and loads:
            self._announced(one, action, event)
        value = self._known(event, event.action.address, one.text)
        offsets = [self._part(place, value.array) for place in places]
        offset = next((found for found in offsets if found is not None), None)
        if value.shared != SHARED_ALIGNMENT or offset is None:
            self._differ("it is not in the slot of its number", one.text, event)
            raise AssertionError
        if action.barrier is not None and action.number is not None:
            assert self.case is not None
            at, _ = self.places.barrier(action.barrier, action.number, self.case, one.iteration)
            self._address(event, event.action.values[0], at, one.text)
        return offset

    def _announced(self, one: Expected, action: Run, event: Event) -> None:
        """A load on a condition needs that the same one was asked for its bytes."""
        mine = [entry for entry in self.announced if entry[0] == action.barrier]
        if not mine or event.conditions != (mine[0][1:],):
            self._differ("its bytes are announced on another condition", one.text, event)
        self.announced.remove(mine[0])

    def _places(self, one: Expected, action: Run) -> list[Place]:
        assert self.case is not None
        return self.places.of(action.operation, self.case, one.iteration)

    def _products(self, one: Expected, action: Run, engine: Engine) -> None:
        """All steps of a product along k."""
        operation = self.places.plan.operation(action.operation)
        for number in range(self.places.steps(operation)):
            kind = "wgmma" if engine is Engine.WGMMA else "mma"
            event = self._take(kind, one.text)
            self._who(event, "all" if kind == "wgmma" else "one", one.text)
            a, b, adds = event.action.values
            self._operand(one, event, a, "a")
            self._operand(one, event, b, "b")
            if kind == "mma":
                self._result(one, event)
            self._adds(one, event, adds, number)

    def _operand(self, one: Expected, event: Event, term: Term, operand: str) -> None:
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        operation = self.places.plan.operation(one.step.action.operation)
        places = self.places.operand(operation, operand, self.case, one.iteration)
        if not places:
            return
        value = self._known(event, term, one.text)
        at = value.array & _COLUMN_BITS
        if places[0].space is Space.SMEM:
            if value.shared != SHARED_ALIGNMENT // _DESCRIPTOR_UNIT:
                self._differ(f"'{operand}' is not in shared memory", one.text, event)
            at = (value.array & _DESCRIPTOR_BITS) * _DESCRIPTOR_UNIT
        if not any(inside(place, at) for place in places):
            self._differ(f"'{operand}' is not in the slot of its number", one.text, event)

    def _result(self, one: Expected, event: Event) -> None:
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        operation = self.places.plan.operation(one.step.action.operation)
        value = self._known(event, event.action.address, one.text)
        places = self.places.operand(operation, "d", self.case, one.iteration)
        if not any(inside(place, value.array & _COLUMN_BITS) for place in places):
            self._differ("its result is not in the slot of its number", one.text, event)

    def _adds(self, one: Expected, event: Event, term: Term, number: int) -> None:
        """Whether it adds to what is there: not in the first step of a product of its own."""
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        name = one.step.action.operation
        operation = self.places.plan.operation(name)
        wanted = bool(number) or operation.accumulate
        if not number and operation.accumulate and event.action.kind == "mma":
            first = max(
                (a.initial for a in self.places.program.operation[name].accesses if not a.write),
                default=0,
            )
            wanted = one.iteration is None or not (
                not one.iteration.base and one.iteration.offset < first
            )
        if event.env.decide(term) is not wanted:
            what = "does not add" if wanted else "adds"
            self._differ(f"it {what} to its result", one.text, event)

    # -- operations of threads -----------------------------------------------------------------

    def _gap(self, wanted: list[Expected], behind: str, *, frame: bool = False) -> None:
        """Accesses up to the next other event belong to operations of threads, in their order."""
        used: set[tuple[int, int]] = set()
        found: list[tuple[Event, int]] = []
        """Accesses with the number of their operation, and waits for tensor memory, with -1."""
        place = 0
        while self.at < len(self.events):
            event = self.events[self.at]
            if frame and event.action.kind not in ACCESSES:
                break
            if event.action.kind in _CLOSE:
                self._skip_closed()
                continue
            if event.action.kind not in _SOFT:
                break
            if event.action.kind in ACCESSES:
                place = self._access(event, wanted, place, used, behind)
                found.append((event, place))
            else:
                found.append((event, -1))
            self.at += 1
        self._covered(wanted, used)
        waits = {one for one in _WAITS.values()}
        for kind in sorted(waits):
            self._waited(kind, wanted, found)

    def _waited(
        self, kind: str, wanted: list[Expected], found: list[tuple[Event, int]]
    ) -> None:
        """Waits for loads from, or stores to, tensor memory: where the program has them, behind
        all that operations before them do, and within operations behind each piece or behind none.
        """
        places = [
            number
            for number, one in enumerate(wanted)
            if isinstance(one.step.action, Fence) and _WAITS[one.step.action.kind] == kind
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
                self._differ(f"'{kind}' is missing", wanted[number].text, event)

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
            overwrites = kind == _WAITS[FenceKind.TMEM_LOADED] and (
                found[later][0].action.kind == "tmem write"
            )
            if overwrites and not waits:
                what = f"no '{kind}' between it and the load before"
                self._differ(what, "an operation of threads", found[later][0])
            if own.setdefault(run, waits) is not waits:
                what = f"no '{kind}' behind it, although other pieces have one"
                self._differ(what, "an operation of threads", event)
        return own

    def _access(
        self, event: Event, wanted: list[Expected], place: int, used: set[tuple[int, int]],
        behind: str,
    ) -> int:  # fmt: skip
        """The operation that an access belongs to, by where it is."""
        value = self._known(event, event.action.address, behind)
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
            for index, candidate in enumerate(self._places(one, action)):
                if candidate.write != write or (candidate.space is Space.TMEM) != tensor:
                    continue
                at = value.array & _COLUMN_BITS if tensor else value.array
                if inside(candidate, at):
                    used.add((number, index))
                    self.mapped.append((one.text, event.action.instruction))
                    return number
        names = ", ".join(one.text for one in wanted[place:]) or f"nothing before {behind}"
        self._differ("it accesses what no operation there does", names, event)
        return place

    def _system(self, value: Value) -> bool:
        """The word with the address of tensor memory."""
        word = 8 * (self.places.plan.words + 1)
        return value.shared == SHARED_ALIGNMENT and bool((value.array == word).all())

    def _covered(self, wanted: list[Expected], used: set[tuple[int, int]]) -> None:
        for number, one in enumerate(wanted):
            action = one.step.action
            if not isinstance(action, Run):
                continue
            places = self._places(one, action)
            hit = {
                (places[i].store, places[i].write) for n, i in used if n == number
            }
            for place in places:
                if place.needed and (place.store, place.write) not in hit:
                    event = self.events[self.at] if self.at < len(self.events) else None
                    what = "writes to" if place.write else "reads from"
                    self._differ(f"no instruction {what} '{place.store}'", one.text, event)


def _plain(condition: Term) -> tuple[Term, bool]:
    holds = True
    while condition.op == "not":
        (condition,), holds = condition.parts, not holds
    return condition, holds


def _sample(found: Array, wanted: Array) -> str:
    """The first value that differs."""
    a, b = np.broadcast_arrays(found, wanted)
    at = int(np.argmax((a != b).reshape(-1)))
    return f"{a.reshape(-1)[at]}, not {b.reshape(-1)[at]}"
