"""Elementwise instructions in a row, as one function that computes them.

Unrolled code does the same to many registers: 64 values of a row are scaled, exponentiated,
converted. Within a run of instructions that have no effect but on registers, those that do the same
and do not need each other are computed by one call of numpy on all of their lanes. Which ones that
are is decided once, by their dependences (`plans`), and written down as a Python function, so that
operands need not be looked up any more. Results are those of one instruction after the other, lane
by lane. Warps that are in the same place may have theirs computed by one call, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from schedgen.emulator.machine.elementwise import Elementwise, Source, repeated
from schedgen.emulator.machine.lanes import LANES, Lanes, WarpState
from schedgen.emulator.machine.plans import Group, Operand, Plan

LEAST = 2
"""Instructions of a run below which nothing is gained."""


class Functions:
    """Functions of runs that were met, by what the runs are but for the numbers of registers.

    Code that is unrolled around loads or stores has the same run many times.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {}

    def of(
        self, steps: Sequence[Elementwise], wanted: Collection[int] | None = None
    ) -> tuple[Function, list[int], list[int]]:
        """The function of a run, and the registers that it takes and returns; only some of those
        that it writes are ``wanted``."""
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
            inputs = tuple(places[slot] for slot in plan.inputs)
            outputs = tuple(places[slot] for slot in plan.outputs)
            known = self._known[shape, kept] = _Writer(plan).function(), inputs, outputs
        compute, inputs, outputs = known
        slots = list(places)
        return compute, [slots[place] for place in inputs], [slots[place] for place in outputs]


class Joined:
    """A step: instructions in a row, all elementwise.

    Args:
        steps: the instructions.
        functions: of other runs, where one of these may be found.
        wanted: registers that instructions outside of the run have, if that is known; what it
            writes to others is not kept unless it reads it when it is executed again.

    Attributes:
        failed: the step in which an error was met.
    """

    __slots__ = ("_alone", "_function", "_inputs", "_outputs", "failed", "steps")

    def __init__(
        self,
        steps: Sequence[Elementwise],
        functions: Functions | None = None,
        wanted: Collection[int] | None = None,
    ) -> None:
        self.steps = tuple(steps)
        self.failed: object = None
        found = (functions or Functions()).of(steps, wanted)
        self._function, self._inputs, self._outputs = found
        self._alone = self._function.of(1)

    def __call__(self, warp: WarpState) -> None:
        """Executes the run for the executing lanes of a warp.

        Raises:
            EmulationError: a register must not be touched yet.
        """
        if not warp.full:
            self._one_by_one(warp)
            return
        values = self.read(warp)
        registers = warp.registers
        for slot, lanes in zip(self._outputs, self._alone(values), strict=True):
            registers[slot] = lanes

    def read(self, warp: WarpState) -> list[Lanes]:
        """The registers that the run reads.

        Raises:
            EmulationError: one must not be touched yet.
        """
        registers = warp.registers
        values: list[Any] = [registers[slot] for slot in self._inputs]
        for at, lanes in enumerate(values):
            if type(lanes) is not np.ndarray:  # a promise; they are touched in their order
                try:
                    values[at] = lanes.now()
                except BaseException:
                    self.failed = self._reader(self._inputs[at])
                    raise
        self.failed = self.steps[0]  # where a run begins
        return values

    def together(self, warps: Sequence[WarpState], values: Sequence[list[Lanes]]) -> None:
        """Executes the run for all lanes of several warps, whose registers were `read`."""
        count = len(warps)
        joined = [np.concatenate(one) for one in zip(*values, strict=True)]
        every = [warp.registers for warp in warps]
        results = self._function.of(count)(joined)
        for slot, lanes in zip(self._outputs, results, strict=True):
            for registers, own in zip(every, lanes.reshape(count, LANES), strict=True):
                registers[slot] = own

    def _reader(self, slot: int) -> Elementwise:
        """The first step that reads a register."""
        return next(s for s in self.steps if any(source.slot == slot for source in s.sources))

    def _one_by_one(self, warp: WarpState) -> None:
        for step in self.steps:
            self.failed = step
            step.run(warp)


Compute = Callable[[list[Lanes]], tuple[Lanes, ...]]
"""Takes the registers that the run reads, returns those that it writes."""


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
    """Writes the function of a plan. Names: ``v3`` a value, ``g3`` the results of a group, ``k3``
    something that is known now, ``s3`` something that is known with the number of lanes."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, Any] = {"concatenate": np.concatenate}
        self._sized: dict[str, Callable[[int], Any]] = {}
        self._names: dict[object, str] = {}
        self._lines = ["def compute(values):"]

    def function(self) -> Function:
        plan = self._plan
        if plan.inputs:
            self._line(f"{_tuple(range(len(plan.inputs)))} = values")
        for number, constant in enumerate(plan.constants, len(plan.inputs)):
            self._sized[f"v{number}"] = partial(repeated, constant, 1)
        for group in plan.groups:
            self._group(group)
        self._line(f"return {_tuple(tuple(plan.outputs.values()))}")
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
        arguments = ", ".join(self._operand(one, group.count) for one in group.operands)
        call = f"{self._name(group.compute)}({arguments})"
        results = [f"g{group.result + at}" for at in range(len(group.targets))]
        made = _sample(group)
        if len(results) > 1:
            self._line(f"{', '.join(results)} = {call}")
        for at, (target, lanes) in enumerate(zip(group.targets, made, strict=True)):
            text = results[at] if len(results) > 1 else call
            if lanes.dtype != target.kept:
                same = lanes.itemsize == np.dtype(target.kept).itemsize
                text += f".{'view' if same else 'astype'}({self._name(target.kept)})"
            first = group.first + at * group.count
            if group.count == 1:
                self._line(f"{results[at]} = v{first} = {text}")
                continue
            if text != results[at]:
                self._line(f"{results[at]} = {text}")
            if group.kept[at]:
                rows = _tuple(range(first, first + group.count))
                shape = self._later(("rows", group.count), partial(_rows, group.count))
                self._line(f"{rows} = {results[at]}.reshape({shape})")

    def _operand(self, operand: Operand, count: int) -> str:
        source = operand.source
        if source.constant is not None:
            key = "constant", id(source.constant), count
            return self._later(key, partial(repeated, source.constant, count))
        if operand.values:
            return self._seen(_gathered(operand.values), source)
        name, stop = f"g{operand.result}", operand.start + count
        if count != operand.size:
            part = self._later(("part", operand.start, stop), partial(_part, operand.start, stop))
            name = f"{name}[{part}]"
        return self._seen(name, source)

    def _seen(self, text: str, source: Source) -> str:
        if source.seen is None:
            return text
        if np.dtype(source.seen).itemsize == np.dtype(source.kept).itemsize:
            return f"{text}.view({self._name(source.seen)})"
        return f"{self._name(source.of)}({text})"


def _gathered(values: Sequence[int]) -> str:
    if len(values) == 1:
        return f"v{values[0]}"
    return f"concatenate({_tuple(values)})"


def _tuple(values: Sequence[int]) -> str:
    return f"({''.join(f'v{value}, ' for value in values)})"


def _rows(count: int, lanes: int) -> tuple[int, int]:
    return count, lanes


def _part(start: int, stop: int, lanes: int) -> slice:
    return slice(start * lanes, stop * lanes)


def _sample(group: Group) -> tuple[Lanes, ...]:
    """Results for operands that are zero: their types are those of all results."""
    arguments = [
        one.source.constant
        if one.source.constant is not None
        else one.source.of(np.zeros(LANES, one.source.kept))
        for one in group.operands
    ]
    with np.errstate(all="ignore"):
        found: Any = group.compute(*arguments)
    return (found,) if len(group.targets) == 1 else found
