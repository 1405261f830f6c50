"""Elementwise instructions in a row, as one function that computes them.

Unrolled code does the same to many registers: 64 values of a row are scaled, exponentiated,
converted. Within a run of instructions that have no effect but on registers, those that do the same
and do not need each other are computed by one call of numpy on all of their lanes. Which ones that
are is decided once, by their dependences (`plans`), and written down as a Python function, so that
operands need not be looked up any more. Results are those of one instruction after the other, lane
by lane. Warps that are in the same place may have theirs computed by one call, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from schedgen.emulator.machine.elementwise import Elementwise, Source, repeated
from schedgen.emulator.machine.lanes import LANES, Lanes, WarpState, gathered
from schedgen.emulator.machine.plans import Group, Operand, Part, Plan
from schedgen.emulator.native.runs import Native, native

_ARRAYS = {np.ndarray}


Taking = Callable[[list[Lanes]], Sequence[Lanes]]
"""Takes some of the registers of a warp."""


class Run(NamedTuple):
    """What a run computes: its function, what takes the registers for it, where banks begin and end
    in these, the registers in the order in which it reads them, and those that it returns."""

    function: Function
    take: Taking
    banks: Sequence[tuple[int, int]]
    read: Sequence[int]
    outputs: Sequence[int]


class Functions:
    """Functions of runs that were met, by what the runs are but for the numbers of registers.

    Code that is unrolled around loads or stores has the same run many times.
    """

    def __init__(self) -> None:
        self._known: dict[
            Hashable, tuple[Function, list[tuple[int, int]], list[int], list[int]]
        ] = {}
        """With registers as numbers in the order in which they are met."""
        self._types: dict[Hashable, list[np.dtype[Any]]] = {}
        """Of results, by the key of instructions."""

    def of(self, steps: Sequence[Elementwise], wanted: Collection[int] | None = None) -> Run:
        """What a run computes; only some of the registers that it writes are ``wanted``."""
        places: dict[int, int] = {}
        for step in steps:
            for one in (*step.sources, *step.targets):
                places.setdefault(one.slot, len(places))
        shape = tuple(
            (
                step.key, step.compute,
                tuple([(places[one.slot], one.seen) for one in step.sources]),
                tuple([places[one.slot] for one in step.targets]),
            )
            for step in steps
        )  # fmt: skip
        kept = None if wanted is None else tuple([slot in wanted for slot in places])
        known = self._known.get((shape, kept))
        if known is None:
            plan = Plan(steps, wanted)
            inputs = [places[slot] for bank in plan.inputs for slot in bank]
            ends = [*accumulate(map(len, plan.inputs))]
            banks = [*zip([0, *ends], ends, strict=False)]
            function = _Writer(plan, self._types).function()
            known = function, banks, inputs, [places[slot] for slot in plan.outputs]
            self._known[shape, kept] = known
        function, banks, inputs, outputs = known
        slots = list(places)
        take = _taking([slots[place] for place in inputs])
        read = [slots[place] for place in sorted(inputs)]
        return Run(function, take, banks, read, [slots[place] for place in outputs])


class Joined:
    """A step: instructions in a row, all elementwise.

    Args:
        steps: the instructions.
        functions: of other runs, where one of these may be found.
        wanted: registers that instructions outside of the run have, if that is known; what it
            writes to others is not kept unless it reads it when it is executed again.
        compiled: as machine code, if there is some for all of the instructions.

    Attributes:
        failed: the step in which an error was met.
    """

    def __init__(
        self,
        steps: Sequence[Elementwise],
        functions: Functions | None = None,
        wanted: Collection[int] | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        self.steps = tuple(steps)
        self.failed: object = None
        self._functions = functions or Functions()
        self._wanted = wanted
        self._native = native(self.steps, wanted) if compiled else None

    @cached_property
    def _run(self) -> Run:
        return self._functions.of(self.steps, self._wanted)

    def __call__(self, warp: WarpState) -> None:
        """Executes the run for the executing lanes of a warp.

        Raises:
            EmulationError: a register must not be touched yet.
        """
        if self._native is not None:
            self._by_itself(self._native, warp)
        elif not warp.full or len(self.steps) == 1:
            self._one_by_one(warp)
        elif not self.together((warp,)):
            self.settle(warp)
            self.together((warp,))

    def _by_itself(self, run: Native, warp: WarpState) -> None:
        registers = warp.registers
        self.failed = self.steps[0]
        done = run.full(registers) if warp.full else run.masked(warp.active, registers)
        if done:
            return
        if not warp.full:
            self._one_by_one(warp)
            return
        self.settle(warp)
        run.full(registers)

    def settle(self, warp: WarpState) -> None:
        """Lets registers that the run reads have lanes instead of promises, in their order.

        Raises:
            EmulationError: one must not be touched yet.
        """
        registers: list[Any] = warp.registers
        promised = [slot for slot in self._read if type(registers[slot]) is not np.ndarray]
        while promised:
            slot = promised[0]
            try:
                promised = _kept_promises(registers, promised)
            except BaseException:
                self.failed = self._reader(slot)
                raise

    def together(self, warps: Sequence[WarpState]) -> bool:
        """Executes the run for all lanes of some warps; False: nothing was done, as registers have
        promises (`settle`)."""
        self.failed = self.steps[0]  # where a run begins
        if self._native is not None:
            return self._native.full(*[warp.registers for warp in warps])
        function, take, banks, _, outputs = self._run
        count = len(warps)
        every = [warp.registers for warp in warps]
        flat = take(every[0])
        if count > 1:
            flat = [*chain.from_iterable(zip(flat, *map(take, every[1:]), strict=True))]
        if flat and {*map(type, flat)} != _ARRAYS:
            return False
        results = function.of(count)([gathered(flat[count * a : count * b]) for a, b in banks])
        rows: Sequence[Lanes] = results
        if count > 1 or len(results) != len(outputs):
            rows = [*chain.from_iterable(result.reshape(-1, LANES) for result in results)]
        for at, registers in enumerate(every):
            for slot, lanes in zip(outputs, rows[at::count], strict=True):
                registers[slot] = lanes
        return True

    @cached_property
    def _read(self) -> Sequence[int]:
        """Registers that are read before they are written, in their order."""
        written: set[int] = set()
        found: dict[int, None] = {}
        for step in self.steps:
            for source in step.sources:
                if source.slot >= 0 and source.slot not in written:
                    found.setdefault(source.slot)
            written.update(target.slot for target in step.targets)
        return [*found]

    def _reader(self, slot: int) -> Elementwise:
        """The first step that reads a register."""
        return next(s for s in self.steps if any(source.slot == slot for source in s.sources))

    def _one_by_one(self, warp: WarpState) -> None:
        for step in self.steps:
            self.failed = step
            step.run(warp)


def _kept_promises(registers: list[Any], slots: list[int]) -> list[int]:
    """Lets those of some registers that the owner of the first one brings have lanes; returns the
    others."""
    first = registers[slots[0]]
    owner = first.owner
    mine = [slot for slot in slots if registers[slot].owner is owner]
    lanes = owner.several([registers[slot].index for slot in mine])
    for slot, one in zip(mine, lanes, strict=True):
        promise, registers[slot] = registers[slot], one
        if promise.slot != slot and registers[promise.slot] is promise:
            registers[promise.slot] = one
    return [slot for slot in slots if type(registers[slot]) is not np.ndarray]


def _taking(slots: Sequence[int]) -> Taking:
    """What takes some of the registers."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return lambda registers: [registers[slot] for slot in slots]


Compute = Callable[[list[Lanes]], tuple[Lanes, ...]]
"""Takes the banks of inputs, returns what is written to registers, several ones in a row."""


class Function:
    """What a run computes, for the lanes of one warp or of several.

    Args:
        text: of a Python function ``compute``.
        known: what its names mean that are not its own.
        sized: those of them that depend on the number of lanes.
    """

    def __init__(
        self, text: str, known: dict[str, Any], sized: dict[str, Callable[[int], Any]]
    ) -> None:
        self._code = compile(text, "<joined instructions>", "exec")
        self._known = known
        self._sized = sized
        self._made: dict[int, Compute] = {}

    def of(self, warps: int) -> Compute:
        """The function for so many warps."""
        found = self._made.get(warps)
        if found is None:
            sized = {name: make(warps * LANES) for name, make in self._sized.items()}
            names = {**self._known, **sized}
            exec(self._code, names)
            found = self._made[warps] = cast(Compute, names["compute"])
        return found


class _Writer:
    """Writes the function of a plan. Names: ``v3`` a value, ``b3`` a bank, ``k3`` something that is
    known now, ``s3`` something that is known with the number of lanes."""

    def __init__(self, plan: Plan, types: dict[Hashable, list[np.dtype[Any]]]) -> None:
        self._plan = plan
        self._types = types
        self._known: dict[str, Any] = {"gathered": gathered}
        self._sized: dict[str, Callable[[int], Any]] = {}
        self._names: dict[object, str] = {}
        self._lines = ["def compute(inputs):"]

    def function(self) -> Function:
        plan = self._plan
        if plan.inputs:
            self._line(f"{_tuple('b', range(len(plan.inputs)))} = inputs")
        for bank in range(len(plan.inputs)):
            self._values(bank)
        for bank, constant in enumerate(plan.constants, len(plan.inputs)):
            self._sized[f"b{bank}"] = partial(repeated, constant, 1)
            self._values(bank)
        for group in plan.groups:
            self._group(group)
        results = "".join(
            f"{self._part(one) if isinstance(one, Part) else f'v{one}'}, " for one in plan.results
        )
        self._line(f"return ({results})")
        return Function("\n".join(self._lines), self._known, self._sized)

    def _line(self, text: str) -> None:
        self._lines.append(f"    {text}")

    def _name(self, thing: object) -> str:
        """The name of something that is known now."""
        name = self._names.get(id(thing))
        if name is None:
            name = self._names[id(thing)] = f"k{len(self._names)}"
            self._known[name] = thing
        return name

    def _later(self, key: Hashable, make: Callable[[int], Any]) -> str:
        """The name of something that depends on the number of lanes."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"s{len(self._names)}"
            self._sized[name] = make
        return name

    def _group(self, group: Group) -> None:
        count = self._plan.banks[group.bank].count
        arguments = ", ".join(self._operand(one, count) for one in group.operands)
        call = f"{self._name(group.compute)}({arguments})"
        banks = range(group.bank, group.bank + len(group.targets))
        types = self._types.get(group.key)
        if types is None:
            types = self._types[group.key] = _types(group)
        if len(banks) > 1:
            self._line(f"{_tuple('b', banks)} = {call}")
        for bank, target, type_ in zip(banks, group.targets, types, strict=True):
            text = f"b{bank}" if len(banks) > 1 else call
            if type_ != target.kept:
                same = type_.itemsize == np.dtype(target.kept).itemsize
                text += f".{'view' if same else 'astype'}({self._name(target.kept)})"
            if text != f"b{bank}":
                self._line(f"b{bank} = {text}")
            self._values(bank)

    def _values(self, number: int) -> None:
        """Gives names to the values of a bank, if they are needed one by one."""
        bank = self._plan.banks[number]
        if bank.single and bank.count == 1:
            self._line(f"v{bank.first} = b{number}")
        elif bank.single:
            rows = _tuple("v", range(bank.first, bank.first + bank.count))
            shape = self._later(("rows", bank.count), partial(_rows, bank.count))
            self._line(f"{rows} = b{number}.reshape({shape})")

    def _operand(self, operand: Operand, count: int) -> str:
        source = operand.source
        if source.constant is not None:
            key = "constant", id(source.constant), count
            return self._later(key, partial(repeated, source.constant, count))
        if operand.part is None:
            return self._seen(_gathered(operand.values), source)
        return self._seen(self._part(operand.part), source)

    def _part(self, part: Part) -> str:
        if part.count == part.size:
            return f"b{part.bank}"
        stop = part.start + part.count
        key = self._later(("part", part.start, stop), partial(_slice, part.start, stop))
        return f"b{part.bank}[{key}]"

    def _seen(self, text: str, source: Source) -> str:
        if source.seen is None:
            return text
        if np.dtype(source.seen).itemsize == np.dtype(source.kept).itemsize:
            return f"{text}.view({self._name(source.seen)})"
        return f"{self._name(source.of)}({text})"


def _gathered(values: Sequence[int]) -> str:
    if len(values) == 1:
        return f"v{values[0]}"
    return f"gathered({_tuple('v', values)})"


def _tuple(letter: str, numbers: Iterable[int]) -> str:
    return f"({''.join(f'{letter}{number}, ' for number in numbers)})"


def _rows(count: int, lanes: int) -> tuple[int, int]:
    return count, lanes


def _slice(start: int, stop: int, lanes: int) -> slice:
    return slice(start * lanes, stop * lanes)


def _types(group: Group) -> list[np.dtype[Any]]:
    """Types of the results, which are those for operands that are zero."""
    arguments = [
        one.source.constant
        if one.source.constant is not None
        else one.source.of(np.zeros(LANES, one.source.kept))
        for one in group.operands
    ]
    with np.errstate(all="ignore"):
        found: Any = group.compute(*arguments)
    return [lanes.dtype for lanes in ((found,) if len(group.targets) == 1 else found)]
