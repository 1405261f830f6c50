"""A warp: its registers, and where its lanes are.

Lanes that are at the same instruction form a group. One group executes at a time: `Warp.pc`,
`Warp.active` and `Warp.full` are its; the others are in `Warp.groups`. Groups merge when they come
to the same instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.conditions import Condition, Meeting
from schedgen.emulator.machine.lanes import LANES, Decoder, EmulationError, Lanes
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.machine.operations import Groups, Operation
from schedgen.emulator.machine.special import special
from schedgen.emulator.ptx.tree import Kernel

WARPGROUP = 4
"""Warps of a warpgroup."""
ALL: NDArray[np.bool_] = np.ones(LANES, np.bool_)
ALL.flags.writeable = False
ONES = ALL.tobytes()
"""Bytes of a predicate that is true in all lanes: comparing bytes is faster than ``all()``."""
NONE = bytes(LANES)
"""Bytes of a predicate that is true in no lane."""


class Span(Protocol):
    """Instructions that are executed in one go; ``end`` is the index of what follows them."""

    end: int


class Code(Protocol):
    """As much of its kernel as a warp needs; a `program.Program`.

    ``stretches[pc]`` is what begins at an instruction, None if it was not reached yet.
    """

    kernel: Kernel
    decoder: Decoder

    @property
    def stretches(self) -> Sequence[Span | None]:
        """By the index of the first instruction."""
        ...

    @property
    def ranks(self) -> list[int]:
        """The order in which divergent lanes run, by instruction."""
        ...


class Group:
    """Lanes of a warp that do not execute now, and the condition that they wait for, if any."""

    __slots__ = ("condition", "mask", "pc", "resumed")

    def __init__(self, pc: int, mask: NDArray[np.bool_], condition: Condition | None) -> None:
        self.pc = pc
        self.mask = mask
        self.condition = condition
        self.resumed: Condition | None = None


class Warp:
    """Satisfies `lanes.WarpState`. ``number`` is unique in the launch, ``rank`` in the CTA.

    ``siblings`` are the warps of the CTA, itself among them once they have all been made.
    """

    __slots__ = (
        "_special",
        "active",
        "alive",
        "block",
        "bulk",
        "carry",
        "cluster_generation",
        "copies",
        "finished",
        "full",
        "groups",
        "hold",
        "late",
        "local",
        "machine",
        "number",
        "pc",
        "program",
        "queued",
        "rank",
        "registers",
        "resumed",
        "shared_base",
        "siblings",
        "title",
        "tracked",
    )

    def __init__(self, block: Block, siblings: list[Warp], rank: int, program: Code) -> None:
        self.block = block
        self.siblings = siblings
        self.machine: Machine = block.machine
        self.program = program
        self.rank = rank
        self.number = block.number * self.machine.shape.warps + rank
        self.title = f"warp {rank} of {block.title}"
        """How messages name it."""
        self.registers: list[Lanes] = program.decoder.empty()
        self.carry: Lanes = np.zeros(LANES, np.bool_)
        """The carry flag of extended-precision arithmetic, CC.CF."""
        self.shared_base = block.base
        threads = min(LANES, self.machine.shape.threads - LANES * rank)
        self.alive: NDArray[np.bool_] = ALL if threads == LANES else np.arange(LANES) < threads
        self.active = self.alive
        self.full = threads == LANES
        self.pc = 0
        self.groups: list[Group] = [Group(0, self.alive, None)]
        """At first the lanes wait for their first turn."""
        self.resumed: Condition | None = None
        self.hold = True
        """Whether lanes that wait for a resource hold back those behind them."""
        self.late = False
        """Whether the lanes that come last in the control flow get this turn."""
        self.queued = False
        self.finished = False
        self.cluster_generation = -1
        """In which generation of the cluster's barrier it arrived since its last wait; or -1."""
        self.bulk = Groups("bulk")
        self.copies = Groups("cp.async")
        self.tracked: list[Operation] = []
        """cp.async operations since the last wait for all of them."""
        self._special: dict[str, Lanes] = {}
        self.local: Flat | None = None
        """Local memory of its lanes, one after the other, if the kernel has any."""

    @property
    def warpgroup(self) -> tuple[int, int]:
        """The number of its CTA, and of its warpgroup in it."""
        return self.block.number, self.rank // WARPGROUP

    def special(self, name: str) -> Lanes:
        """Lanes of a special register.

        Raises:
            EmulationError: it is not known.
        """
        lanes = self._special.get(name)
        if lanes is None:
            lanes, constant = special(self, name)
            if constant:
                self._special[name] = lanes
        return lanes

    def diverge(self, taken: NDArray[np.bool_], target: int) -> None:
        """Sends ``taken`` of the executing lanes to another instruction; the rest go on."""
        self.groups.append(Group(target, taken, None))
        self.active = self.active & ~taken
        self.full = False

    def rejoin(self) -> bool:
        """Between two stretches of a divergent warp: merges groups and goes on with the first.

        Returns whether one can run.
        """
        ranks = self.program.ranks
        pc = self.pc
        rank = ranks[pc]
        if not self.late:
            for group in self.groups:
                if group.pc == pc or ranks[group.pc] < rank:
                    break
            else:
                return True
        self.groups.append(Group(pc, self.active, None))
        return self.settle()

    def block_on(self, condition: Condition, pc: int) -> Group:
        """The executing lanes wait at an instruction."""
        group = Group(pc, self.active, condition)
        self.groups.append(group)
        return group

    def leave(self, lanes: NDArray[np.bool_]) -> bool:
        """Ends some of the executing lanes. Returns whether others of them go on."""
        self.alive = self.alive & ~lanes
        self.active = self.active & ~lanes
        self.full = False
        return bool(self.active.any())

    def settle(self) -> bool:
        """Goes on with the group that comes first in the control flow, if one can run.

        Before, the executing group must have been added to ``groups``. A group that waits for a
        resource holds back those that come after it, as reconvergence does in hardware, until the
        scheduler has nothing else to run (``hold``).

        Raises:
            EmulationError: the groups wait for each other (N4).
        """
        groups = self.groups
        if len(groups) == 1:
            group = groups[0]
            if group.condition is None or (
                isinstance(group.condition, Meeting) and self._met(group, group.condition)
            ):
                self.groups = []
                self._enter(group)
                return True
            return self._stuck()
        self._merge()
        return self._choose()

    def _choose(self) -> bool:
        ranks = self.program.ranks
        first: Group | None = None
        held = len(ranks)
        for group in self.groups:
            condition = group.condition
            if condition is None or (
                isinstance(condition, Meeting) and self._met(group, condition)
            ):
                if first is None or (ranks[group.pc] < ranks[first.pc]) is not self.late:
                    first = group
            elif not isinstance(condition, Meeting):
                held = min(held, ranks[group.pc])
        if first is None:
            return self._stuck()
        if self.hold and held < ranks[first.pc]:
            return False
        self.groups.remove(first)
        self._enter(first)
        return True

    def _enter(self, group: Group) -> None:
        self.pc = group.pc
        self.active = group.mask
        self.full = group.mask.tobytes() == ONES
        self.resumed = group.resumed

    def _merge(self) -> None:
        """Unites groups at the same instruction that wait for nothing but each other."""
        free: dict[int, Group] = {}
        merged: list[Group] = []
        for group in self.groups:
            if group.condition is not None and not isinstance(group.condition, Meeting):
                merged.append(group)
                continue
            other = free.get(group.pc)
            if other is None:
                free[group.pc] = group
                merged.append(group)
                continue
            other.mask = other.mask | group.mask
            other.condition = other.condition or group.condition
            other.resumed = other.resumed or group.resumed
        self.groups = merged

    def _met(self, group: Group, meeting: Meeting) -> bool:
        return not (meeting.needed & self.alive & ~group.mask).any()

    def _stuck(self) -> bool:
        """Nothing can run: fine if some lanes wait for a resource, else they wait for others."""
        if not self.groups or any(not isinstance(g.condition, Meeting) for g in self.groups):
            return False
        body = self.program.kernel.body
        places = "; ".join(
            f"lanes {lanes_text(group.mask)} at PTX line {body[group.pc].line}: "
            f"{body[group.pc].name}"
            for group in sorted(self.groups, key=lambda group: group.pc)
        )
        raise EmulationError(
            f"{self.title}: its lanes wait for each other at different instructions ({places}); "
            "all lanes of the warp must execute an .aligned instruction, and all of the member "
            "mask a .sync one (rule N4)"
        )


def company(warp: Warp) -> list[Warp]:
    """Other warps of its warpgroup that may have a turn, too, and have come to the same place as
    it, all of them with all lanes."""
    place = _place(warp)
    if place < 0:
        return []
    first = warp.rank - warp.rank % WARPGROUP
    group = warp.siblings[first : first + WARPGROUP]
    return [other for other in group if other.queued and _place(other) == place]


def _place(warp: Warp) -> int:
    """Where all lanes of a warp go on; -1: they are in different places, or have to wait."""
    if len(warp.groups) != 1:
        return -1
    (group,) = warp.groups
    return group.pc if group.condition is None and group.mask.tobytes() == ONES else -1


def lanes_text(mask: NDArray[np.bool_]) -> str:
    """Lanes as ``0-3,8``."""
    numbers = np.flatnonzero(mask).tolist()
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
