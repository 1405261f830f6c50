"""Elementwise instructions in a row, as one function that computes them.

Unrolled code does the same to many registers: 64 values of a row are scaled, exponentiated,
converted. Within a run of instructions that have no effect but on registers, those that do the same
and do not need each other are computed by one call of numpy on all of their lanes. Which ones that
are is decided once, by their dependences (`plans`), and written down as a Python function, so that
operands need not be looked up any more. Results are those of one instruction after the other, lane
by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
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
        self._known: dict[Hashable, tuple[Compute, tuple[int, ...], tuple[int, ...]]] = {}

    def of(self, steps: Sequence[Elementwise]) -> tuple[Compute, list[int], list[int]]:
        """The function of a run, and the registers that it takes and returns."""
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
        known = self._known.get(shape)
        if known is None:
            plan = Plan(steps)
            inputs = tuple(places[slot] for slot in plan.inputs)
            outputs = tuple(places[slot] for slot in plan.outputs)
            known = self._known[shape] = _Writer(plan).function(), inputs, outputs
        compute, inputs, outputs = known
        slots = list(places)
        return compute, [slots[place] for place in inputs], [slots[place] for place in outputs]


class Joined:
    """A step: instructions in a row, all elementwise.

    Attributes:
        steps: the instructions.
        failed: the step in which an error was met.
    """

    __slots__ = ("_compute", "_inputs", "_outputs", "failed", "steps")

    def __init__(self, steps: Sequence[Elementwise], functions: Functions | None = None) -> None:
        self.steps = tuple(steps)
        self.failed: object = None
        self._compute, self._inputs, self._outputs = (functions or Functions()).of(steps)

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
        for at, lanes in enumerate(values):
            if type(lanes) is not np.ndarray:  # a promise; they are touched in their order
                try:
                    values[at] = lanes.now()
                except BaseException:
                    self.failed = self._reader(self._inputs[at])
                    raise
        self.failed = self.steps[0]  # where a run begins
        for slot, lanes in zip(self._outputs, self._compute(values), strict=True):
            registers[slot] = lanes

    def _reader(self, slot: int) -> Elementwise:
        """The first step that reads a register."""
        return next(s for s in self.steps if any(source.slot == slot for source in s.sources))

    def _one_by_one(self, warp: WarpState) -> None:
        for step in self.steps:
            self.failed = step
            step.run(warp)


Compute = Callable[[list[Lanes]], tuple[Lanes, ...]]
"""Takes the registers that the run reads, returns those that it writes."""


class _Writer:
    """Writes the function of a plan. Names: ``v3`` a value, ``g3`` the results of a group, ``k3``
    something that is known now."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, Any] = {"concatenate": np.concatenate}
        self._names: dict[object, str] = {}
        self._lines = ["def compute(values):"]

    def function(self) -> Compute:
        plan = self._plan
        if plan.inputs:
            self._line(f"{_tuple(range(len(plan.inputs)))} = values")
        for number, constant in enumerate(plan.constants, len(plan.inputs)):
            self._known[f"v{number}"] = constant
        for group in plan.groups:
            self._group(group)
        self._line(f"return {_tuple(tuple(plan.outputs.values()))}")
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
