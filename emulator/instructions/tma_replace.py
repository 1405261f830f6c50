"""Tensor maps that kernels change: tensormap.replace and tensormap.cp_fenceproxy.

Source: PTX ISA 9.7.9.28 and 9.7.13.16. The map must be one that a copy could use after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address, uniform
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tma_operands import lanes_of
from schedgen.emulator.launch.tensor_map import (
    Element,
    Fill,
    Interleave,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.launch.tensor_map_bits import SIZE, decode, encode
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.machine.lanes import Decoder, Lanes, error
from schedgen.emulator.ptx.tree import Immediate, Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_HALF = 64
"""Bytes accessed at a time: maps are aligned to so many at least."""
_MOST = 5
"""Dimensions for which a map has room."""
_ELEMENTS = (
    Element.U8, Element.U16, Element.U32, Element.S32, Element.U64, Element.S64, Element.F16,
    Element.F32, Element.F32_FTZ, Element.F64, Element.BF16, Element.TF32, Element.TF32_FTZ,
    Element.U4, Element.U4_PADDED, Element.U6_PADDED,
)  # fmt: skip
"""By the code of ``.elemtype`` (Table 33)."""
_SPANS = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)
_ATOMS = (Swizzle.B128, Swizzle.B128_ATOM32, Swizzle.B128_ATOM32_FLIP8, Swizzle.B128_ATOM64)

_Change = Callable[[TensorMap, int, int], TensorMap]
"""Map, ordinal, new value -> new map."""


def _changed(values: tuple[int, ...], ordinal: int, value: int) -> tuple[int, ...]:
    """One entry changed; entries behind the last dimension exist, but nobody reads them."""
    if not 0 <= ordinal < _MOST:
        raise TensorMapError(f"ordinal {ordinal} of a field that has {_MOST} entries")
    if ordinal >= len(values):
        return values
    return (*values[:ordinal], value, *values[ordinal + 1 :])


def _atom(tensor: TensorMap, _ordinal: int, value: int) -> TensorMap:
    if tensor.swizzle.value.span != Swizzle.B128.value.span:
        if value:
            raise TensorMapError("only the 128-byte swizzle has atoms above 16 bytes")
        return tensor
    return replace(tensor, swizzle=_ATOMS[value])


_PLAIN: dict[str, _Change] = {
    "global_address": lambda t, _, v: replace(t, address=v),
    "elemtype": lambda t, _, v: replace(t, element=_ELEMENTS[v]),
    "interleave_layout": lambda t, _, v: replace(t, interleave=Interleave(v)),
    "swizzle_mode": lambda t, _, v: replace(t, swizzle=_SPANS[v]),
    "swizzle_atomicity": _atom,
    "fill_mode": lambda t, _, v: replace(t, fill=Fill(v)),
}
_BY_DIMENSION: dict[str, _Change] = {
    "box_dim": lambda t, o, v: replace(t, box=_changed(t.box, o, v)),
    "global_dim": lambda t, o, v: replace(t, dims=_changed(t.dims, o, v)),
    "global_stride": lambda t, o, v: replace(t, strides=_changed(t.strides, o, v)),
    "element_stride": lambda t, o, v: replace(t, element_strides=_changed(t.element_strides, o, v)),
}


def _load(access: Access, warp: Warp, place: Lanes) -> bytes:
    """The bytes of a map at the address of one lane."""
    halves = [access.fetch(warp, place + place.dtype.type(at)) for at in range(0, SIZE, _HALF)]
    return np.concatenate(halves)[:, 0].tobytes()


def _store(access: Access, warp: Warp, place: Lanes, data: bytes) -> None:
    for at in range(0, SIZE, _HALF):
        words = np.frombuffer(data[at : at + _HALF], np.uint64)
        access.put(warp, place + place.dtype.type(at), words[:, None])


@builds("tensormap.replace")
def _replace(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("replace", "tile", "b1024"):
        form.choose(name)
    field = form.choose(*_PLAIN, *_BY_DIMENSION)
    space = form.choose("global", "shared::cta", default="")
    type_ = form.choose("b32", "b64")
    ordered = field in _BY_DIMENSION
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
    change = _BY_DIMENSION[field] if ordered else _PLAIN[field]
    access = Access(instruction, space, 8, _HALF // 8)

    def run(warp: Warp) -> None:
        places, given = maps(warp), values(warp)
        for lane in lanes_of(warp):
            place = places[lane : lane + 1]
            old = _load(access, warp, place)
            try:
                new = encode(change(decode(old), ordinal, int(given[lane])))
            except (TensorMapError, IndexError, ValueError) as problem:
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
