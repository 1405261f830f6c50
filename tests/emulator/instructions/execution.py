"""Executes instructions on one warp without a machine around it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, cycle, islice
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schedgen.emulator.instructions.table import Environment, build
from schedgen.emulator.machine.lanes import LANES, Decoder, Lanes, Step
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.machine.templates import Templates
from schedgen.emulator.ptx.parse import parse

for family in (
    *("integer", "integer_bits", "integer_carry", "floating", "floating_approximate"),
    *("floating_select", "packed", "convert", "logic", "compare", "move", "warp_level"),
):
    importlib.import_module(f"schedgen.emulator.instructions.{family}")

PREFIXES = {
    "r": "b32",
    "rd": "b64",
    "rs": "b16",
    "rb": "b8",
    "rq": "b128",
    "f": "f32",
    "fd": "f64",
    "p": "pred",
}
"""``%r0`` to ``%r9`` are b32, and so on."""

_PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k()
{{
{registers}
.shared .align 16 .b8 buffer[64];
{text}
ret;
}}
"""

ALL = np.ones(LANES, np.bool_)
ALL.flags.writeable = False


class Warp:
    """Satisfies `lanes.WarpState`, with a carry flag."""

    def __init__(self, decoder: Decoder, active: NDArray[np.bool_]) -> None:
        self.slots = decoder.slot
        self.registers = decoder.empty()
        self.active = active
        self.full = bool(active.all())
        self.carry: Lanes = np.zeros(LANES, np.bool_)
        self.shared_base = np.uint32(0x1000000)

    def special(self, name: str) -> Lanes:
        return {
            "%laneid": np.arange(LANES, dtype=np.uint32),
            "%clock64": np.full(LANES, 1 << 40, np.uint64),
        }[name]

    def __getitem__(self, name: str) -> Lanes:
        """A register, as ``warp["r0"]``."""
        return self.registers[self.slots[f"%{name}"]]

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        slot = self.slots[f"%{name}"]
        kind = self.registers[slot].dtype
        lanes = np.asarray(values)
        if lanes.dtype.itemsize == kind.itemsize:
            lanes = np.ascontiguousarray(lanes).view(kind)
        shape = self.registers[slot].shape
        self.registers[slot] = np.broadcast_to(lanes.astype(kind), shape).copy()


@cache
def decoded(text: str) -> tuple[Decoder, tuple[Step, ...]]:
    """The steps of instructions."""
    decoder, (steps,) = decoded_all((text,))
    return decoder, steps


def decoded_all(texts: Sequence[str]) -> tuple[Decoder, list[tuple[Step, ...]]]:
    """The steps of several texts, parsed in one go."""
    registers = "\n".join(f".reg .{type_} %{name}<10>;" for name, type_ in PREFIXES.items())
    kernel = parse(_PTX.format(registers=registers, text="\n".join(texts))).kernels["k"]
    decoder = Decoder(kernel.registers, {"buffer": 64}.__getitem__, {"buffer"})
    environment = Environment(kernel, "sm_100a", Switches(), {})
    steps: list[Step] = []
    for instruction in kernel.body[:-1]:
        step = build(instruction, decoder, environment)
        assert not isinstance(step, Control)
        steps.append(cast(Step, step))
    counts = [text.count(";") for text in texts]
    ends = list(accumulate(counts))
    return decoder, [tuple(steps[end - n : end]) for end, n in zip(ends, counts, strict=True)]


def decoded_twice(text: str) -> tuple[Decoder, tuple[Step, ...], list[Step]]:
    """The steps of a text, and those that templates make of it."""
    registers = "\n".join(f".reg .{type_} %{name}<10>;" for name, type_ in PREFIXES.items())
    kernel = parse(_PTX.format(registers=registers, text=text)).kernels["k"]
    decoder, steps = decoded(text)
    environment = Environment(kernel, "sm_100a", Switches(), {})
    templates = Templates(decoder, lambda where, into: build(where, into, environment))
    return decoder, steps, [cast(Step, templates.step(one)) for one in kernel.body[:-1]]


def execute(
    text: str, *, active: NDArray[np.bool_] = ALL, carry: ArrayLike = False, **registers: ArrayLike
) -> Warp:
    """A warp after some instructions. Registers are given as ``r1=…``, integers or bits."""
    decoder, steps = decoded(text)
    return run(decoder, steps, active=active, carry=carry, **registers)


def run(
    decoder: Decoder,
    steps: Iterable[Step],
    *,
    active: NDArray[np.bool_] = ALL,
    carry: ArrayLike = False,
    **registers: ArrayLike,
) -> Warp:
    """A warp after some steps."""
    warp = Warp(decoder, active)
    warp.carry = np.broadcast_to(np.asarray(carry, np.bool_), (LANES,))
    for name, values in registers.items():
        warp[name] = values
    with np.errstate(all="ignore"):
        for step in steps:
            step(warp)
    return warp


def lanes(values: Iterable[int], bits: int) -> Lanes:
    """32 unsigned integers, repeated as needed and wrapped around."""
    given = [value & ((1 << bits) - 1) for value in values]
    return np.array(list(islice(cycle(given), LANES)), np.dtype(f"u{bits // 8}"))


def signed(value: int, bits: int) -> int:
    """The low bits of an integer, seen as a signed one."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
