"""membar and fence (PTX ISA 9.7.13.4).

Warps execute one after the other here, so fences change no value; they matter to the race checker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedgen.emulator.instructions.operands import SCOPES, address, executing
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.launch.tensor_map_bits import SIZE
from schedgen.emulator.machine.lanes import Decoder
from schedgen.emulator.order.tracker import Space
from schedgen.emulator.ptx.tree import Immediate, Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_ASYNC: dict[tuple[str, ...], Space | None] = {
    ("async",): None,
    ("async", "global"): Space.GLOBAL,
    ("async", "shared::cta"): Space.SHARED,
    ("async", "shared::cluster"): Space.SHARED,
    ("async::generic", "acquire", "sync_restrict::shared::cluster", "cluster"): Space.SHARED,
    ("async::generic", "release", "sync_restrict::shared::cta", "cluster"): Space.SHARED,
}


_RESTRICTED = (
    {"acquire", "sync_restrict::shared::cluster"},
    {"release", "sync_restrict::shared::cta"},
)


@builds("fence.proxy", "membar.proxy")
def _proxy(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    kind = instruction.modifiers[1:]
    if kind == ("alias",):
        return lambda _warp: None  # aliases are not tracked
    if kind[:1] == ("tensormap::generic",):
        return _maps(instruction, decoder)
    if kind not in _ASYNC:
        raise unsupported(instruction, kind)
    space = _ASYNC[kind]

    def run(warp: Warp) -> None:
        if warp.machine.tracking:
            warp.machine.tracker.proxy_fence(warp.number, space)

    return run


def _maps(instruction: Instruction, decoder: Decoder) -> Execute:
    """fence.proxy.tensormap::generic.release, and .acquire with the address of a map."""
    match instruction.modifiers[2:], instruction.operands:
        case ("release", scope), () if scope in SCOPES:

            def release(warp: Warp) -> None:
                if warp.machine.tracking:
                    warp.machine.tracker.map_release(warp.number)

            return release
        case ("acquire", scope), (place, size) if scope in SCOPES and size == Immediate(SIZE):
            maps = address(place, decoder, instruction)

            def acquire(warp: Warp) -> None:
                if warp.machine.tracking:
                    for found in sorted(set(executing(warp, maps(warp)).tolist())):
                        warp.machine.tracker.map_acquire(warp.number, found)

            return acquire
        case _:
            raise unsupported(instruction, instruction.modifiers[1:])


@builds("fence.mbarrier_init")
def _init(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    if instruction.modifiers[1:] != ("release", "cluster"):
        raise unsupported(instruction, instruction.modifiers[1:])

    def run(warp: Warp) -> None:
        if warp.machine.tracking:
            warp.machine.tracker.barrier_init_fence(warp.number)

    return run


@builds("fence", "membar")
def _fence(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    modifiers = set(instruction.modifiers)
    for restricted in _RESTRICTED:  # to shared memory; here it orders all, as whole fences do
        if restricted <= modifiers:
            modifiers -= restricted
    levels = SCOPES | {"gl"}
    if extra := modifiers - levels - {"sc", "acq_rel", "acquire", "release"}:
        raise unsupported(instruction, extra)
    gpu = bool(modifiers & {"gpu", "sys", "gl"})
    cluster = gpu or "cluster" in modifiers

    def run(warp: Warp) -> None:
        if warp.machine.tracking:
            warp.machine.tracker.thread_fence(warp.number, cluster=cluster, gpu=gpu)

    return run
