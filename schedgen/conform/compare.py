"""Events of a role beside the steps of its program, one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedgen.conform.cases import Case
from schedgen.conform.expected import Expected, Frame
from schedgen.conform.footprints import Footprints
from schedgen.conform.gaps import Gaps
from schedgen.conform.runs import Runs
from schedgen.conform.taking import CLOSE, FENCES, ROWS, SOFT, WAITS, Mismatch, plain
from schedgen.conform.trace import Event
from schedgen.conform.turns import AWAIT, COUNTED, FENCE, PASS, TILES
from schedgen.conform.values import Array
from schedgen.kernel import Kind
from schedgen.program.added import is_added
from schedgen.program.claims import DRAW, TELL
from schedgen.program.following import is_following
from schedgen.program.model import (
    MEETINGS,
    Arrive,
    Commit,
    Fence,
    RoleProgram,
    Run,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine
from schedgen.program.taking_turns import awaits, is_turn, tensor_of


class Comparison(Runs, Gaps):
    """One tile of a role, or what stands around its tiles, in one case."""

    def __init__(
        self,
        footprints: Footprints,
        role: RoleProgram | None,
        case: Case | None,
        events: Sequence[Event],
        warps: tuple[int, int],
    ) -> None:
        super().__init__(footprints, role, case, events, warps)
        self.expect_tx = []
        self.last = {}
        self.awaited: dict[str, Event] = {}
        self.turns: list[tuple[Event, Event]] = []
        """Where turns are awaited and passed, to be looked at."""
        self.drawn: list[Event] = []
        self.told: list[Event] = []
        """Where tickets are drawn and tiles told, to be looked at."""

    def compare(self, wanted: Sequence[Expected | Frame]) -> None:
        """Raises Mismatch at the first difference."""
        gap: list[Expected] = []
        for one in wanted:
            if isinstance(one, Expected) and self._soft(one):
                gap.append(one)
                if self._kind(one) is Kind.GATHER:
                    self.gap(gap, one.text, rows=True)
                    gap = self._begun(one)
                if _runs(one, TELL):
                    gap = self._tell(gap, one)
                continue
            self.gap(gap, one.text, frame=isinstance(one, Frame) and one.kind in SOFT)
            gap = []
            if isinstance(one, Frame):
                self._frame(one)
            else:
                self._step(one)
        self.gap(gap, "the end")
        self.skip_closed()
        if self.at < len(self.events):
            event = self.events[self.at]
            self.differ(f"'{event.action.instruction.name}' belongs to no step", "the end", event)
        if any(groups.open for groups in self.groups.values()):
            raise Mismatch("operations are not committed to a group", "the end", None)

    def _soft(self, one: Expected) -> bool:
        action = one.step.action
        if isinstance(action, Fence):
            return action.kind in WAITS
        if _runs(one, DRAW) or _at_word(one) or self._kind(one) is Kind.LAND:
            return False
        return isinstance(action, Run) and self.engine(action.operation) is Engine.THREADS

    def _tell(self, gap: list[Expected], one: Expected) -> list[Expected]:
        """A number is written, and the warp has it written; returns what is left of the gap."""
        before = len(self.mapped)
        self.gap(gap, one.text)
        lines = {found.line for step, found in self.mapped[before:] if step == one.text}
        self.told += [e for e in self.events[: self.at] if e.action.instruction.line in lines]
        self.who(self.take("bar.warp.sync", one.text), "all", one.text)
        return []

    # -- what stands around --------------------------------------------------------------------

    def _frame(self, one: Frame) -> None:
        event = self.take(one.kind, one.text)
        if one.warp is None:
            self.who(event, one.who, one.text)
        else:
            self.who(event, one.who, one.text, when=True)
            self._warp(event, one)
        if one.address is not None:
            self.address(event, event.action.address, np.array(one.address), one.text)
        values = event.action.values[-len(one.values) :] if one.values else ()
        for term, wanted in zip(values, one.values, strict=True):
            self.value(event, term, np.array(wanted), one.text)
        if one.kind == "dealloc":
            begin = self.known(event, event.action.values[0], one.text)
            if begin.tensor != 1 or begin.shared or begin.array.any():
                self.differ("it frees what was not allocated", one.text, event)

    def _warp(self, event: Event, one: Frame) -> None:
        """Whether exactly the threads of one warp come there."""
        mine = np.ones((1, 1, 1, 1), bool)
        for condition, holds in event.conditions:
            value = event.env.value(condition)
            if value is None or not value.plain:
                self.differ("which threads do it is not known", one.text, event)
            mine = mine & ((value.array != 0) == holds)
        first, count = self.warps
        threads = 32 * count
        warps = first + np.arange(threads) // 32
        if not bool((np.broadcast_to(mine.reshape(-1), (threads,)) == (warps == one.warp)).all()):
            self.differ(f"other threads than those of warp {one.warp} do it", one.text, event)

    # -- steps ---------------------------------------------------------------------------------

    def _step(self, one: Expected) -> None:
        match one.step.action:
            case Wait() as action:
                self._wait(one, action)
            case Arrive() as action:
                self._arrive(one, action)
            case Commit() as action:
                event = self.take("commit", one.text)
                self.who(event, "one", one.text)
                at, _ = self.barrier(action, one)
                self.address(event, event.action.address, at, one.text)
            case WaitGroup() as action:
                self._wait_group(one, action)
            case Fence(kind):
                self.who(self.take(FENCES[kind], one.text), "all", one.text)
            case Run() if _runs(one, DRAW):
                self.drawn.append(self.take("draw", one.text))
            case Run(operation) if is_turn(operation):
                self._turn(one, operation)
            case Run(operation) if is_following(operation):
                self._following(one, operation)
            case Run() if self._kind(one) is Kind.LAND:
                self._landed(one)
            case Run() as action:
                self.run(one, action)

    def _turn(self, one: Expected, operation: str) -> None:
        """A word is awaited, or written once all copies of the role are complete."""
        if awaits(operation):
            self.awaited[tensor_of(operation)] = self._word(one, AWAIT)
        else:
            event = self._behind_copies(one, PASS)
            self.turns.append((self.awaited.pop(tensor_of(operation)), event))

    def _following(self, one: Expected, operation: str) -> None:
        """A word is awaited before copies of the tile, or counts one more behind them."""
        if operation == TILES:
            self._word(one, TILES)
            return
        event = self._behind_copies(one, COUNTED)
        if event.action.values[-1].number != 1:
            self.differ("it does not count one tile", one.text, event)

    def _word(self, one: Expected, kind: str) -> Event:
        """All threads of a warp wait for a word, and their copies come behind that."""
        event = self.take(kind, one.text)
        self.who(event, "all", one.text)
        self.who(self.take(FENCE, one.text), "all", one.text)
        self.who(self.take("bar.warp.sync", one.text), "all", one.text)
        return event

    def _behind_copies(self, one: Expected, kind: str) -> Event:
        """One thread changes a word once all copies are complete."""
        event = self.take("wait_group copies", one.text)
        self.who(event, "all", one.text)
        if event.action.values[0].number != 0 or self.groups["close copies"].open:
            self.differ("copies before it may not be complete", one.text, event)
        event = self.take(kind, one.text)
        self.who(event, "one", one.text)
        return event

    def _meets(self, barrier: str) -> bool:
        """Whether threads of the role, maybe with others, meet there: one instruction arrives and
        waits.
        """
        return self.footprints.program.barrier[barrier].kind in MEETINGS

    def _meet(self, one: Expected, action: Wait) -> None:
        assert self.role is not None
        barrier = self.footprints.program.barrier[action.barrier]
        if barrier.kind == "warp":
            self.who(self.take("bar.warp.sync", one.text), "all", one.text)
            return
        number = self.footprints.plan.numbered.meeting(self.role, barrier)
        self._numbered(one, "bar.sync", (np.array(number), np.array(barrier.arrivals)))

    def _numbered(self, one: Expected, kind: str, wanted: tuple[Array, ...]) -> None:
        """An instruction of all threads at a numbered barrier: which, and for how many threads."""
        event = self.take(kind, one.text)
        self.who(event, "all", one.text)
        if len(event.action.values) != len(wanted):
            self.differ("it does not say how many threads meet", one.text, event)
        for term, value in zip(event.action.values, wanted, strict=True):
            self.value(event, term, value, one.text)

    def _pace(self, one: Expected, action: Wait | Arrive) -> bool:
        """Whether it is a step at a barrier of pace, which is compared then."""
        footprints = self.footprints
        if footprints.program.barrier[action.barrier].kind != "pace":
            return False
        assert self.case is not None
        number = footprints.numbered(action.barrier, action.number, self.case, one.iteration)
        wanted = number, np.array(footprints.plan.numbered.pace_threads(action.barrier))
        self._numbered(one, "bar.sync" if isinstance(action, Wait) else "bar.arrive", wanted)
        return True

    def _wait(self, one: Expected, action: Wait) -> None:
        if self._pace(one, action):
            return
        if self._meets(action.barrier):
            self._meet(one, action)
            return
        event = self.take("wait", one.text)
        self.who(event, "all", one.text)
        at, parity = self.barrier(action, one)
        self.address(event, event.action.address, at, one.text)
        self.value(event, event.action.values[0], parity, one.text)

    def _arrive(self, one: Expected, action: Arrive) -> None:
        if self._meets(action.barrier):
            return  # with the wait right behind it
        if self._pace(one, action):
            return
        event = self.take("expect" if action.bytes else "arrive", one.text)
        assert self.role is not None
        self.who(event, "one" if action.count == 1 else "all", one.text)
        at, _ = self.barrier(action, one)
        self.address(event, event.action.address, at, one.text)
        term = event.action.values[0]
        if not action.bytes:
            each = 1 if action.count == 1 else action.count // (32 * self.role.warps)
            self.value(event, term, np.array(each), one.text)
            return
        if term.op == "select":
            condition, yes, no = term.parts
            asked, holds = plain(condition)
            if no.number == action.bytes:
                yes, no, holds = no, yes, not holds
            if no.number == 0:
                self.expect_tx.append((action.barrier, asked, holds))
                term = yes
        self.value(event, term, np.array(action.bytes), one.text)

    def _kind(self, one: Expected) -> Kind | None:
        """The kind of the operation that a step runs."""
        action = one.step.action
        if not isinstance(action, Run) or is_added(action.operation):
            return None
        return self.footprints.plan.operation(action.operation).kind

    def _begun(self, one: Expected) -> list[Expected]:
        """The copies of a gather are a group; nothing is left of the gap."""
        assert isinstance(one.step.action, Run)
        if self.at == len(self.events) or self.events[self.at].action.kind != ROWS:
            event = self.events[self.at] if self.at < len(self.events) else None
            self.differ("its group is not committed behind it", one.text, event)
        self.who(self.events[self.at], "all", one.text)
        self.groups[ROWS].open.add((one.step.action.operation, one.index))
        self.groups[ROWS].close()
        self.at += 1
        return []

    def _landed(self, one: Expected) -> None:
        """A wait for the gather that fills the same."""
        assert isinstance(one.step.action, Run)
        operation = self.footprints.plan.operation
        writes = operation(one.step.action.operation).writes
        gathers = (o for o in self.footprints.plan.kernel.operations if o.kind is Kind.GATHER)
        name = next(o.name for o in gathers if o.writes == writes)
        self._waits(one, ROWS, (name, one.index))

    def _wait_group(self, one: Expected, action: WaitGroup) -> None:
        kind = "close products" if self.engine(action.operation) is Engine.WGMMA else "close copies"
        target = action.operation, one.index - action.lag
        if one.section != "loop":
            target = action.operation, self.last.get(action.operation, 0)
        self._waits(one, kind, target)

    def _waits(self, one: Expected, kind: str, target: tuple[str, int]) -> None:
        """A wait_group leaves no group that has ``target``, an operation of an iteration."""
        event = self.take(CLOSE[kind], one.text)
        self.who(event, "all", one.text)
        groups = self.groups[kind]
        left = event.action.values[0].number
        if left is None or left < 0:
            self.differ("how many groups it leaves is not known", one.text, event)
        pending = groups.closed[len(groups.closed) - left :] if left else []
        if groups.open or any(target in group for group in pending):
            self.differ(f"it leaves {left} groups, '{target[0]}' among them", one.text, event)


def _runs(one: Expected, operation: str) -> bool:
    """Whether a step runs an operation."""
    action = one.step.action
    return isinstance(action, Run) and action.operation == operation


def _at_word(one: Expected) -> bool:
    """Whether a step awaits or passes a turn, or tiles."""
    action = one.step.action
    return isinstance(action, Run) and (is_turn(action.operation) or is_following(action.operation))
