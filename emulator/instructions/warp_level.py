"""Instructions by which lanes of a warp exchange registers (PTX ISA 9.7.9.6 and 9.7.13.9 to .14).

The lanes of a member mask execute them together: the machine sees to it that they have met, and
calls the step with all of them active. What a shuffle reads from a lane that takes no part is
undefined; it is `POISON` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.floating_values import NAN
from schedgen.emulator.instructions.forms import Form, typed, untyped
from schedgen.emulator.machine.lanes import LANES, Lanes, Step, WarpState, Write
from schedgen.emulator.ptx.tree import Immediate, Operand, Pair

POISON = np.uint32(0x7FFFDEAD)
"""A NaN as a float, and too large as an offset."""

Mask = NDArray[np.bool_]

_LANE = np.arange(LANES, dtype=np.uint32)
_BIT = np.uint32(1) << _LANE
_NO_BITS = np.zeros(LANES, np.uint32)


def bits_of(lanes: Mask) -> int:
    """A predicate as a mask: bit ``i`` is that of lane ``i``."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def members_of(form: Form, operand: Operand) -> Callable[[WarpState], list[Mask]]:
    """The groups of executing lanes that have the same member mask, in almost all cases one.

    The function that it gives raises EmulationError if a lane is not in its own mask.
    """
    read = form.source(operand, "b32")
    everybody = isinstance(operand, Immediate) and int(operand.value) & 0xFFFFFFFF == 0xFFFFFFFF

    def members(warp: WarpState) -> list[Mask]:
        if everybody:
            return [warp.active]
        mask = read(warp)
        outside = warp.active & (mask >> _LANE & 1 == 0)
        if outside.any():
            lane = int(outside.argmax())
            raise form.error(
                f"lane {lane} executes it but is not in its member mask {int(mask[lane]):#010x}; "
                "that is undefined"
            )
        return [warp.active & (mask == value) for value in np.unique(mask[warp.active])]

    return members


def _two_targets(form: Form, operand: Operand) -> tuple[Write, Write | None]:
    """Where the word goes, and the predicate if ``d|p`` asks for one."""
    if isinstance(operand, Pair):
        return form.target(operand.first, "b32"), form.target(operand.second, "pred")
    return form.target(operand, "b32"), None


@untyped("shfl.sync")
def _shuffle(form: Form) -> Step:
    for modifier in ("sync", "b32"):
        form.choose(modifier)
    mode = form.choose("up", "down", "bfly", "idx")
    form.finish(5)
    write, put = _two_targets(form, form.operands[0])
    a, b, c = (form.source(operand, "b32") for operand in form.operands[1:4])
    members = members_of(form, form.operands[4])
    fixed: tuple[Lanes, Mask] | None = None
    if all(isinstance(operand, Immediate) for operand in form.operands[2:4]):
        # Constants are the same in every warp, and reading them asks nothing of it.
        fixed = source_lanes(mode, *(_constant(form.operands[at]) for at in (2, 3)))

    def step(warp: WarpState) -> None:
        source, inside = fixed or _known_lanes(mode, b(warp).tobytes(), c(warp).tobytes())
        values = a(warp).take(source)
        groups = members(warp)
        if len(groups) > 1 or not warp.full:
            present = np.zeros(LANES, np.bool_)
            for group in groups:
                present |= group & group[source]
            values = np.where(present, values, POISON)
        write(warp, values)
        if put is not None:
            put(warp, inside)

    return step


def _constant(operand: Operand) -> Lanes:
    assert isinstance(operand, Immediate)
    return np.full(LANES, int(operand.value) & 0xFFFFFFFF, np.uint32)


@lru_cache(maxsize=1024)
def _known_lanes(mode: str, b: bytes, c: bytes) -> tuple[Lanes, Mask]:
    """`source_lanes` of operands that come again."""
    words = np.frombuffer(b, np.uint32), np.frombuffer(c, np.uint32)
    found = source_lanes(mode, *words)
    for lanes in found:
        lanes.flags.writeable = False
    return found


def source_lanes(mode: str, b: Lanes, c: Lanes) -> tuple[Lanes, Mask]:
    """From which lane each lane of a shuffle reads, and whether that lies in its segment."""
    lane, offset = _LANE.astype(np.int64), (b & 31).astype(np.int64)
    clamp, segment = (c & 31).astype(np.int64), (c >> 8 & 31).astype(np.int64)
    first = lane & segment
    last = first | (clamp & ~segment & 31)
    match mode:
        case "up":
            source = lane - offset
            inside = source >= last
        case "down":
            source = lane + offset
            inside = source <= last
        case "bfly":
            source = lane ^ offset
            inside = source <= last
        case _:
            source = first | (offset & ~segment & 31)
            inside = source <= last
    return np.where(inside, source, lane), inside


@untyped("vote.sync")
def _vote(form: Form) -> Step:
    form.choose("sync")
    mode = form.choose("all", "any", "uni", "ballot")
    result = "b32" if mode == "ballot" else "pred"
    form.choose(result)
    form.finish(3)
    write = form.target(form.operands[0], result)
    a = form.source(form.operands[1], "pred")
    members = members_of(form, form.operands[2])

    def verdict(held: Mask, group: Mask) -> int:
        match mode:
            case "ballot":
                return bits_of(held)
            case "any":
                return bool(held.any())
            case "all":
                return bool((held == group).all())
            case _:
                return not held.any() or bool((held == group).all())

    kind = np.uint32 if mode == "ballot" else np.bool_

    def step(warp: WarpState) -> None:
        predicate = a(warp)
        write(warp, _shared(members(warp), kind, lambda group: verdict(predicate & group, group)))

    return step


def _shared(groups: list[Mask], kind: type[np.generic], value: Callable[[Mask], int]) -> Lanes:
    """What the lanes of each group have in common."""
    lanes = np.full(LANES, value(groups[0]), kind)
    for group in groups[1:]:
        lanes = np.where(group, np.full(LANES, value(group), kind), lanes)
    return lanes


@untyped("match.any.sync")
@untyped("match.all.sync")
def _match(form: Form) -> Step:
    form.choose("sync")
    every = form.choose("any", "all") == "all"
    type_ = form.choose("b32", "b64")
    form.finish(3)
    if every:
        write, put = _two_targets(form, form.operands[0])
    else:
        write, put = form.target(form.operands[0], "b32"), None
    a = form.source(form.operands[1], type_)
    members = members_of(form, form.operands[2])

    def step(warp: WarpState) -> None:
        values = a(warp)
        equal = values[:, None] == values
        bits = _NO_BITS
        for group in members(warp):
            same = np.where(equal & group, _BIT, np.uint32(0)).sum(axis=1, dtype=np.uint32)
            if every:
                same = np.where(same == bits_of(group), same, np.uint32(0))
            bits = np.where(group, same, bits)
        write(warp, bits)
        if put is not None:
            put(warp, bits != 0)

    return step


_REDUCTIONS: Mapping[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@typed("redux", "u32 s32 b32 f32")
def _reduce(form: Form) -> Step:
    form.choose("sync")
    allowed = {"b32": ("and", "or", "xor"), "f32": ("min", "max")}
    operation = form.choose(*allowed.get(form.type, ("add", "min", "max")))
    is_float = form.type == "f32"
    absolute = is_float and form.flag("abs")
    keep_nan = is_float and form.flag("NaN")
    form.finish(3)
    write = form.target(form.operands[0], form.type)
    a = form.source(form.operands[1], form.type)
    members = members_of(form, form.operands[2])
    reduction = _REDUCTIONS[operation]

    def reduced(values: Lanes) -> int:
        if not is_float:
            return int(reduction.reduce(values)) & 0xFFFFFFFF
        values = np.abs(values) if absolute else values
        found = extreme_of(values, largest=operation == "max", keep_nan=keep_nan)
        return int(np.array(found, np.float32).view(np.uint32))

    def step(warp: WarpState) -> None:
        values = a(warp)
        write(warp, _shared(members(warp), np.uint32, lambda group: reduced(values[group])))

    return step


def extreme_of(values: NDArray[np.float32], *, largest: bool, keep_nan: bool) -> np.float32:
    """The smallest or largest of float32 values, -0 below +0; canonical NaN if there is none."""
    numbers = values[~np.isnan(values)]
    if numbers.size == 0 or (keep_nan and numbers.size < values.size):
        return NAN
    found = np.float32(numbers.max() if largest else numbers.min())
    if found != 0:
        return found
    negative = np.signbit(numbers[numbers == 0])
    return np.float32(-0.0 if (negative.all() if largest else negative.any()) else 0.0)


@untyped("activemask.b32")
def _active_mask(form: Form) -> Step:
    form.choose("b32")
    form.finish(1)
    write = form.target(form.operands[0], "b32")
    return lambda warp: write(warp, np.full(LANES, bits_of(warp.active), np.uint32))


@untyped("elect.sync")
def _elect(form: Form) -> Step:
    """The lowest lane of the member mask that executes."""
    form.choose("sync")
    form.finish(2)
    both = form.operands[0]
    if not isinstance(both, Pair):
        raise form.error(f"destinations d|p are needed, not {both}")
    write, put = form.target(both.first, "b32"), form.target(both.second, "pred")
    members = members_of(form, form.operands[1])
    leaders = [np.equal(_LANE, lane) for lane in range(LANES)]
    numbers = [np.full(LANES, lane, np.uint32) for lane in range(LANES)]

    def step(warp: WarpState) -> None:
        groups = members(warp)
        lane = 0 if groups[0][0] else int(groups[0].argmax())
        number, leader = numbers[lane], leaders[lane]
        for group in groups[1:]:
            lane = int(group.argmax())
            number, leader = np.where(group, np.uint32(lane), number), leader | leaders[lane]
        write(warp, number)
        put(warp, leader)

    return step
