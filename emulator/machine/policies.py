"""Who goes next: the order in which warps run and asynchronous operations execute.

Every order that a policy chooses is one that the hardware could choose; a correct kernel gives the
same result under all of them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Protocol

from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.warp import Warp

_UNFAIR = 64
"""Turns in a row after which a warp loses its priority, since it may spin for what others do."""
_LATEST = 4096
"""Turns after which an operation executes although warps could still run, for the same reason."""
_TURNS = 1 / 64
"""How likely one kind of operation gets another priority when one is chosen."""
_OLDEST = 7 / 8
"""How likely the oldest one of a kind is chosen."""
_SHORT = 16  # instructions
_PATIENT = 1024
"""Turns without an event after which a warp is held no longer: the others may spin for it."""


class Policy(Protocol):
    """Chooses among what could happen next."""

    quantum: int
    """Instructions that a warp executes before others may."""
    clusters: int
    """Clusters that are started at once; further ones start when these cannot go on."""
    together: bool
    """Whether warps of a warpgroup that are in the same place have their turns side by side."""
    stops: frozenset[int]
    """Places in the body of the kernel in front of which turns end, but for those side by side."""

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        """An index into ``ready`` followed by ``pending``, which are not both empty."""
        ...

    def admit(self, operation: Operation) -> None:
        """An operation may execute from now on."""
        ...

    def spurious(self) -> bool:
        """Whether an mbarrier.try_wait that would have to wait returns False at once."""
        ...


class RoundRobin:
    """Warps in turn; asynchronous operations execute as soon as the issuing warp's turn is over."""

    def __init__(self, quantum: int = 512) -> None:
        self.quantum = quantum
        self.clusters = 1
        self.together = True
        self.stops: frozenset[int] = frozenset()

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        return len(ready) if pending else 0

    def admit(self, operation: Operation) -> None:
        pass

    def spurious(self) -> bool:
        return False


class Seeded:
    """Anything with equal chances; the same seed gives the same order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.quantum = self._random.choice((8, 32, 128, 512))
        self.clusters = self._random.choice((1, 2, 4))
        self.together = False
        self.stops: frozenset[int] = frozenset()

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        return self._random.randrange(len(ready) + len(pending))

    def admit(self, operation: Operation) -> None:
        pass

    def spurious(self) -> bool:
        return self._random.random() < 1 / 8


class Adversarial:
    """Delays what somebody may rely on too early, and hurries what may come too early.

    Warps have random priorities, which change now and then, so that some run far ahead of others
    (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs",
    ASPLOS 2010). Operations execute, by the seed, as late as possible (only when no warp can run),
    at once, or after a delay of their own. Where they are late, a try_wait mostly returns False
    before its phase is complete: whoever does not repeat it goes on too early.

    Args:
        seed: the same one gives the same order.
        delay: ``"late"``, ``"early"``, ``"mixed"``, or None to let the seed choose.
    """

    def __init__(self, seed: int, delay: str | None = None) -> None:
        self._random = random.Random(seed)
        self.quantum = self._random.choice((16, 64, 1024))
        self.clusters = self._random.choice((1, 2))
        self.together = False
        self.stops: frozenset[int] = frozenset()
        self._delay = delay or ("late", "mixed", "early")[seed % 3]
        self._seed = seed
        self._spurious = {"late": 3 / 4, "mixed": 1 / 2, "early": 1 / 4}[self._delay]
        self._changes = self._random.choice((1 / 256, 1 / 32, 1 / 8))
        self._priority: dict[int, float] = {}
        self._kinds: dict[str, float] = {}
        self._turn = 0
        self._last = -1
        self._streak = 0

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        self._turn += 1
        due: Sequence[int] = range(len(pending))  # no other operation has a delay of its own
        if self._delay == "mixed":
            due = [at for at, operation in enumerate(pending) if operation.due <= self._turn]
        late = self._delay == "late" and self._turn % _LATEST
        if late and not ready:
            return self._latest(pending)
        if due and not (late and ready):
            return len(ready) + self._random.choice(due)
        if not ready:
            return self._latest(pending)
        if self._random.random() < self._changes:
            self._priority[self._random.choice(ready).number] = self._random.random()
        index = max(range(len(ready)), key=lambda at: self._of(ready[at]))
        self._count(ready[index])
        return index

    def _latest(self, pending: Sequence[Operation]) -> int:
        """One of those for which everybody waits. Kinds have priorities, as warps have, so that all
        loads may come later than products or stores; of a kind, mostly the oldest one comes, and
        those that are not needed yet stay away."""
        kinds = list(dict.fromkeys(operation.name for operation in pending))
        if self._random.random() < _TURNS:
            self._kinds[self._random.choice(kinds)] = self._random.random()
        for kind in kinds:
            self._kinds.setdefault(kind, self._random.random())
        first = max(kinds, key=lambda kind: self._kinds[kind])
        own = (at for at, operation in enumerate(pending) if operation.name == first)
        return next(own) if self._random.random() < _OLDEST else self._random.choice([*own])

    def admit(self, operation: Operation) -> None:
        mixed = self._delay == "mixed"
        operation.due = self._turn + self._random.choice((0, 1, 4, 16, 64, 1024)) if mixed else 0

    def spurious(self) -> bool:
        return self._random.random() < self._spurious

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self._seed}), operations {self._delay}"

    def _of(self, warp: Warp) -> float:
        priority = self._priority.get(warp.number)
        if priority is None:
            priority = self._priority[warp.number] = self._random.random()
        return priority

    def _count(self, warp: Warp) -> None:
        """A warp that has been chosen often in a row is the last one to be chosen again."""
        self._streak = self._streak + 1 if warp.number == self._last else 0
        self._last = warp.number
        if self._streak >= _UNFAIR:
            self._priority[warp.number] = min(self._priority.values()) - self._random.random()
            self._streak = 0


class _Targeted(Adversarial):
    """About warps that come to certain instructions, in front of which turns end.

    Args:
        seed: of all other choices, as for `Adversarial`.
        places: indices of the instructions in the body of the kernel.
    """

    delay: str

    def __init__(self, seed: int, places: Collection[int]) -> None:
        super().__init__(seed, self.delay)
        self.quantum = _SHORT
        self.stops = self._places = frozenset(places)
        self._events = -1
        self._idle = 0

    def _at(self, warp: Warp) -> bool:
        """Whether lanes of a warp that can go on are about to execute one of the instructions."""
        return _about(warp, self._places)

    def _patient(self, warp: Warp) -> bool:
        """Whether there was an arrival, an operation or an end in the last turns: if not, those
        that run may spin for those that do not."""
        events = warp.machine.events
        self._idle = self._idle + 1 if events == self._events else 0
        self._events = events
        return self._idle < _PATIENT


def _about(warp: Warp, places: Collection[int]) -> bool:
    return any(g.condition is None and g.pc in places for g in warp.groups)


class Held(_Targeted):
    """Such warps go last, when nothing else can; operations execute at once.

    What others do until then has happened in full: a wait for the wrong phase, which would have
    returned earlier, finds the phases that it finds when its warp is slow.
    """

    delay = "early"

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        free = [index for index, warp in enumerate(ready) if not self._at(warp)]
        if len(free) == len(ready) or not (free or pending) or not self._patient(ready[0]):
            return super().pick(ready, pending)
        choice = super().pick([ready[index] for index in free], pending)
        return free[choice] if choice < len(free) else choice - len(free) + len(ready)


class Rushed(_Targeted):
    """The contrary: such warps go first, and operations execute when no warp can run, those of
    these warps' warpgroups before others, and else in the order in which they were issued. So a
    wait finds as little done of what it waits for as there can be.

    Args:
        always: they go first wherever they are, once they were there.
    """

    delay = "late"

    def __init__(self, seed: int, places: Collection[int], *, always: bool = False) -> None:
        super().__init__(seed, places)
        self._always = always
        self._rushed: set[int] = set()
        self._groups: set[tuple[int, int]] = set()

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        for warp in ready:
            if self._at(warp):
                self._rushed.add(warp.number)
                self._groups.add(warp.warpgroup)
        at = next((i for i, warp in enumerate(ready) if self._at(warp)), None)
        if at is None and self._always and ready and self._patient(ready[0]):
            at = next((i for i, warp in enumerate(ready) if warp.number in self._rushed), None)
        if at is not None:
            return at
        choice = super().pick(ready, pending)
        if choice < len(ready):
            return choice
        own = (i for i, one in enumerate(pending) if one.issuer.warpgroup in self._groups)
        return len(ready) + next(own, 0)


class Starved(_Targeted):
    """Such warps go first, as under `Rushed`, and what they wait for comes last: all other
    operations execute before, in the order in which they were issued, and warps that are about to
    arrive go when nothing else can. So a wait for the first of two copies behind the wait for the
    second one finds its phase incomplete, too; and returns False then.

    Args:
        seed: of all other choices.
        places: of the waits.
        arrivals: places of the arrivals that they wait for.
        lines: PTX lines of the operations that they wait for.
    """

    delay = "late"

    def __init__(
        self, seed: int, places: Collection[int], arrivals: Collection[int], lines: Collection[int]
    ) -> None:
        super().__init__(seed, places)
        self._arrivals = frozenset(arrivals)
        self.stops = self._places | self._arrivals
        self._lines = frozenset(lines)
        self._tested = -1
        self._first = False

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        self._first = False
        at = next((i for i, warp in enumerate(ready) if self._at(warp)), None)
        if at is not None:
            events = ready[at].machine.events
            self._first, self._tested = events != self._tested, events
            return at
        if ready and not self._patient(ready[0]):
            return super().pick(ready, pending)
        free = [i for i, warp in enumerate(ready) if not _about(warp, self._arrivals)]
        if free:
            return free[super().pick([ready[i] for i in free], ())]
        other = (i for i, one in enumerate(pending) if one.line not in self._lines)
        chosen = next(other, None)
        if chosen is not None:
            return len(ready) + chosen
        return super().pick(ready, ()) if ready else 0

    def spurious(self) -> bool:
        """Always at the first test after something has happened; whoever tests again comes to wait
        at some time."""
        return self._first or super().spurious()

    def __repr__(self) -> str:
        return "what waits without a loop wait for comes last"
