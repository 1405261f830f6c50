"""In which order, and which of them together, elementwise instructions in a row are computed.

Values lie one behind the other: in banks, each the inputs of one type or the results of a group.
Operands that are neighbours in a bank, and registers that are written from neighbours, are taken
from it as one part; inputs are put in an order that makes them so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from schedgen.emulator.machine.elementwise import Compute, Elementwise, Source, Target
from schedgen.emulator.machine.lanes import Lanes


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbours in a bank: ``count`` values from place ``start`` on, of ``size``."""

    bank: int
    start: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Operand:
    """Where one operand of the instructions of a group comes from: values one by one; or, where
    there are none and the source is no literal, a part of a bank."""

    source: Source
    values: tuple[int, ...] = ()
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Bank:
    """Values of one type in a row: ``count`` from number ``first`` on. ``single``: whether some of
    them are needed one by one."""

    first: int
    count: int
    single: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions of one ``key`` that are computed together, and the banks of their targets, from
    ``bank`` on."""

    key: Hashable
    compute: Compute
    operands: tuple[Operand, ...]
    targets: tuple[Target, ...]
    bank: int


class Plan:
    """Which instructions of a run are computed together, and in which order.

    A value is a register that is read before it is written, an input, or a result. Before they have
    an order, results are named ``(index of the instruction, index of the target)``.

    Args:
        steps: the instructions.
        wanted: registers that have to hold, at the end, what the run leaves in them; None: all.
            What the run reads from before is wanted in any case.

    Attributes:
        inputs: registers, by the bank that they are in.
        banks: those of inputs, of literals that are moved, and of results.
        constants: of each bank of literals, which have one each.
        outputs: registers, in the order of ``results``: parts of banks, or values by themselves.
    """

    def __init__(self, steps: Sequence[Elementwise], wanted: Collection[int] | None = None) -> None:
        self._steps = steps
        self._read: list[tuple[Hashable, ...]] = []
        """Of each instruction, what it reads: ``None`` for a literal."""
        self._types: dict[Hashable, object] = {}
        """Of inputs, in the order in which they are read: the types in which they are kept."""
        self._constants: dict[Hashable, Lanes] = {}
        last = self._name()
        if wanted is not None:
            last = {s: v for s, v in last.items() if s in wanted or ("input", s) in self._types}
        order = self._order()
        self._numbers: dict[Hashable, int] = {}
        self._places: dict[Hashable, tuple[int, int]] = {}
        """Of a value: its bank, and its place in that."""
        self._sizes: list[int] = []
        banks = self._inputs(order)
        self.inputs = [[slot for _, slot in bank] for bank in banks]
        self.constants = tuple(self._constants.values())
        self._number(order, banks)
        self._single: set[Hashable] = set()
        self.groups = [self._group(members) for members in order]
        self.outputs: list[int] = []
        self.results: list[Part | int] = []
        self._finish({slot: name for slot, name in last.items() if slot >= 0})
        self.banks = self._banks()

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
                    self._types.setdefault(("input", source.slot), source.kept)
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

    def _inputs(self, order: list[list[int]]) -> list[list[tuple[str, int]]]:
        """Inputs by type, in an order in which operands of a group are neighbours if they can."""
        banks: dict[object, dict[Hashable, None]] = {}
        for names in self._taken(order):
            known = banks.setdefault(self._types[names[0]], {})
            if len(set(names)) == len(names) and known.keys().isdisjoint(names):
                known.update(dict.fromkeys(names))
        for name, type_ in self._types.items():
            banks.setdefault(type_, {}).setdefault(name)
        return [[cast("tuple[str, int]", name) for name in bank] for bank in banks.values()]

    def _taken(self, order: list[list[int]]) -> Iterator[list[Hashable]]:
        """Operands of groups that are inputs, all of them."""
        for members in order:
            for at, source in enumerate(self._steps[members[0]].sources):
                names = [self._read[index][at] for index in members]
                if source.constant is None and all(name in self._types for name in names):
                    yield names

    def _number(self, order: list[list[int]], banks: Sequence[Sequence[Hashable]]) -> None:
        """Gives numbers and places to values: inputs, literals that are moved, results by group and
        target."""
        rows = [*banks, *([name] for name in self._constants)]
        for members in order:
            for at in range(len(self._steps[members[0]].targets)):
                rows.append([(index, at) for index in members])
        for bank, names in enumerate(rows):
            self._sizes.append(len(names))
            for place, name in enumerate(names):
                self._numbers[name] = len(self._numbers)
                self._places[name] = bank, place

    def _group(self, members: list[int]) -> Group:
        first = self._steps[members[0]]
        assert first.compute is not None
        operands = tuple(self._operand(members, at) for at in range(len(first.sources)))
        bank, _ = self._places[members[0], 0]
        return Group(first.key, first.compute, operands, first.targets, bank)

    def _operand(self, members: list[int], at: int) -> Operand:
        source = self._steps[members[0]].sources[at]
        if source.constant is not None:
            return Operand(source)
        names = [self._read[index][at] for index in members]
        part = self._part(names)
        if part is not None:
            return Operand(source, (), part)
        self._single.update(names)
        return Operand(source, tuple(self._numbers[name] for name in names))

    def _part(self, names: Sequence[Hashable]) -> Part | None:
        """The part of a bank that values are, in their order."""
        bank, start = self._places[names[0]]
        places = map(self._places.__getitem__, names)
        if all(place == (bank, start + n) for n, place in enumerate(places)):
            return Part(bank, start, len(names), self._sizes[bank])
        return None

    def _finish(self, last: dict[int, Hashable]) -> None:
        """Finds parts of banks that are written to registers."""
        runs: list[list[tuple[int, Hashable]]] = []
        bank, place = -1, 0
        for slot, name in sorted(last.items(), key=lambda one: self._places[one[1]]):
            if self._places[name] == (bank, place + 1):
                runs[-1].append((slot, name))
            else:
                runs.append([(slot, name)])
            bank, place = self._places[name]
        for run in runs:
            self.outputs += [slot for slot, _ in run]
            part = self._part([name for _, name in run])
            assert part is not None
            if part.count == 1 < part.size:
                self._single.add(run[0][1])
                self.results.append(self._numbers[run[0][1]])
            else:
                self.results.append(part)

    def _banks(self) -> list[Bank]:
        single = {self._places[name][0] for name in self._single}
        banks: list[Bank] = []
        first = 0
        for number, count in enumerate(self._sizes):
            banks.append(Bank(first, count, number in single))
            first += count
        return banks
