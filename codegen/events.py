"""Events in kernels: the clock before and after each operation, wait and wait_group of each role.

Off by default; a kernel with events has one more argument, see `schedgen.codegen.event_table`. It
is written by one thread of each role. Each clock has a place of its own, which follows from tile,
turn and step: no counter is kept, and nothing but the clock is written. Steps that follow one
another share the clock between them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from schedgen.codegen.errors import EmitError
from schedgen.codegen.event_table import ARGUMENT, CALIBRATION, Event, EventTable, RoleWords
from schedgen.codegen.ir import Name, called, code
from schedgen.codegen.source import Source
from schedgen.kernel import Kernel
from schedgen.program.model import Program, RoleProgram, Run, Step, Wait, WaitGroup
from schedgen.roles import RoleKind
from schedgen.tensors import Argument

_WORDS = Name(ARGUMENT)

LIBRARY = '''
def event_room(words, role, thread):
    """The first word of a role, and where a thread has to stop: all but one stop at once."""
    chosen = (cute.arch.block_idx()[0] == words[0]) & (thread == 0)
    start = 2 + role * words[1]
    return start, cutlass.select_(chosen, start + words[1], Int32(0))


def event_clock(words, at, end, place):
    """Writes the SM's clock to word ``place`` from ``at`` on, if this thread does that."""
    from cutlass._mlir.dialects import llvm  # `cute.arch.inline_ptx` cannot write a %

    operands = [(words.iterator + at).toint(), at, end]
    llvm.inline_asm(
        None,
        [operand.ir_value() for operand in operands],
        "{ .reg .pred here; .reg .u32 now; setp.lt.s32 here, $1, $2; mov.u32 now, %clock; "
        + f"@here st.global.u32 [$0 + {4 * place}], now; }}",
        "l,r,r",
        has_side_effects=True,
    )


def event_count(words, at, end, count):
    """Writes a number instead."""
    cute.arch.inline_ptx(
        "{ .reg .pred here; setp.lt.s32 here, {$r1}, {$r2}; @here st.global.u32 [{$r0}], {$r3}; }",
        read_only_args=[(words.iterator + at).toint(), at, end, count],
    )
'''


def with_argument(kernel: Kernel) -> Kernel:
    """``kernel`` with the tensor for events as its last one."""
    argument = Argument(ARGUMENT, (f"n_{ARGUMENT}",), "i32")
    return replace(kernel, arguments=(*kernel.arguments, argument))


class Silent:
    """No events: writes nothing.

    ``arguments`` are tensors of the kernel beside those of its spec.
    """

    arguments: tuple[str, ...] = ()

    def begin(self, source: Source, role: RoleProgram) -> None:
        """At the start of a role."""

    def begin_tile(self, source: Source, role: RoleProgram) -> None:
        """At the start of each tile."""

    def end_section(self, source: Source, role: RoleProgram, section: str) -> None:
        """After ``before``, after each turn of ``loop``, after ``after``."""

    def before(self, source: Source, step: Step) -> None:
        """Before a step that runs."""

    def after(self, source: Source, step: Step) -> None:
        """After it."""


class Clocks(Silent):
    """Events as lines of the DSL."""

    arguments = (ARGUMENT,)

    def __init__(self, program: Program) -> None:
        self._roles = [role.name for role in program.roles]
        self._words: dict[str, RoleWords] = {}
        self._events: dict[int, Event] = {}
        """Of steps, by identity: the same action may stand in two places."""
        self._shared: set[int] = set()
        """Steps whose first clock is the last one of the step before."""
        for role in program.roles:
            if role.teams > 1:
                raise EmitError(
                    f"a trace has the events of all tiles of a role, and the {role.teams} teams of "
                    f"{role.name} take them in turn",
                    rule="events-of-teams",
                    fix="trace the kernel with one team (--set teams=1)",
                )
            self._add(role)
        rows = tuple(self._words.values()), tuple(self._events.values())
        self.table = EventTable(program.spec_sha256, *rows)

    # -- layout --------------------------------------------------------------------------------

    def _add(self, role: RoleProgram) -> None:
        sections = {"before": role.before, "loop": role.loop, "after": role.after}
        sizes = {name: self._add_section(role, name, steps) for name, steps in sections.items()}
        self._words[role.name] = RoleWords(role.name, **sizes, shifts=role.shifts)

    def _add_section(self, role: RoleProgram, section: str, steps: tuple[Step, ...]) -> int:
        """Gives words to all steps that take time; how many."""
        for one, other in pairwise(steps):
            together = (one.shift, one.guard) == (other.shift, other.guard)
            if together and _takes_time(one) and _takes_time(other):
                self._shared.add(id(other))
        word = 0
        for step in filter(_takes_time, steps):
            word += id(step) not in self._shared
            kind, name = _kind_and_name(step)
            lag = step.action.lag if isinstance(step.action, WaitGroup) else 0
            self._events[id(step)] = Event(
                role.name, section, kind, name, step.why, step.shift, lag, word - 1, word
            )
            word += 1
        return word

    # -- lines ---------------------------------------------------------------------------------

    def begin(self, source: Source, role: RoleProgram) -> None:
        thread = "thread" if role.kind is RoleKind.WARPGROUP else "cute.arch.lane_idx()"
        number = self._roles.index(role.name)
        room = called("event_room", _WORDS, number, thread)
        source.add(code("event_at, event_end = {}", room))
        largest = self._words[role.name]
        source.comment("what is left at the end is too small for a section")
        margin = max(CALIBRATION, 1 + largest.before, largest.loop, largest.after)
        source.add(f"event_end -= {margin}")
        for place in range(CALIBRATION):
            self._clock(source, place)
        source.add(f"event_at += {CALIBRATION}")

    def begin_tile(self, source: Source, role: RoleProgram) -> None:
        count = called("event_count", _WORDS, "event_at", "event_end", Name("trips"))
        source.add(count, "event_at += 1")

    def end_section(self, source: Source, role: RoleProgram, section: str) -> None:
        if count := getattr(self._words[role.name], section):
            source.add(f"event_at += {count}")

    def before(self, source: Source, step: Step) -> None:
        if id(step) in self._events and id(step) not in self._shared:
            self._clock(source, self._events[id(step)].begin)

    def after(self, source: Source, step: Step) -> None:
        if id(step) in self._events:
            self._clock(source, self._events[id(step)].end)

    def _clock(self, source: Source, place: int) -> None:
        source.add(called("event_clock", _WORDS, "event_at", "event_end", place))


def _takes_time(step: Step) -> bool:
    return isinstance(step.action, Run | Wait | WaitGroup)


def _kind_and_name(step: Step) -> tuple[str, str]:
    match step.action:
        case Run(operation=name):
            return "run", name
        case WaitGroup(operation=name):
            return "wait_group", name
        case Wait(barrier=name):
            return "wait", name
        case _:
            raise AssertionError(step)
