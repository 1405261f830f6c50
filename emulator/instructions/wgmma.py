"""wgmma: asynchronous products of warpgroups (PTX ISA 9.7.15); rules W1 to W8.

Each of the four warps executes the instruction for itself; when the last one has, the product is
issued as one operation. Accumulators stay in the operation until a thread touches their registers,
which is an error before a wait has covered the product (W5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.instructions.wgmma_group import WARPS, Member, Shape
from schedgen.emulator.instructions.wgmma_mma import Mma, warpgroup
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import Decoder, error
from schedgen.emulator.machine.steps import Control, SideBySide
from schedgen.emulator.native.registers import snapshot
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import (
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Vector,
    touched,
)

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_WGMMA = Queue.WGMMA

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1,
}  # fmt: skip
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"),
    "s8": ("s32",),
    "u8": ("s32",),
    "b1": ("s32",),
}
_MIXED = ({"e4m3", "e5m2"}, {"s8", "u8"})
"""Types of A and B that may differ."""


def _member(warp: Warp, where: Instruction) -> Member:
    return warpgroup(warp, where).members[warp.rank % WARPS]


def _members(warps: Sequence[Warp], where: Instruction) -> list[Member]:
    """Those of warps of one warpgroup."""
    members = warpgroup(warps[0], where).members
    return [members[warp.rank % WARPS] for warp in warps]


@builds("wgmma.fence")
def _fence(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    _check(instruction, environment, ("fence", "sync", "aligned"))
    note = snapshot(_of_products(environment.kernel, decoder))

    def fence(member: Member) -> None:
        registers = member.warp.registers
        if member.fenced is None:
            member.fenced = [None] * len(registers)
        note(registers, member.fenced)

    def run(warp: Warp) -> None:
        fence(_member(warp, instruction))

    def several(warps: Sequence[Warp]) -> bool:
        if len(warps) != WARPS:
            return False
        for member in _members(warps, instruction):
            fence(member)
        return True

    return SideBySide(run, several)


_known: dict[tuple[int, int], tuple[Kernel, tuple[int, ...]]] = {}
"""By the identity of kernels, which are kept beside it, and by how many registers a decoder knows:
that of a template has none of the kernel."""
_KEPT = 16


def _of_products(kernel: Kernel, decoder: Decoder) -> tuple[int, ...]:
    """Slots of the registers of D and A of all products of a kernel: no fence is about others."""
    key = id(kernel), len(decoder.slot)
    known = _known.get(key)
    if known is None:
        names = {
            name
            for one in kernel.body
            if one.opcode == "wgmma" and one.modifiers[0] == "mma_async"
            for operand in one.operands[:2]
            if isinstance(operand, Vector)
            for name in touched(operand)
        }
        if len(_known) >= _KEPT:
            _known.clear()
        slots = tuple(sorted(decoder.slot[name] for name in names if name in decoder.slot))
        known = _known[key] = kernel, slots
    return known[1]


@builds("wgmma.commit_group")
def _commit(instruction: Instruction, _decoder: Decoder, environment: Environment) -> Execute:
    _check(instruction, environment, ("commit_group", "sync", "aligned"))

    def run(warp: Warp) -> None:
        _member(warp, instruction).commit()
        if warp.machine.tracking:
            warp.machine.tracker.group_commit(warp.number, _WGMMA)

    def several(warps: Sequence[Warp]) -> bool:
        if len(warps) != WARPS:
            return False
        machine = warps[0].machine
        for member in _members(warps, instruction):
            member.commit()
            if machine.tracking:
                machine.tracker.group_commit(member.warp.number, _WGMMA)
        return True

    return SideBySide(run, several)


@builds("wgmma.wait_group")
def _wait(instruction: Instruction, _decoder: Decoder, environment: Environment) -> Control:
    _check(instruction, environment, ("wait_group", "sync", "aligned"))
    match instruction.operands:
        case (Immediate(int(left)),):
            pass
        case _:
            raise error(instruction, "one integer literal expected")

    def run(warp: Warp) -> Condition | None:
        condition = _member(warp, instruction).wait(left, instruction)
        if condition is None and warp.machine.tracking:
            warp.machine.tracker.group_wait(warp.number, _WGMMA, left)
        return condition

    def several(warps: Sequence[Warp]) -> bool:
        if len(warps) != WARPS:
            return False
        for member in _members(warps, instruction):
            if not member.over(left):
                return False
        for warp in warps:
            run(warp)
            warp.resumed = None
        return True

    return Control(run, several=several)


@builds("wgmma.mma_async")
def _mma(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    _check_target(instruction, environment)
    for name in ("mma_async", "sync", "aligned"):
        form.choose(name)
    shape, bits = _shape(form)
    operands = list(instruction.operands)
    d = _slots(form, operands[0], shape.registers, "D")
    from_registers = isinstance(operands[1], Vector)
    a: tuple[int, ...] = _slots(form, operands[1], 4, "A") if from_registers else ()
    read_a = None if from_registers else decoder.read(operands[1], "b64", instruction)
    read_b = decoder.read(operands[2], "b64", instruction)
    keep = decoder.read(operands[3], "pred", instruction)
    signs, transposes = _options(form, operands[4:], bits, from_registers)
    shape = shape.with_options(signs, transposes)
    mma = Mma(instruction, shape, d, a, read_a, read_b, keep)
    return SideBySide(mma.run, mma.several)


def _shape(form: Form) -> tuple[Shape, int]:
    found = next((m for m in form.left if _SHAPE.fullmatch(m)), None)
    if found is None:
        raise form.error("no shape m64nNkK")
    form.left.remove(found)
    n, k = map(int, found[len("m64n") :].split("k"))
    saturate = form.flag("satfinite")
    if form.left[-2:] == ["and", "popc"]:
        del form.left[-2:]
    types = list(form.left)
    form.left.clear()
    if len(types) != 3 or types[1] not in _BITS or types[2] not in _BITS:
        raise unsupported(form.where, types)
    d, a, b = types
    if d not in _RESULTS[a] or (a != b and not any({a, b} <= pair for pair in _MIXED)):
        raise form.error(f"there is no product of .{a} and .{b} with .{d} accumulators")
    bits = _BITS[a]
    whole = d == "s32"
    steps = (*range(8, 33, 8), *range(48, 257, 16)) if whole else range(8, 257, 8)
    if k * bits != 256 or n not in steps:
        raise form.error(f"there is no shape {found} for .{a}")
    return Shape(n=n, k=k, d=d, a=a, b=b, bits=bits, saturate=saturate), bits


def _slots(form: Form, operand: Operand, count: int, matrix: str) -> tuple[int, ...]:
    """Slots of the registers of a matrix."""
    given = items(operand)
    names = [one.name for one in given if isinstance(one, Register)]
    if len(names) != count or any(name not in form.decoder.slot for name in names):
        raise form.error(f"{len(given)} registers for {matrix}, {count} expected")
    return tuple(form.decoder.slot[name] for name in names)


def _options(
    form: Form, operands: list[Operand], bits: int, from_registers: bool
) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """imm-scale-a and -b, imm-trans-a and -b."""
    given = [one.value for one in operands if isinstance(one, Immediate)]
    if len(given) != len(operands):
        raise form.error("scales and transposes are integer literals")
    wanted = 0 if bits in (1, 8) and not given else 2
    if bits == 16:
        wanted = 3 if from_registers else 4
    if len(given) != wanted:
        raise form.error(f"{len(given)} literals, {wanted} expected")
    signs = tuple(given[:2]) or (1, 1)
    if any(sign not in (1, -1) for sign in signs):
        raise form.error(f"scales {signs}; allowed are 1 and -1")
    turned = [bool(value) for value in given[2:]]
    if from_registers:
        turned.insert(0, False)
    if not turned or bits != 16:
        turned = [False, False]
    return (int(signs[0]), int(signs[1])), (turned[0], turned[1])


def _check(instruction: Instruction, environment: Environment, modifiers: tuple[str, ...]) -> None:
    _check_target(instruction, environment)
    if instruction.modifiers != modifiers:
        raise unsupported(instruction, instruction.modifiers)


def _check_target(instruction: Instruction, environment: Environment) -> None:
    if environment.target != "sm_90a":
        raise error(instruction, f"wgmma exists on sm_90a, not on {environment.target}")
