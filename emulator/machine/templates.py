"""Elementwise instructions that differ in their registers alone are decoded once.

What such an instruction computes depends on its opcode, modifiers, literals and the types of its
registers, and on nothing else (`elementwise.elementwise`). Unrolled code has few of these, many
times each: one is decoded, with registers that stand for any, and the others put theirs in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from schedgen.emulator.machine.elementwise import Compute, Elementwise, Source, Target
from schedgen.emulator.machine.lanes import Decoder, EmulationError, Lanes, WarpState
from schedgen.emulator.ptx.tree import Immediate, Instruction, Operand, Register, Vector

Build = Callable[[Instruction, Decoder], object]
"""Makes the step of an instruction."""


class Templates:
    """Decoded instructions of one kernel, by what they are but for their registers."""

    def __init__(self, decoder: Decoder, build: Build) -> None:
        self._decoder = decoder
        self._build = build
        self._known: dict[Hashable, Elementwise | None] = {}
        self._sources: dict[tuple[int, object], Source] = {}
        self._targets: dict[int, Target] = {}

    def step(self, instruction: Instruction) -> Elementwise | None:
        """The step of an instruction; None where it has to be decoded by itself."""
        slots: list[int] = []
        shapes: list[Hashable] = []
        registers = self._registers
        for operand in instruction.operands:
            if type(operand) is Register and (known := registers.get(operand.name)) is not None:
                slots.append(known[0])  # as `_shape`
                shapes.append(known[1])
                continue
            shape = self._shape(operand, slots)
            if shape is None:
                return None
            shapes.append(shape)
        key = instruction.opcode, instruction.modifiers, *shapes
        if key in self._known:
            template = self._known[key]
        else:
            template = self._known[key] = self._template(instruction, slots)
        return None if template is None else self._filled(template, slots)

    @cached_property
    def _registers(self) -> dict[str, tuple[int, str]]:
        """Slot and type by name."""
        decoder = self._decoder
        return {name: (slot, decoder.types[slot]) for name, slot in decoder.slot.items()}

    def _shape(self, operand: Operand, slots: list[int]) -> Hashable | None:
        """What counts about an operand; adds its registers to ``slots``."""
        if isinstance(operand, Register):
            known = self._registers.get(operand.name)
            if known is None:
                return "_" if operand.name == "_" else None
            slot, type_ = known
            slots.append(slot)
            return type_
        if isinstance(operand, Immediate):
            return type(operand.value), repr(operand.value)
        if isinstance(operand, Vector):
            shapes = tuple(self._shape(item, slots) for item in operand.items)
            return None if None in shapes else shapes
        return None

    def _template(self, instruction: Instruction, slots: list[int]) -> Elementwise | None:
        """An instruction with one register after the other, each of the type that it has here."""
        decoder, number = self._decoder, iter(range(len(slots)))
        names = {str(at): decoder.types[slot] for at, slot in enumerate(slots)}
        operands = tuple(_numbered(operand, number) for operand in instruction.operands)
        general = replace(instruction, operands=operands, guard=None)
        try:
            step = self._build(general, Decoder(names, decoder.symbol, decoder.shared))
        except EmulationError:
            return None  # it will be met again, with the names of its registers
        return step if isinstance(step, Elementwise) else None

    def _filled(self, template: Elementwise, slots: list[int]) -> Elementwise:
        sources: list[Source] = []
        for one in template.sources:
            found = one
            if one.constant is None:
                key = slots[one.slot], one.seen
                known = self._sources.get(key)
                if known is None:
                    known = self._sources[key] = Source(key[0], None, one.kept, one.seen)
                found = known
            sources.append(found)
        targets: list[Target] = []
        for one in template.targets:
            slot = slots[one.slot]
            put = self._targets.get(slot)
            if put is None:
                put = self._targets[slot] = Target(slot, one.kept)
            targets.append(put)
        read, written = tuple(sources), tuple(targets)
        run = _Single(template.compute, read, written)
        return Elementwise(run, template.key, template.compute, read, written)


def _numbered(operand: Operand, number: Iterator[int]) -> Operand:
    """An operand with the next numbers in place of its registers."""
    match operand:
        case Register("_"):
            return operand
        case Register():
            return Register(str(next(number)))
        case Vector(items):
            return Vector(tuple(_numbered(item, number) for item in items))
        case _:
            return operand


class _Single:
    """An elementwise step by itself, in whichever lanes execute."""

    __slots__ = ("_compute", "_sources", "_targets")

    def __init__(
        self, compute: Compute | None, sources: tuple[Source, ...], targets: tuple[Target, ...]
    ) -> None:
        self._compute = compute
        self._sources = sources
        self._targets = targets

    def __call__(self, warp: WarpState) -> None:
        registers: list[Any] = warp.registers  # lanes or promises
        values: list[Lanes] = []
        for source in self._sources:
            lanes = source.constant
            if lanes is None:
                lanes = registers[source.slot]
                if type(lanes) is not np.ndarray:
                    lanes = lanes.now()
                if source.seen is not None:
                    lanes = source.of(lanes)
            values.append(lanes)
        result = values[0] if self._compute is None else self._compute(*values)
        results = (result,) if len(self._targets) == 1 else result
        for target, lanes in zip(self._targets, results, strict=True):
            kept = target.of(lanes)
            if not warp.full:
                kept = np.where(warp.active, kept, registers[target.slot])
            registers[target.slot] = kept
