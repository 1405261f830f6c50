"""Instructions that compute each lane from the same lane of registers, and have no other effect.

What a step of one warp does with the 32 lanes of a register, the same function does with those of
many registers, one behind the other: `joined` lets several such instructions compute together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedgen.emulator.machine.lanes import (
    LANES,
    NUMPY,
    UNSIGNED,
    Decoder,
    Lanes,
    Step,
    WarpState,
    stored,
)
from schedgen.emulator.ptx.tree import Immediate, Instruction, Operand, Register, Vector

Compute = Callable[..., Any]
"""(lanes, …) -> lanes of the only target, or a tuple of them, for any number of lanes."""


_BYTES = {kind: np.dtype(kind).itemsize for kind in (*NUMPY.values(), *UNSIGNED.values())}


@dataclass(frozen=True, slots=True)
class Source:
    """A register or a literal, ``constant``. ``seen``: as which type lanes are seen; None: as they
    are kept."""

    slot: int
    constant: Lanes | None
    kept: type[np.generic]
    seen: type[np.generic] | None

    def of(self, lanes: Lanes) -> Lanes:
        """Lanes of the register as the instruction sees them (`Decoder.read`)."""
        if self.seen is None:
            return lanes
        size = _BYTES[self.seen]
        if lanes.itemsize == size:
            return lanes.view(self.seen)
        return lanes.astype(UNSIGNED[size]).view(self.seen)


@dataclass(frozen=True, slots=True)
class Target:
    """A register that is written, and the type in which it is kept; slot -1 is ``_``."""

    slot: int
    kept: type[np.generic]

    def of(self, lanes: Lanes) -> Lanes:
        """Results as the register keeps them (`Decoder.write`)."""
        if lanes.dtype == self.kept:
            return lanes
        same = lanes.itemsize == _BYTES[self.kept]
        return lanes.view(self.kept) if same else lanes.astype(self.kept)


@dataclass(slots=True)
class Elementwise:
    """A step that may be computed together with others of the same ``key``.

    Attributes:
        run: the step by itself, in whichever lanes execute.
        compute: None: a move, whose target is the source.
    """

    run: Step
    key: Hashable
    compute: Compute | None
    sources: tuple[Source, ...]
    targets: tuple[Target, ...]

    def __call__(self, warp: WarpState) -> None:
        self.run(warp)


def elementwise(
    where: Instruction,
    decoder: Decoder,
    run: Step,
    compute: Compute | None,
    targets: tuple[Operand, ...],
    sources: tuple[tuple[Operand, str], ...],
) -> Step:
    """The step, with what is needed to compute it together with others where that is possible:
    where its operands are registers of up to 64 bits and literals.

    Args:
        where: the instruction; what ``compute`` does depends on its modifiers, on the types of its
            registers, on its literals and on where it has ``_``, and on nothing else.
        run: the step by itself.
        sources: operands and the types as which they are read.
    """
    read = [_source(operand, type_, decoder, where) for operand, type_ in sources]
    written = [_target(operand, decoder) for operand in targets]
    found = [one for one in read if one is not None]
    put = [one for one in written if one is not None]
    if len(found) != len(read) or len(put) != len(written):
        return run
    key = (
        where.opcode, where.modifiers, tuple(one.kept for one in put),
        tuple(_kind(operand, decoder) for operand, _ in sources),
        tuple(repr(one) for one in where.operands if isinstance(one, Immediate)), _unused(where),
    )  # fmt: skip
    if compute is None and (found[0].slot >= 0 and decoder.kept(found[0].slot) != put[0].kept):
        return run
    number = _numbers.setdefault(key, len(_numbers))
    if number == len(_described):
        _described.append(where)
    return Elementwise(run, number, compute, tuple(found), tuple(put))


_numbers: dict[Hashable, int] = {}
"""Of keys: runs are looked up by the keys of all of their steps."""
_described: list[Instruction] = []
"""By number, an instruction with the key."""


def described(key: Hashable) -> Instruction:
    """An instruction that is, but for its registers, like all steps with a key."""
    assert isinstance(key, int)
    return _described[key]


def _source(operand: Operand, type_: str, decoder: Decoder, where: Instruction) -> Source | None:
    if isinstance(operand, Immediate):
        constant = decoder.constant(operand, type_, where)
        return Source(-1, constant, constant.dtype.type, None)
    if not isinstance(operand, Register) or operand.name not in decoder.slot:
        return None
    slot = decoder.slot[operand.name]
    if "b128" in (type_, decoder.types[slot]):
        return None
    seen, kept = NUMPY.get(type_), decoder.kept(slot)
    return Source(slot, None, kept, None if seen is None or kept is seen else seen)


def _target(operand: Operand, decoder: Decoder) -> Target | None:
    if not isinstance(operand, Register) or operand.name not in decoder.slot:
        return None
    slot = decoder.slot[operand.name]
    return None if decoder.types[slot] == "b128" else Target(slot, stored(decoder.types[slot]))


def _kind(operand: Operand, decoder: Decoder) -> str:
    if isinstance(operand, Register):
        return decoder.types[decoder.slot[operand.name]]
    return repr(operand)


def _unused(where: Instruction) -> tuple[tuple[int, ...], ...]:
    """Which elements of each vector are ``_``: half of a register is the low or the high one."""
    return tuple(
        tuple(at for at, one in enumerate(vector.items) if one == Register("_"))
        for vector in where.operands
        if isinstance(vector, Vector)
    )


def repeated(constant: Lanes, times: int, lanes: int = LANES) -> Lanes:
    """A literal for the ``lanes`` of several registers."""
    every = np.full(times * lanes, constant[0])
    every.flags.writeable = False
    return every
