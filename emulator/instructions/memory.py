"""ld and st (PTX ISA 9.7.9.8 to 9.7.9.11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.operands import HINTS, SCOPES, address, items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import spaces
from schedgen.emulator.machine.lanes import (
    NUMPY,
    Decoder,
    EmulationError,
    Lanes,
    error,
    gathered,
    taking,
)
from schedgen.emulator.machine.steps import SideBySide
from schedgen.emulator.ptx.tree import Address, Instruction, Operand, Symbol

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_SEM = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})


def access_of(instruction: Instruction, known: Iterable[str] = ()) -> tuple[Access, str, int]:
    """The access that a load or store makes, the type of its elements, and how many there are.

    Raises:
        EmulationError: a modifier is not known.
    """
    *modifiers, type_ = instruction.modifiers
    space = spaces(tuple(modifiers))
    left = set(modifiers) - HINTS - SCOPES - _SEM - {space} - set(known)
    vectors = left & _VECTORS.keys()
    if left - vectors or len(vectors) > 1 or (type_ not in NUMPY and type_ != "b128"):
        raise unsupported(instruction, (left - vectors) or (type_,))
    elements = _VECTORS[vectors.pop()] if vectors else 1
    wide = type_ == "b128"
    size = 16 if wide else np.dtype(cast(Any, NUMPY[type_])).itemsize
    access = Access(
        instruction,
        space,
        width=min(size, 8),
        count=elements * (2 if wide else 1),
        strong=any(m in modifiers for m in _SEM - {"weak"}),
        acquire="acquire" in modifiers,
        release="release" in modifiers,
    )
    return access, type_, elements


@builds("ld", "ldu")
def _ld(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    access, type_, elements = access_of(instruction)
    access = _of_a_call(access, instruction.operands[1], environment)
    destinations = items(instruction.operands[0])
    if len(destinations) != elements:
        raise error(instruction, f"{len(destinations)} destinations for {elements} elements")
    writes = [decoder.write(destination, instruction) for destination in destinations]
    addresses = address(instruction.operands[1], decoder, instruction)
    seen = NUMPY.get(type_, np.uint64)
    wide = type_ == "b128"

    def put(warp: Warp, rows: Lanes) -> None:
        for number, write in enumerate(writes):
            write(warp, rows[2 * number : 2 * number + 2].T.copy() if wide else rows[number])

    def run(warp: Warp) -> None:
        put(warp, access.load(warp, addresses(warp)).view(seen))

    def several(warps: Sequence[Warp]) -> bool:
        found = access.load_several(warps, addresses)
        if found is None:
            return False
        for warp, rows in zip(warps, found.view(seen), strict=True):
            put(warp, rows)
        return True

    if access.space not in ("param", "param::entry") or not _fixed(instruction):
        return SideBySide(run, several)

    def parameter(warp: Warp) -> None:
        """Parameters never change: all warps and lanes of a launch read what the first one read."""
        rows = warp.machine.kept.get(parameter)
        if rows is None:
            one = access.fetch(warp, addresses(warp)[:1]).view(seen)
            rows = warp.machine.kept[parameter] = np.repeat(one, 32, axis=1)
        put(warp, rows)

    return parameter


def _of_a_call(access: Access, operand: Operand, environment: Environment) -> Access:
    """The access, in local memory if it is to a .param variable of the body."""
    match operand:
        case Address(Symbol(name)) if access.space == "param" and name in environment.scratch:
            return replace(access, space="local")
        case _:
            return access


def _fixed(instruction: Instruction) -> bool:
    source = instruction.operands[1]
    return isinstance(source, Address) and isinstance(source.base, Symbol)


@builds("st")
def _st(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    access, type_, elements = access_of(instruction)
    access = _of_a_call(access, instruction.operands[0], environment)
    addresses = address(instruction.operands[0], decoder, instruction)
    sources = items(instruction.operands[1])
    if len(sources) != elements:
        raise error(instruction, f"{len(sources)} sources for {elements} elements")
    reads = taking([decoder.read(source, type_, instruction) for source in sources])
    rows = _wide_rows if type_ == "b128" else _rows

    def run(warp: Warp) -> None:
        access.store(warp, addresses(warp), rows(reads(warp)))

    def several(warps: Sequence[Warp]) -> bool:
        try:
            values = [rows(reads(warp)) for warp in warps]
        except EmulationError:
            return False  # it will be met again, in the warp whose fault it is
        return access.store_several(warps, addresses, values)

    return SideBySide(run, several)


def rows_of(lanes: Sequence[Lanes]) -> Lanes:
    """(count, 32) unsigned elements of several sources."""
    stacked = gathered(lanes).reshape(len(lanes), -1)
    kind = stacked.dtype
    return stacked if kind.kind == "u" else stacked.view(f"u{kind.itemsize}")


_rows = rows_of


def _wide_rows(lanes: Sequence[Lanes]) -> Lanes:
    return np.concatenate([one.T for one in lanes])
