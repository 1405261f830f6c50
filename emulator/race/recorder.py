"""A race checker that also remembers the steps of some warps, for a picture of what they did."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any

from schedgen.emulator.machine.barriers import ClusterBarrier, NamedBarrier
from schedgen.emulator.machine.conditions import YIELD, Condition, Meeting
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Access, Defect, Finding, Race
from schedgen.emulator.order.tracker import Cells, Queue
from schedgen.emulator.ptx.tree import Instruction

Key = tuple[int, int]
"""CTA and byte offset of an mbarrier; CTA and number of a named barrier (0 to 15); number of the
cluster and -1."""
_KEPT = 50_000
"""Steps that are remembered."""
_BEHIND = 400
"""Further ones behind the last finding."""


class Enough(BaseException):
    """All that was to be seen was seen; no Exception, so that nothing puts it into other words."""


@dataclass(slots=True)
class Step:
    """Something that a warp, or an operation of it, has done.

    Attributes:
        warp: its number in the launch.
        line: of PTX; of an operation the line that issued it.
        what: in words; ``{}`` stands for the barrier.
        barrier: that it is about.
        named: whether that is a named barrier or the cluster's.
        phase: of the barrier, or its generation.
        queue: of an operation that executes; None for the warp itself.
        waits: the warp cannot go on.
        iteration: of an access: how often the warp had executed the line before.
        write: of an access: whether it is one that writes.
    """

    warp: int
    line: int
    what: str
    barrier: Key | None = None
    named: bool = False
    phase: int | None = None
    queue: Queue | None = None
    waits: bool = False
    iteration: int = -1
    write: bool = False

    def is_of(self, access: Access) -> bool:
        """Whether it is this access."""
        mine = self.warp, self.line, self.iteration, self.queue, self.write
        return mine == (access.warp, access.line, access.iteration, access.queue, access.write)

    @property
    def same(self) -> Hashable:
        """Equal for steps of which one is enough in a picture, with their number."""
        return self.warp, self.line, self.what, self.barrier, self.queue, self.waits


@dataclass
class Recording:
    """The steps around a finding.

    Attributes:
        finding: as this execution has it.
        begin: the number of the step of its first access, None if that is not remembered.
        end: the number of the last step, that of the second access.
    """

    finding: Finding
    begin: int | None = None
    end: int = 0


class Recorder(Checker):
    """Remembers steps until it has met all findings that are looked for, and then ends the launch.

    Args:
        keys: of the findings.
        arguments, options: of `Checker`.

    Raises:
        Enough: from any method, soon after the last finding.
    """

    def __init__(self, keys: Collection[Hashable], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, listener=self._met, **options)
        self.recordings: dict[Hashable, Recording] = {}
        self.steps: deque[tuple[int, Step]] = deque(maxlen=_KEPT)
        """With their numbers, from 0 on."""
        self._keys = frozenset(keys)
        self._new: list[Recording] = []
        self._number = 0
        self._left = _BEHIND
        self._now: dict[int, Step] = {}
        self._issued: dict[int, tuple[int, int, int, Queue]] = {}

    def close(self) -> None:
        super().close()
        self.settle()

    def _met(self, finding: Finding) -> None:
        key = finding.key
        if key in self._keys and key not in self.recordings:
            self.recordings[key] = Recording(finding)
            self._new.append(self.recordings[key])

    # -- instructions ---------------------------------------------------------------------------

    def hear(self, warp: Warp, instruction: Instruction) -> Callable[[Condition | None], None]:
        """A warp executes synchronization; for `program.Decoded.hear`."""
        again = warp.resumed is not None
        step = Step(warp.number, instruction.line, instruction.name)
        self._now[warp.number] = step

        def after(condition: Condition | None) -> None:
            self._now.pop(warp.number, None)
            if condition is YIELD:
                step.what = f"{instruction.name}: returns early, as it may"
            elif condition is None or isinstance(condition, Meeting):
                if step.barrier is None and _asks(instruction):
                    step.what = f"{instruction.name}: not complete yet"
            else:
                _about(step, condition, warp)
            if again and not step.waits and step.barrier is None:
                step.what = f"goes on behind {instruction.name}"
            self._add(step)

        return after

    # -- accesses -------------------------------------------------------------------------------

    def generic(self, warp: int, cells: Cells, *, write: bool, line: int, **more: Any) -> None:
        super().generic(warp, cells, write=write, line=line, **more)
        iteration = self._state.iteration(warp, line)
        text = f"{_verb(write)} {_amount(cells)}"
        self._add(Step(warp, line, text, iteration=iteration, write=write))

    def together(self, *_: object, **__: object) -> bool:
        return False

    def issue(self, warp: int, queue: Queue, line: int, **more: Any) -> int:
        handle = super().issue(warp, queue, line, **more)
        self._issued[handle] = warp, line, self._state.iteration(warp, line), queue
        self._add(Step(warp, line, f"issues {queue.value}"))
        return handle

    def access(self, operation: int, cells: Cells, *, write: bool, atomic: bool = False) -> None:
        super().access(operation, cells, write=write, atomic=atomic)
        warp, line, iteration, queue = self._issued[operation]
        text = f"{queue.value} {_verb(write)} {_amount(cells)}"
        self._add(Step(warp, line, text, queue=queue, iteration=iteration, write=write))

    # -- barriers -------------------------------------------------------------------------------

    def arrive(self, warp: int, barrier: Key, phase: int, **more: Any) -> None:
        super().arrive(warp, barrier, phase, **more)
        self._says(warp, more["line"], "arrives on {}", barrier, phase)

    def wait(self, warp: int, barrier: Key, phase: int, **more: Any) -> None:
        super().wait(warp, barrier, phase, **more)
        self._says(warp, more["line"], "sees that {} is complete", barrier, phase)

    def commit(self, warp: int, barrier: Key, phase: int, **more: Any) -> None:
        super().commit(warp, barrier, phase, **more)
        self._add(
            Step(warp, more["line"], "commit arrives on {}", barrier, phase=phase, queue=Queue.MMA)
        )

    def track(self, operation: int, barrier: Key, phase: int) -> None:
        super().track(operation, barrier, phase)
        warp, line, _, queue = self._issued[operation]
        text = f"{queue.value} completes on {{}}"
        self._add(Step(warp, line, text, barrier, phase=phase, queue=queue))

    def barrier_init(self, warp: int, barrier: Key, line: int) -> None:
        super().barrier_init(warp, barrier, line)
        self._says(warp, line, "initializes {}", barrier, None)

    def signal(self, warp: int, barrier: Key, generation: int, **more: Any) -> None:
        super().signal(warp, barrier, generation, **more)
        self._says(warp, more["line"], "arrives at {}", barrier, generation, named=True)

    def leave(self, warp: int, barrier: Key, generation: int, **more: Any) -> None:
        super().leave(warp, barrier, generation, **more)
        step = self._now.get(warp)
        both = step is not None and step.barrier is not None
        text = "arrives at {}, the last one" if both else "leaves {}"
        self._says(warp, more["line"], text, barrier, generation, named=True)

    # -- what is kept ---------------------------------------------------------------------------

    def _says(
        self, warp: int, line: int, what: str, barrier: Key, phase: int | None, named: bool = False
    ) -> None:
        """What the instruction that a warp executes is about."""
        step = self._now.get(warp)
        if step is None or step.line != line:
            self._add(Step(warp, line, what, barrier, named, phase))
            return
        step.what, step.barrier, step.named, step.phase = what, barrier, named, phase

    def _add(self, step: Step) -> None:
        self.steps.append((self._number, step))
        self._number += 1
        if self._new:
            self.settle()
        elif len(self.recordings) == len(self._keys):
            self._left -= 1
            if self._left < 0:
                raise Enough

    def settle(self) -> None:
        """New findings are about the step that was added last, and about one before it."""
        for one in self._new:
            one.end = self._number - 1
            first = first_of(one.finding)
            if first is not None:
                one.begin = next(
                    (n for n, step in reversed(self.steps) if step.is_of(first) and n <= one.end),
                    None,
                )
        self._new = []


def first_of(finding: Finding) -> Access | None:
    """The access that a finding begins with."""
    match finding:
        case Race(earlier=earlier):
            return earlier
        case Defect(other=Access() as other):
            return other
        case _:
            return None


def _asks(instruction: Instruction) -> bool:
    return instruction.opcode == "mbarrier" and not {"try_wait", "test_wait"}.isdisjoint(
        instruction.modifiers
    )


def _about(step: Step, condition: Condition, warp: Warp) -> None:
    """What a warp that cannot go on waits for."""
    step.waits = True
    match condition.resource:
        case Mbarrier() as mbarrier:
            step.what, step.barrier = "waits for {}", mbarrier.key
            step.phase = condition.tag if isinstance(condition.tag, int) else None
        case NamedBarrier() as named:
            step.what, step.named = "arrives at {} and waits", True
            step.barrier, step.phase = (warp.block.number, named.number), named.generation
        case ClusterBarrier() as whole:
            step.what, step.named = "waits at {}", True
            step.barrier, step.phase = (warp.block.cluster.number, -1), whole.generation
        case _:
            step.what = f"waits in {step.what}"


def _verb(write: bool) -> str:
    return "writes" if write else "reads"


def _amount(cells: Cells) -> str:
    index = cells.index
    count = index.stop - index.start if isinstance(index, slice) else index.size * cells.width
    unit = "cells of tensor memory" if cells.space.value == "tensor" else "bytes"
    where = "" if cells.space.value == "tensor" else f" of {cells.space.value} memory"
    return f"{count} {unit}{where}"
