"""What the GPU will execute: one list of steps per role, with every barrier, fence and wait.

A role works through tiles. For each tile it runs ``before``, then its loop, then ``after``. The
loop is software-pipelined: a step with ``shift`` s belongs to iteration ``i = t - s`` in loop turn
t, and runs only where its guard holds for i. Turns go from 0 to ``max(trips, 1) + shifts - 1``, so
trip counts of 0 and 1 are ordinary cases: `schedgen.program.sequence` is the definition.

Slots and phases are expressions of a running number. ``Number`` gives it as ``scale * c + offset``
where c counts iterations over all tiles (or tiles, if ``per_tile``). A ring of D slots uses slot
``number mod D``; the mbarrier of that slot is in phase ``number div D``. Waiting for a negative
number succeeds on a fresh barrier for the first turn of the ring: these are the initial credits.

What orders two events
    * the steps of a role, one after the other;
    * a wait for number k happens after all arrivals, commits and copied bytes of number k;
    * an asynchronous operation happens between its step and its completion, which only a barrier or
      a wait_group makes known; operations of one in-order engine complete in the order of their
      steps;
    * a commit arrives once everything that its role issued to the tensor queue before is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

from schedgen.program.operations import Allocation, Engine, Number, TileOperation
from schedgen.roles import RoleKind

MEETINGS = ("role", "roles", "warp")
"""Kinds of barriers at which threads meet: each of them arrives and waits, in one instruction."""
NUMBERED = ("named", "pace")
"""Kinds at which one role arrives and another waits; each slot is a barrier of the hardware."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """An array of ``slots`` barriers; each phase takes ``arrivals`` arrivals and ``bytes`` copied
    bytes.

    ``kind`` is ``mbarrier`` for words in shared memory, ``named`` for one of the numbered barriers
    of the hardware, ``role`` for such a one at which the warps of a single role meet, ``roles`` for
    one at which those of several do, ``warp`` for none at all, where the threads of each warp of a
    role meet on their own: each step that arrives at one of the last three is followed by the one
    that waits. ``pace`` is a named one that keeps two roles to the order of the schedule: nothing
    needs it but speed (`schedgen.synchronize.pacing`). Who waits there or at a named one is not
    among the ``arrivals``. ``skipped`` are numbers that nobody produces (a ring that a lagging
    buffer enters late); their phases are completed when the barriers are initialized; those of
    ``pace`` by a `Grant` of the role that arrives there. ``protects`` says what for,
    ``allocations`` has those whose data or free slots it makes known; of ``pace``, the unit.
    """

    name: str
    kind: str
    slots: int
    arrivals: int
    bytes: int
    skipped: tuple[int, ...] = ()
    protects: tuple[str, ...] = ()
    allocations: tuple[str, ...] = ()


# -- steps -------------------------------------------------------------------------------------


class When(StrEnum):
    """Which iterations of a tile a guard is about, see `Guard`."""

    EVERY = "every"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Guard:
    """In which iterations i of a tile with n of them a step of the loop runs.

    ``every``: low <= i < n - high. ``first``: i = 0 if n >= low. ``last``: i = max(n, 1) - 1 if
    n >= low. With low = 0 the last two run exactly once per tile, even if it has no iterations.
    """

    kind: When = When.EVERY
    low: int = 0
    high: int = 0

    def holds(self, i: int, trips: int) -> bool:
        if self.kind is When.EVERY:
            return self.low <= i < trips - self.high
        return trips >= self.low and i == (0 if self.kind is When.FIRST else max(trips, 1) - 1)


EVERY, FIRST, LAST = Guard(), Guard(When.FIRST), Guard(When.LAST)


@dataclass(frozen=True, slots=True)
class Run:
    """Executes or issues an operation; a bulk load reports its bytes to ``barrier``."""

    operation: str
    barrier: str | None = None
    number: Number | None = None
    bytes: int = 0
    do: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Wait:
    """Blocks until phase ``number`` of the barrier is complete."""

    barrier: str
    number: Number
    do: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True)
class Arrive:
    """``count`` arrivals of the role's threads, as many of each warp; with ``bytes`` it expects
    that many more.
    """

    barrier: str
    number: Number
    count: int
    bytes: int = 0
    do: Literal["arrive"] = "arrive"


@dataclass(frozen=True, slots=True)
class Commit:
    """One arrival when the tensor queue has finished all that this role issued so far."""

    barrier: str
    number: Number
    do: Literal["commit"] = "commit"


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Blocks until the instance of ``operation`` from ``lag`` iterations before, and all that the
    role issued to the same engine before that, is complete (or has been read, for a bulk store).

    It looks back within its tile only, outside of the loop for the last instance of the tile.
    """

    operation: str
    lag: int = 0
    do: Literal["wait_group"] = "wait_group"


class FenceKind(StrEnum):
    """Fences and waits that make this role's own accesses visible elsewhere."""

    ASYNC_PROXY = "fence.proxy.async"
    """Shared-memory accesses by threads before, bulk copies and tensor core after."""
    TMEM_LOADED = "tcgen05.wait::ld"
    """Tensor-memory loads of these threads have completed."""
    TMEM_STORED = "tcgen05.wait::st"
    """Tensor-memory stores of these threads have completed."""
    TMEM_BEFORE = "tcgen05.fence::before_thread_sync"
    TMEM_AFTER = "tcgen05.fence::after_thread_sync"
    REGISTERS = "wgmma.fence"
    """Register accesses by threads before, tensor core after."""


@dataclass(frozen=True, slots=True)
class Fence:
    kind: FenceKind
    do: Literal["fence"] = "fence"


Action = Run | Wait | Arrive | Commit | WaitGroup | Fence


@dataclass(frozen=True, slots=True)
class Step:
    """An action at a place of a role's list; ``why`` says what it is there for."""

    action: Action
    shift: int = 0
    guard: Guard = EVERY
    why: str = ""


# -- what surrounds the steps ------------------------------------------------------------------


PRODUCTS = "products"
"""The barrier that tells, once, when a role's products are complete (`Finish`)."""


@dataclass(frozen=True, slots=True)
class Initialize:
    """One thread makes the slots of a barrier, each for so many arrivals, and completes the phases
    of numbers that nobody produces.
    """

    barrier: str
    arrivals: int
    do: Literal["initialize"] = "initialize"


@dataclass(frozen=True, slots=True)
class Publish:
    """Makes initialized barriers visible to other threads and to copies and tensor cores."""

    do: Literal["publish"] = "publish"


@dataclass(frozen=True, slots=True)
class Meet:
    """All threads of the block wait for each other."""

    do: Literal["meet"] = "meet"


@dataclass(frozen=True, slots=True)
class Allocate:
    """One warp allocates columns of tensor memory and writes their address to shared memory."""

    columns: int
    do: Literal["allocate"] = "allocate"


@dataclass(frozen=True, slots=True)
class Free:
    """One warp gives columns of tensor memory back."""

    columns: int
    do: Literal["free"] = "free"


@dataclass(frozen=True, slots=True)
class AwaitKernel:
    """Until the kernel before this one has ended and its writes are visible."""

    do: Literal["await kernel"] = "await kernel"


@dataclass(frozen=True, slots=True)
class ReleaseKernel:
    """Lets the next kernel start; it waits for this one to end in turn."""

    do: Literal["release kernel"] = "release kernel"


@dataclass(frozen=True, slots=True)
class Budget:
    """The warpgroup of a role has so many registers per thread from now on."""

    registers: int
    do: Literal["budget"] = "budget"


@dataclass(frozen=True, slots=True)
class Grant:
    """All threads of the role arrive for number ``number`` of a barrier, which no step provides."""

    barrier: str
    number: int
    do: Literal["grant"] = "grant"


@dataclass(frozen=True, slots=True)
class Finish:
    """Blocks until all that the role issued to an engine is complete, or read for bulk stores."""

    engine: Engine
    do: Literal["finish"] = "finish"


SetUp = Initialize | Publish | Meet | Allocate | AwaitKernel | ReleaseKernel
"""What the threads of a block do before their roles."""
TearDown = Meet | Fence | Free | AwaitKernel
"""And after them."""


@dataclass(frozen=True, slots=True)
class RoleProgram:
    """What the ``warps`` warps of a role do for each tile; ``registers`` per thread.

    ``enter`` comes before the first tile, ``leave`` after the last one. ``open`` is what each tile
    begins with, once registers have their initial values. Several ``teams`` of so many warps take
    tiles in turn (`schedgen.program.pingpong`). ``threads_of``: whose threads a part of a role has.
    """

    name: str
    warps: int
    registers: int
    before: tuple[Step, ...] = ()
    loop: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    enter: tuple[Budget | Grant, ...] = ()
    open: tuple[Fence, ...] = ()
    leave: tuple[Finish | Fence, ...] = ()
    teams: int = 1
    threads_of: str = ""

    @property
    def all_warps(self) -> int:
        return self.warps * self.teams

    @property
    def owner(self) -> str:
        """Whose registers its threads have."""
        return self.threads_of or self.name

    @property
    def kind(self) -> RoleKind:
        """A warp that issues, or a warpgroup whose threads work."""
        return RoleKind.of(self.warps)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Registers that its warpgroup takes before the first tile."""
        return tuple(step for step in self.enter if isinstance(step, Budget))

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What it arrives for after that."""
        return tuple(step for step in self.enter if isinstance(step, Grant))

    @property
    def shifts(self) -> int:
        """Loop turns that the pipeline needs beyond the trip count."""
        return max((step.shift for step in self.loop), default=0)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.before, *self.loop, *self.after)


@dataclass(frozen=True, slots=True)
class Removal:
    """An order that needs no barrier, and what gives it instead."""

    before: str
    after: str
    allocation: str
    reason: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capacities:
    """What the machine has: bytes, columns, registers per thread of all warpgroups together."""

    smem_bytes: int
    tmem_columns: int
    registers_per_thread_sum: int
    max_registers: int
    warps: int
    named_barriers: int = 16


@dataclass(frozen=True)
class Program:
    """A synchronized kernel. Everything that proof, interpretation and emission need, and no more.

    ``handoff`` are the cycles from an arrival to the end of a wait, [low, high]. ``setup`` is what
    all threads do before they take up their roles, ``teardown`` what they do after them.
    """

    kernel: str
    target: str
    arch: str
    spec_sha256: str
    ii_cycles: int
    trips: int
    capacities: Capacities
    allocations: tuple[Allocation, ...]
    operations: tuple[TileOperation, ...]
    barriers: tuple[Barrier, ...]
    roles: tuple[RoleProgram, ...]
    handoff: tuple[int, int] = (0, 0)
    removals: tuple[Removal, ...] = field(default=())
    setup: tuple[SetUp, ...] = ()
    teardown: tuple[TearDown, ...] = ()

    @property
    def paced(self) -> tuple[str, ...]:
        """The units on which roles are kept to the order of the schedule."""
        of = (barrier.allocations for barrier in self.barriers if barrier.kind == "pace")
        return tuple(dict.fromkeys(unit for units in of for unit in units))

    @cached_property
    def allocation(self) -> dict[str, Allocation]:
        return {allocation.name: allocation for allocation in self.allocations}

    @cached_property
    def operation(self) -> dict[str, TileOperation]:
        return {operation.name: operation for operation in self.operations}

    @cached_property
    def barrier(self) -> dict[str, Barrier]:
        return {barrier.name: barrier for barrier in self.barriers}

    @cached_property
    def role(self) -> dict[str, RoleProgram]:
        return {role.name: role for role in self.roles}
