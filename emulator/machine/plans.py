"""In which order, and which of them together, elementwise instructions in a row are computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from schedgen.emulator.machine.elementwise import Compute, Elementwise, Source, Target
from schedgen.emulator.machine.lanes import Lanes


@dataclass(frozen=True, slots=True)
class Operand:
    """Where one operand of the instructions of a group comes from.

    ``values`` one by one; or, where there are none and the source is no literal, results ``result``
    of an earlier group, ``size`` in number, from place ``start`` on.
    """

    source: Source
    values: tuple[int, ...] = ()
    result: int = -1
    size: int = 0
    start: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions that are computed together.

    ``first`` is the number of the first value among its results, ``result`` counts targets of
    groups; ``kept`` says of each target whether its values are needed one by one.
    """

    count: int
    compute: Compute
    operands: tuple[Operand, ...]
    targets: tuple[Target, ...]
    first: int
    result: int
    kept: tuple[bool, ...]


class Plan:
    """Which instructions of a run are computed together, and in which order.

    A value is a register that is read before it is written, an input, or a result. Before they have
    an order, results are named ``(index of the instruction, index of the target)``.

    Args:
        steps: the instructions.
        wanted: registers that have to hold, at the end, what the run leaves in them; None: all.
            What the run reads from before is wanted in any case.
    """

    def __init__(self, steps: Sequence[Elementwise], wanted: Collection[int] | None = None) -> None:
        self._steps = steps
        self.inputs: list[int] = []
        self.groups: list[Group] = []
        self._read: list[tuple[Hashable, ...]] = []
        """Of each instruction, what it reads: ``None`` for a literal."""
        self._constants: dict[Hashable, Lanes] = {}
        last = self._name()
        if wanted is not None:
            last = {slot: v for slot, v in last.items() if slot in wanted or slot in self.inputs}
        self._numbers: dict[Hashable, int] = {}
        self._places: dict[Hashable, tuple[int, int]] = {}
        """Of a result: the number of the result of its group, and its place in that."""
        self._sizes: list[int] = []
        """Of the results of a group: how many these are."""
        order = self._order()
        self._number(order)
        single = set(last.values())
        operands = [self._operands(members, single) for members in order]
        for members, found in zip(order, operands, strict=True):
            first = self._steps[members[0]]
            assert first.compute is not None
            kept = tuple(
                any((index, at) in single for index in members) for at in range(len(first.targets))
            )
            result, _ = self._places[members[0], 0]
            number = self._numbers[members[0], 0]
            self.groups.append(
                Group(len(members), first.compute, found, first.targets, number, result, kept)
            )
        self.constants = tuple(self._constants.values())
        self.outputs = {slot: self._numbers[name] for slot, name in last.items() if slot >= 0}

    def _name(self) -> dict[int, Hashable]:
        """Names values, also those of moves; returns what each written register holds at last."""
        last: dict[int, Hashable] = {}
        for index, step in enumerate(self._steps):
            read: list[Hashable] = []
            for at, source in enumerate(step.sources):
                if source.constant is not None:
                    read.append(None)
                elif source.slot in last:
                    read.append(last[source.slot])
                else:
                    if source.slot not in self.inputs:
                        self.inputs.append(source.slot)
                    read.append(("input", source.slot))
                if step.compute is None and source.constant is not None:
                    read[at] = ("constant", index)
                    self._constants["constant", index] = step.targets[0].of(source.constant)
            self._read.append(tuple(read))
            for at, target in enumerate(step.targets):
                last[target.slot] = read[0] if step.compute is None else (index, at)
        return last

    def _order(self) -> list[list[int]]:
        """Groups of instructions, each behind those that it needs: the largest that is ready."""
        computing = [i for i, step in enumerate(self._steps) if step.compute is not None]
        followers: dict[int, list[int]] = defaultdict(list)
        missing = dict.fromkeys(computing, 0)
        for index in computing:
            for name in set(self._read[index]):
                if isinstance(name, tuple) and isinstance(name[0], int):
                    followers[name[0]].append(index)
                    missing[index] += 1
        ready: dict[Hashable, list[int]] = defaultdict(list)
        for index in computing:
            if not missing[index]:
                ready[self._steps[index].key].append(index)
        order: list[list[int]] = []
        while ready:
            key = max(ready, key=lambda one: (len(ready[one]), -min(ready[one])))
            members = sorted(ready.pop(key))
            order.append(members)
            for index in members:
                for follower in followers[index]:
                    missing[follower] -= 1
                    if not missing[follower]:
                        ready[self._steps[follower].key].append(follower)
        return order

    def _number(self, order: list[list[int]]) -> None:
        """Numbers values: inputs, literals that are moved, results by group and target."""
        names: list[Hashable] = [("input", slot) for slot in self.inputs]
        names += self._constants
        results = 0
        for members in order:
            for at in range(len(self._steps[members[0]].targets)):
                for place, index in enumerate(members):
                    self._places[index, at] = results, place
                    names.append((index, at))
                results += 1
                self._sizes.append(len(members))
        self._numbers = {name: number for number, name in enumerate(names)}

    def _operands(self, members: list[int], single: set[Hashable]) -> tuple[Operand, ...]:
        """The operands of a group; adds to ``single`` the values that it needs one by one."""
        found: list[Operand] = []
        for at, source in enumerate(self._steps[members[0]].sources):
            names = [self._read[index][at] for index in members]
            if source.constant is not None:
                found.append(Operand(source))
                continue
            places = [self._places.get(name) for name in names]
            result, start = places[0] or (-1, 0)
            if places == [(result, start + n) for n in range(len(places))]:
                found.append(Operand(source, (), result, self._sizes[result], start))
                continue
            single.update(names)
            found.append(Operand(source, tuple(self._numbers[name] for name in names)))
        return tuple(found)
