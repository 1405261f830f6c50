"""Elementwise instructions in a row, as one function that computes them.

Unrolled code does the same to many registers: 64 values of a row are scaled, exponentiated,
converted. Within a run of instructions that have no effect but on registers, those that do the same
and do not need each other are computed by one call of numpy on all of their lanes. Which ones that
are is decided once, by their dependences (`plans`), and written down as a Python function, so that
operands need not be looked up any more. Results are those of one instruction after the other, lane
by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from schedgen.emulator.machine.elementwise import Elementwise, Source, repeated
from schedgen.emulator.machine.lanes import LANES, Lanes, WarpState
from schedgen.emulator.machine.plans import Group, Operand, Plan

LEAST = 2
"""Instructions of a run below which nothing is gained."""


class Joined:
    """A step: instructions in a row, all elementwise.

    Attributes:
        steps: the instructions.
        failed: the step in which an error was met.
    """

    __slots__ = ("_compute", "_inputs", "_readers", "failed", "steps")

    def __init__(self, steps: Sequence[Elementwise]) -> None:
        self.steps = tuple(steps)
        self.failed: object = None
        plan = Plan(self.steps)
        self._inputs = tuple(plan.inputs)
        self._readers = [self._reader(slot) for slot in self._inputs]
        self._compute = _Writer(plan).function()

    def __call__(self, warp: WarpState) -> None:
        """Executes the run for the executing lanes of a warp.

        Raises:
            EmulationError: a register must not be touched yet.
        """
        if not warp.full:
            self._one_by_one(warp)
            return
        registers = warp.registers
        values: list[Any] = [registers[slot] for slot in self._inputs]
        self.failed = self.steps[0]  # where a run begins, if it is none of the promises below
        for at, lanes in enumerate(values):
            if type(lanes) is not np.ndarray:  # a promise; they are touched in their order
                self.failed = self._readers[at]
                values[at] = lanes.now()
        self._compute(registers, values)

    def _reader(self, slot: int) -> Elementwise:
        """The first step that reads a register."""
        return next(s for s in self.steps if any(source.slot == slot for source in s.sources))

    def _one_by_one(self, warp: WarpState) -> None:
        for step in self.steps:
            self.failed = step
            step.run(warp)


Compute = Callable[[list[Lanes], list[Lanes]], None]
"""Takes the registers of a warp, and those that the run reads; changes the first."""


class _Writer:
    """Writes the function of a plan. Names: ``v3`` a value, ``g3`` the results of a group, ``k3``
    something that is known now."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, Any] = {"concatenate": np.concatenate}
        self._names: dict[object, str] = {}
        self._lines = ["def compute(registers, values):"]

    def function(self) -> Compute:
        plan = self._plan
        if plan.inputs:
            self._line(f"{_tuple(range(len(plan.inputs)))} = values")
        for number, constant in enumerate(plan.constants, len(plan.inputs)):
            self._known[f"v{number}"] = constant
        for group in plan.groups:
            self._group(group)
        for slot, number in plan.outputs.items():
            self._line(f"registers[{slot}] = v{number}")
        self._line("return")
        exec(compile("\n".join(self._lines), "<joined instructions>", "exec"), self._known)
        return cast(Compute, self._known["compute"])

    def _line(self, text: str) -> None:
        self._lines.append(f"    {text}")

    def _name(self, thing: object) -> str:
        """The name of something that is known now."""
        name = self._names.get(id(thing))
        if name is None:
            name = self._names[id(thing)] = f"k{len(self._names)}"
            self._known[name] = thing
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
                self._line(f"{rows} = {results[at]}.reshape({group.count}, {LANES})")

    def _operand(self, operand: Operand, count: int) -> str:
        source = operand.source
        if source.constant is not None:
            return self._name(source.constant if count == 1 else repeated(source.constant, count))
        if operand.values:
            return self._seen(_gathered(operand.values), source)
        name, stop = f"g{operand.result}", operand.start + count
        if count != operand.size:
            name = f"{name}[{operand.start * LANES}:{stop * LANES}]"
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
