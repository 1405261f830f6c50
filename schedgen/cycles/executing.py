"""A program whose roles execute their machine code, instruction by instruction.

Barriers, bulk copies and their engines are as `schedgen.execution.contended` has them; what threads
do in between is what the assembler wrote: each instruction is issued when its stall is over, its
scoreboards are free and its unit takes it. Of instructions of several warps that could be issued at
the same time, that of the warp is which has waited for longest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from schedgen.cycles.matching import Matched
from schedgen.cycles.prices import FENCE, Priced, Prices, priced, prices
from schedgen.cycles.scheduler import Scheduler
from schedgen.errors import SchedgenError
from schedgen.execution.contended import Contended
from schedgen.execution.events import LOOP, Event
from schedgen.execution.machine import Machine as Barriers
from schedgen.execution.machine import Setup
from schedgen.machine import Machine
from schedgen.program.model import Program, Run
from schedgen.program.operations import Engine

_AT_HAND = 256
"""Instructions of a loop of which a warp need not wait for one."""
_COLUMN = 0.5
"""Cycles of tensor cores for a column of a product, if nothing else binds it."""
ISSUING, SCOREBOARDS, UNITS, PRODUCTS = "issuing", "results", "units", "tensor cores"
"""What a role's cycles go into, beside waits for a barrier or an operation."""


@dataclass
class _Multiplying:
    """Products of an operation that are to be issued: how many, how many are left, cycles of each,
    and the shares of shared memory and of the tensor cores' rate that they take.
    """

    event: int
    products: int
    left: int
    cycles: float
    shared: float
    rate: float


@dataclass
class _Role:
    """Where a role is: ``todo`` are the instructions before its next step, last first; ``asked``:
    when it knows the answer of a barrier, and which scoreboard has it; ``apart``: its warps do not
    multiply together; ``long``: not all instructions of a ``turn`` are at hand.
    """

    before: list[list[Priced]]
    own: list[list[Priced]]
    rest: list[Priced]
    warps: int
    apart: bool
    long: bool
    turn: list[Priced]
    place: int = 0
    todo: list[Priced] = field(default_factory=list[Priced])
    scoreboards: list[float] = field(default_factory=lambda: [0.0] * 6)
    asked: tuple[float, int] | None = None
    last: float = 0.0
    multiplying: _Multiplying | None = None
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    took: defaultdict[int, float] = field(default_factory=lambda: defaultdict[int, float](float))
    """From when the instruction before was issued until this one was, by its `id`."""


class Executed(Contended):
    """One output tile with ``trips`` iterations. A role without machine code is as in `Contended`;
    those with it begin ``apart`` cycles after each other, as nothing says how they lie.

    ``spent`` are cycles of each role by what they went into: `ISSUING` and so on, or the barrier or
    operation that it waited for.
    """

    def __init__(
        self,
        program: Program,
        machine: Machine,
        trips: int,
        code: Mapping[str, Matched],
        apart: float = 0.0,
    ) -> None:
        super().__init__(program, machine, "in turn", "high", (trips,))
        self.says = prices(machine)
        fence = float(machine.value(FENCE))
        self.scheduler = Scheduler(self.says)
        self.roles = {
            role.name: _role(code[role.name], len(role.loop), role.warps, self.says, fence)
            for role in program.roles
            if role.name in code
        }
        self._number = {id(s): n for role in program.roles for n, s in enumerate(role.loop)}
        for number, name in enumerate(self.roles):
            self.clock[name] = number * apart
            self._prepare(name)

    @property
    def spent(self) -> dict[str, dict[str, float]]:
        return {name: dict(role.spent) for name, role in self.roles.items()}

    @property
    def each(self) -> dict[str, list[float]]:
        """Cycles of each role's instructions of a turn, from when the one before was issued."""
        return {n: [role.took[id(one)] for one in role.turn] for n, role in self.roles.items()}

    def cycles(self) -> float:
        barriers = Barriers(Setup(self.case))
        last = 0.0
        while True:
            time, event = min(((self._time(e), e) for e in barriers.ready), default=(inf, -1))
            done, job = self.units.next()
            at, name, until = self._next(min(time, done))
            if name:
                self._issue_until(name, at, until)
            elif done < inf and done <= time:
                last = max(last, self._end(job, done))
            elif time < inf:
                last = max(last, self._fire(barriers, event, time))
            else:
                break
        if not barriers.finished:
            raise SchedgenError("the program comes to a stop; 'schedgen check' says why")
        return last

    def _next(self, before: float) -> tuple[float, str, float]:
        """The role whose instruction is issued next, not later than ``before``; when that is, and
        until when nobody else does anything. No name if there is none.
        """
        first, others = (inf, inf, ""), inf
        for name, role in self.roles.items():
            if not role.todo:
                continue
            one = self._ready(name), role.last, name
            if one < first:
                first, others = one, first[0]
            elif one[0] < others:
                others = one[0]
        if first[0] == inf or first[0] > before:
            return inf, "", inf
        return first[0], first[2], min(others, before)

    def _issue_until(self, name: str, at: float, until: float) -> None:
        """Issues instructions of a role, the first one ``at`` that time, others before ``until``:
        what other roles want can only come later by that.
        """
        while True:
            self.units.advance(max(at, self.units.now))
            self._issue(name, at)
            at = self._ready(name)
            if at >= until:
                return

    def _prepare(self, name: str) -> None:
        """The instructions before the next step of a role."""
        role, steps = self.roles[name], self.case.roles[name]
        if role.place >= len(steps):
            return
        step = self._step(steps[role.place])
        if step < 0:
            return
        before = self._step(steps[role.place - 1]) if role.place else -1
        found: list[Priced] = []
        if 0 <= step <= before:
            found, before = list(role.rest), -1
        for skipped in range(before + 1, step + 1):
            found += role.before[skipped]
        role.todo[:0] = reversed(found)

    def _step(self, index: int) -> int:
        """The number of a step in the loop of its role; -1 if it is outside of it."""
        event = self.case.events[index]
        return self._number[id(event.instance.step)] if event.section == LOOP else -1

    def _ready(self, name: str) -> float:
        """When the next instruction of a role can be issued; infinity if there is none."""
        role = self.roles[name]
        if not role.todo:
            return inf
        one, of = role.todo[-1], role.multiplying
        first = name if of is not None and of.left == of.products else ""
        return self.scheduler.ready(one, self._free(name, one), first)

    def _free(self, name: str, one: Priced) -> float:
        """When all scoreboards are free that an instruction waits for."""
        free, boards = max(self.clock[name], 0.0), self.roles[name].scoreboards
        for number in one.waits:
            free = max(free, boards[number])
        return free

    def _issue(self, name: str, time: float) -> None:
        role = self.roles[name]
        one = role.todo.pop()
        free = self._free(name, one)
        role.spent[SCOREBOARDS] += free - self.clock[name]
        role.spent[PRODUCTS if one.multiplies else UNITS] += time - free
        slower = 1.0 if one.multiplies else self.scheduler.slower(time)
        begin = self.scheduler.issue(one, time, role.warps, apart=role.apart)
        role.took[id(one)] += time - role.last
        role.last = time
        if one.multiplies and role.multiplying is not None:
            self._multiply(name, role.multiplying, time)
        if one.asks:
            role.asked = begin + one.latency, one.writes
        elif one.writes >= 0:
            role.scoreboards[one.writes] = max(role.scoreboards[one.writes], begin + one.latency)
        if one.reads >= 0:
            role.scoreboards[one.reads] = max(role.scoreboards[one.reads], begin + one.read)
        stall = max(one.stall, self.says.product) if one.multiplies else one.stall
        stall += self.says.fetch if role.long else 0.0
        stall *= slower
        role.spent[ISSUING] += stall
        self.clock[name] = time + stall

    def _multiply(self, name: str, of: _Multiplying, time: float) -> None:
        of.left -= 1
        end = self.scheduler.multiply(time, of.cycles, of.shared, of.rate, name)
        if of.left == 0:
            self.needed[self.case.completion[of.event]] = end + self.says.end
            self.roles[name].multiplying = None

    def _time(self, index: int, gated: bool = True) -> float:
        event = self.case.events[index]
        role = self.roles.get(event.role)
        if role is None or event.kind != "step":
            return super()._time(index, gated)
        if role.todo:
            return inf
        time = super()._time(index, gated)
        return max(time, role.asked[0]) if event.waits and role.asked else time

    def _complete(self, event: Event) -> float:
        if event.role not in self.roles:
            return super()._complete(event)
        assert event.signal is not None
        came = self.came[event.signal.barrier, event.signal.number]
        handoff = self.says.handoff
        return max((t + (handoff if w not in ("", event.role) else 0) for t, w in came), default=0)

    def _happen(self, index: int, time: float) -> None:
        event = self.case.events[index]
        role = self.roles.get(event.role)
        if role is None or event.kind != "step":
            super()._happen(index, time)
            return
        name, action = event.role, event.action
        if event.signal is not None and not event.waits:
            self.came[event.signal.barrier, event.signal.number].append((time, name))
        waited_for = getattr(action, "barrier", "") or getattr(action, "operation", "")
        role.spent[f"waits for {waited_for}"] += max(time - self.clock[name], 0)
        self.clock[name] = max(time, self.clock[name])
        if event.waits and role.asked:
            _, scoreboard = role.asked
            role.asked = None
            if scoreboard >= 0:
                role.scoreboards[scoreboard] = max(role.scoreboards[scoreboard], time)
        step = self._step(index)
        own = role.own[step] if step >= 0 else []
        if isinstance(action, Run):
            self._run(index, event, role, own)
        role.place += 1
        self._prepare(name)
        role.todo += reversed(own)

    def _run(self, index: int, event: Event, role: _Role, own: Sequence[Priced]) -> None:
        """A role comes to an operation, which has instructions of its ``own``, or none."""
        operation = self.case.operation(index)
        products = sum(one.multiplies for one in own)
        if operation.engine is Engine.WGMMA and products:
            units = dict(operation.units)
            longest = max(units.get(unit, 0) for unit in ("TENSOR", "SMEM"))
            shared = units.get("SMEM", 0) / max(longest, 1)
            cycles = longest / products
            rate = sum(one.columns for one in own) * _COLUMN / max(longest, 1)
            role.multiplying = _Multiplying(
                index, products, products, cycles, shared, min(rate, 1.0)
            )
            self.needed[self.case.completion[index]] = inf
        elif operation.engine.asynchronous:
            issued = self.clock[event.role]
            self._begin(index, event)
            if own:
                self.clock[event.role] = issued


def _role(code: Matched, steps: int, warps: int, says: Prices, fence: float) -> _Role:
    turn = code.turn
    made = [priced(one, says, fence, last=one is turn[-1]) for one in turn]
    before: list[list[Priced]] = [[] for _ in range(steps)]
    own: list[list[Priced]] = [[] for _ in range(steps)]
    at = 0
    for step, part in code.steps:
        begin = part.begin + 1 if part.kind == "wait" else part.begin  # it asks before it waits
        before[step] += made[at:begin]
        own[step] += made[begin : part.end]
        at = part.end
    apart = not any(one.multiplies for one in made)
    return _Role(before, own, made[at:], warps, apart, len(made) > _AT_HAND, made)
