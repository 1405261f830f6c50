"""Tensor maps that kernels change: tensormap.replace and tensormap.cp_fenceproxy.

Source: PTX ISA 9.7.9.28 and 9.7.13.16. Whether a map is legal is looked at where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address, uniform
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tma_operands import lanes_of
from schedgen.emulator.launch.tensor_map import TensorMapError
from schedgen.emulator.launch.tensor_map_bits import SIZE
from schedgen.emulator.launch.tensor_map_fields import FIELDS, ORDERED, with_field
from schedgen.emulator.machine.lanes import Decoder, Lanes, error
from schedgen.emulator.ptx.tree import Immediate, Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_HALF = 64
"""Bytes of a map that a GPU reads, the first ones (`tensor_map_bits`). CuTe DSL copies no others
to shared memory, so they are neither read nor written here."""


def _load(access: Access, warp: Warp, place: Lanes) -> bytes:
    """The bytes of a map at the address of one lane."""
    return access.fetch(warp, place)[:, 0].tobytes() + bytes(SIZE - _HALF)


def _store(access: Access, warp: Warp, place: Lanes, data: bytes) -> None:
    access.put(warp, place, np.frombuffer(data[:_HALF], np.uint64)[:, None])


@builds("tensormap.replace")
def _replace(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("replace", "tile", "b1024"):
        form.choose(name)
    field = form.choose(*FIELDS)
    space = form.choose("global", "shared::cta", default="")
    type_ = form.choose("b32", "b64")
    ordered = field in ORDERED
    form.finish(2 + ordered)
    maps = address(form.operands[0], decoder, instruction)
    ordinal = 0
    if ordered:
        match form.operands[1]:
            case Immediate(int(value)):
                ordinal = value
            case _:
                raise form.error("the ordinal is an integer literal")
    values = form.source(form.operands[-1], type_)
    access = Access(instruction, space, 8, _HALF // 8)

    def run(warp: Warp) -> None:
        places, given = maps(warp), values(warp)
        for lane in lanes_of(warp):
            place = places[lane : lane + 1]
            old = _load(access, warp, place)
            try:
                new = with_field(old, field, ordinal, int(given[lane]))
            except TensorMapError as problem:
                raise error(instruction, str(problem)) from None
            _store(access, warp, place, new)

    return run


@builds("tensormap.cp_fenceproxy")
def _copy(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release"):
        form.choose(name)
    form.choose("cta", "cluster", "gpu", "sys")
    for name in ("sync", "aligned"):
        form.choose(name)
    form.finish(3)
    if form.operands[2] != Immediate(SIZE):
        raise form.error(f"a tensor map has {SIZE} bytes")
    target, source = (address(one, decoder, instruction) for one in form.operands[:2])
    reads = Access(instruction, "shared::cta", 8, _HALF // 8)
    writes = Access(instruction, "global", 8, _HALF // 8)

    def run(warp: Warp) -> None:
        lanes: Any = source(warp)
        from_ = np.array([uniform(warp, lanes, "the source", instruction)], lanes.dtype)
        to = np.array([uniform(warp, target(warp), "the target", instruction)], np.uint64)
        _store(writes, warp, to, _load(reads, warp, from_))
        if warp.machine.tracking:
            warp.machine.tracker.map_release(warp.number)

    return run
