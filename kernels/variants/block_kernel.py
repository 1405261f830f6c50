"""The kernel that lists the blocks of keys that tiles of queries see, as a file in CuTe DSL.

A cluster of CTAs computes the lists of one batch and head, or of all where the mask names neither,
in three steps, between which the CTAs of the cluster wait for each other:

1. the least and the largest element of each block of the tensors along rows and columns, a warp
   for a block;
2. for each tile of queries, a warp each, which blocks the mask keeps something in, and which as a
   whole: a lane for a block, by interval arithmetic (`schedgen.kernels.variants.intervals`), 32
   blocks in a word of bits;
3. the place of each tile among those with more blocks, and those with as many before it, by
   comparing counts; and at that place its list, of the bits.

Nothing depends on which warp is the first, so that the same tensors give the same lists. What a
step leaves for the next one is in a scratch array (`room`) of the launch. Float64 is rounded as
torch does it, which takes instructions that the assembler must not fuse.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedgen.expressions import references
from schedgen.kernels.variants.calling import Asked, kept_of, variant_of
from schedgen.kernels.variants.interval_text import Text, Value
from schedgen.kernels.variants.intervals import Interval, Rules
from schedgen.kernels.variants.reading import SIZES, Vector, number_name
from schedgen.kernels.variants.spec import COUNTS, FULLS, LISTED, ORDER, listed_along, order

NAME = "attention_block_list"
CTAS, WARPS = 8, 16
"""CTAs of a cluster, the most that every GPU has, and warps of a CTA: of 16384 queries in tiles of
128 each warp has one tile, and two CTAs find room on an SM."""
_BITS = 32
_COORDINATES = {"row": ("tile", "rows", "seq_q"), "column": ("block", "keys", "seq_k")}
"""What counts blocks along a coordinate, how long one is, and where the last one ends."""
_NUMBERS = {"row": "tiles", "column": "blocks"}
"""How many there are."""
RESULTS = ORDER, COUNTS, FULLS, LISTED
SCALARS = "seq_q", "seq_k", "rows", "keys", "heads"
"""Whole numbers that the kernel takes behind those of the caller: lengths, queries of a tile, keys
of a block, and heads that lists differ along, or 1."""


@dataclass(frozen=True)
class Parts:
    """What a kernel is made of.

    Attributes:
        vectors: tensors of the mask, in the order of arguments.
        numbers: numbers of the mask, likewise.
        along: which of batch and head lists differ along.
    """

    vectors: tuple[Vector, ...]
    numbers: tuple[str, ...]
    along: tuple[str, ...]

    @property
    def reduced(self) -> list[Vector]:
        """Those of which blocks have a least and a largest element."""
        return [vector for vector in self.vectors if vector.along is not None]


def parts_of(wanted: Asked) -> Parts:
    """Of the mask of a variant, which has one."""
    variant = variant_of(wanted)
    assert variant.mask is not None
    named = {vector for vector in variant.mask.vectors.values() if vector.name}
    vectors = tuple(sorted(named, key=lambda vector: vector.argument))
    return Parts(vectors, tuple(sorted(variant.mask.numbers)), listed_along(variant))


def room(parts: Parts, tiles: int, blocks: int) -> int:
    """32-bit words of scratch of a slice: ends of blocks, two counts of each tile, and its bits."""
    ends = sum(tiles if vector.along == "row" else blocks for vector in parts.reduced)
    return 2 * (ends + tiles + tiles * -(-blocks // _BITS))


def text_of(
    wanted: Asked, whole: Sequence[bool], arch: str, ctas: int = CTAS, warps: int = WARPS
) -> str:
    """The file of the kernel that lists blocks for the mask of ``wanted``.

    Args:
        whole: which of the `Parts.vectors` have whole numbers.
        arch: such as ``sm_90a``.
        ctas, warps: of a cluster, and of a CTA; lists do not depend on them.
    """
    parts = parts_of(wanted)
    needed, seen = _seen(wanted, parts, dict(zip(parts.vectors, whole, strict=True)))
    tensors = [vector.argument for vector in parts.vectors]
    numbers = [number_name(name) for name in parts.numbers]
    arrays = [*tensors, "scratch", *RESULTS]
    typed = [f"{name}: cute.Tensor" for name in arrays]
    typed += [f"{name}: Float32" for name in numbers] + [f"{name}: Int32" for name in SCALARS]
    given = ", ".join([*arrays, *numbers, *SCALARS])
    return _FILE.format(
        about=_about(wanted),
        ctas=ctas,
        warps=warps,
        seen=seen,
        takes=", ".join(typed),
        given=given,
        starts=_lines(_starts(parts), 1),
        ends=_lines(_ends(parts), 1),
        of_slice=_lines(_of_slice(parts, needed), 1),
        of_tile=_lines(_along("row", parts, needed), 2),
        of_block=_lines(_along("column", parts, needed), 4),
        needed=", ".join(needed),
        name=NAME,
        outputs=RESULTS,
        arch=arch,
        arguments=_lines(_arguments(parts, numbers), 1),
    )


def _about(wanted: Asked) -> str:
    mask = " ".join((wanted.mask or "").replace("\\", " ").replace('"""', " ").split())
    return textwrap.fill(mask + (", causal" if wanted.causal else ""), 96)


def _lines(lines: Iterator[str], deep: int) -> str:
    return textwrap.indent("\n".join(lines), "    " * deep).lstrip()


def _seen(wanted: Asked, parts: Parts, whole: Mapping[Vector, bool]) -> tuple[list[str], str]:
    """What the function takes that says what a mask keeps of a block, and its lines."""
    variant, expression = variant_of(wanted), kept_of(wanted)
    assert variant.mask is not None
    into, names = Text(), dict[str, Interval[Value]]()

    def pair(name: str, whole: bool) -> Interval[Value]:
        return Interval(Value(f"{name}[0]", into), Value(f"{name}[1]", into), whole)

    used = list(dict.fromkeys(name.name for name in references(expression)))
    needed: dict[str, None] = {}
    for name in used:
        vector = variant.mask.vectors.get(name)
        if vector is not None and vector.name:
            argument, exact = vector.argument, whole[vector]
        elif name in parts.numbers:
            argument, exact = number_name(name), name in variant.whole
        else:  # a coordinate, or a length
            argument, exact = name, True
        names[name] = pair(f"in_{argument}", exact)
        needed[f"in_{argument}"] = None
    found = Rules(into, names).condition(expression)
    lines = [*into.lines, f"return {found.some.name}, {found.some.name} & {found.every.name}"]
    return list(needed), _lines(iter(lines), 1)


def _starts(parts: Parts) -> Iterator[str]:
    """Where in a slice of scratch ends of blocks begin, counts, and bits."""
    at = "0"
    for vector in parts.reduced:
        yield f"at_{vector.argument} = {at}"
        at = f"at_{vector.argument} + 2 * {_NUMBERS[vector.along or '']}"
    yield f"at_counts = {at}"
    yield "at_bits = at_counts + 2 * tiles"


def _ends(parts: Parts) -> Iterator[str]:
    """The least and the largest element of blocks. Of several tensors warps take the blocks from
    both sides in turn, so that none has much more to do than others.
    """
    for number, vector in enumerate(parts.reduced):
        _, extent, end = _COORDINATES[vector.along or ""]
        at = ", ".join(_index(vector, "at"))
        count, name = _NUMBERS[vector.along or ""], vector.argument
        begin = "every_warp - 1 - warp" if number % 2 else "warp"
        yield f"for block in range({begin}, {count}, every_warp):"
        yield f"    first, last = block * {extent}, cutlass.min((block + 1) * {extent}, {end})"
        yield '    low, high = Float32(float("inf")), Float32(-float("inf"))'
        yield "    for at in cutlass.range(first + lane, last, 32, unroll=4):"
        yield f"        low, high = wider(low, high, {name}[{at}])"
        yield "    for step in cutlass.range_constexpr(5):"
        yield "        low, high = with_neighbour(low, high, 16 >> step)"
        yield "    if lane == 0:"
        yield f"        ends[nth, at_{name} + block] = low"
        yield f"        ends[nth, at_{name} + {count} + block] = high"


def _index(vector: Vector, along: str) -> Iterator[str]:
    """The indices of an element; ``along`` is where it is along rows or columns."""
    for dimension in order(vector):
        index = vector.indices[dimension]
        yield along if index == vector.along else index


def _of_slice(parts: Parts, needed: Sequence[str]) -> Iterator[str]:
    """Intervals that are the same for all tiles and blocks."""
    for name in ("batch", "head", *SIZES):
        if f"in_{name}" in needed:
            yield f"in_{name} = single({name})"
    for name in map(number_name, parts.numbers):
        yield f"in_{name} = single({name})"
    for vector in parts.vectors:
        if vector.along is None:
            at = ", ".join(_index(vector, ""))
            yield f"in_{vector.argument} = element({vector.argument}[{at}])"


def _along(along: str, parts: Parts, needed: Sequence[str]) -> Iterator[str]:
    """Intervals of a tile of queries, or of a block of keys."""
    which, extent, end = _COORDINATES[along]
    which = "near" if along == "column" else which
    if f"in_{along}" in needed:
        yield f"in_{along} = coordinates({which}, {extent}, {end})"
    for vector in parts.reduced:
        if vector.along == along:
            at = f"at_{vector.argument} + {which}"
            low, high = f"ends[nth, {at}]", f"ends[nth, {at} + {_NUMBERS[along]}]"
            yield f"in_{vector.argument} = Float64({low}), Float64({high})"


def _arguments(parts: Parts, numbers: Sequence[str]) -> Iterator[str]:
    for vector in parts.vectors:
        yield f'("{vector.argument}", {tuple(vector.indices[at] for at in order(vector))}, "f32"),'
    yield '("scratch", ("slices", "words"), "i32"),'
    for name in RESULTS:
        extents = ("slices", "tiles", "blocks") if name == LISTED else ("slices", "tiles")
        yield f'("{name}", {extents}, "i32"),'
    yield from (f'("{name}", (), "f32"),' for name in numbers)
    yield from (f'("{name}", (), "i32"),' for name in SCALARS)


_FILE = '''# ruff: noqa
# type: ignore
"""Lists of the blocks of keys in which a mask keeps something, generated by schedgen.

{about}
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Float64, Int32
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import T

CTAS, WARPS = {ctas}, {warps}


def by_instruction(text, *of):
    """The result of one instruction of float64, which stays one: rounded to the nearest."""
    values = [Float64(one).ir_value() for one in of]
    places = ", ".join(f"${{n}}" for n in range(len(of) + 1))
    constraints = ",".join(["=d"] + ["d"] * len(of))
    made = llvm.inline_asm(T.f64(), values, f"{{text}} {{places}};", constraints)
    return Float64(made)


def sum_of(one, other):
    return by_instruction("add.rn.f64", one, other)


def difference(one, other):
    return by_instruction("sub.rn.f64", one, other)


def product(one, other):
    return by_instruction("mul.rn.f64", one, other)


def quotient(one, other):
    return by_instruction("div.rn.f64", one, other)


def negative(one):
    return by_instruction("neg.f64", one)


def absolute(one):
    return by_instruction("abs.f64", one)


def floor(one):
    return by_instruction("cvt.rmi.f64.f64", one)


def finite(one):
    return absolute(one) < Float64(float("inf"))


def chosen(when, then, other):
    if isinstance(when.value, bool):
        return then if when.value else other
    return type(then)(cutlass.select_(when, then, other))


def least(one, other):
    """Not a number if one of both is none."""
    return chosen((one < other) | (one != one), one, other)


def most(one, other):
    return chosen((one > other) | (one != one), one, other)


def single(number):
    return Float64(number), Float64(number)


def element(number):
    """An element of a tensor, which is anything if it is no number."""
    value = Float64(number)
    infinity = Float64(float("inf"))
    return chosen(value == value, value, -infinity), chosen(value == value, value, infinity)


def coordinates(number, extent, end):
    """The first and the last one of a block."""
    return Float64(number * extent), Float64(cutlass.min((number + 1) * extent, end) - 1)


def wider(low, high, value):
    """An interval with another element in it."""
    infinity = Float32(float("inf"))
    least, most = chosen(value == value, value, -infinity), chosen(value == value, value, infinity)
    return chosen(least < low, least, low), chosen(most > high, most, high)


def with_neighbour(low, high, distance):
    """An interval with that of another lane in it."""
    least = cute.arch.shuffle_sync_bfly(low, distance)
    most = cute.arch.shuffle_sync_bfly(high, distance)
    return chosen(least < low, least, low), chosen(most > high, most, high)


def bits(condition):
    """A bit for each lane of the warp."""
    return Int32(cute.arch.vote_ballot_sync(condition))


def seen({needed}):
    """Whether the mask keeps some element of a block, and whether all of them."""
    {seen}


@cute.kernel
def kernel({takes}):
    cute.arch.griddepcontrol_wait()
    cute.arch.griddepcontrol_launch_dependents()
    thread = cute.arch.thread_idx()[0]
    lane = thread % 32
    warp = cute.arch.make_warp_uniform(thread // 32) * CTAS + cute.arch.block_idx()[0] % CTAS
    every_warp = CTAS * WARPS
    nth = cute.arch.block_idx()[0] // CTAS
    batch, head = nth // heads, nth % heads
    tiles, blocks = Int32(listed.shape[1]), Int32(listed.shape[2])
    words = cute.ceil_div(blocks, 32)
    {starts}
    ends = cute.make_tensor(cute.recast_ptr(scratch.iterator, dtype=Float32), scratch.layout)

    {ends}
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    {of_slice}
    for tile in range(warp, tiles, every_warp):
        {of_tile}
        count, full = Int32(0), Int32(0)
        for start in range(0, words, 32):  # each lane keeps a word, so that no store is in the way
            my_kept, my_whole = Int32(0), Int32(0)
            for word in cutlass.range(start, cutlass.min(start + 32, words), unroll=4):
                block = word * 32 + lane
                near = cutlass.min(block, blocks - 1)
                {of_block}
                some, every = seen({needed})
                # Kernels mask what lies behind the last key, but not in blocks that are full.
                kept, whole = bits(some & (block < blocks)), bits(every & (block < seq_k // keys))
                my_kept = chosen(word - start == lane, kept, my_kept)
                my_whole = chosen(word - start == lane, whole, my_whole)
                count += cute.arch.popc(kept)
                full += cute.arch.popc(whole)
            if start + lane < words:
                at = at_bits + tile * words + start + lane
                scratch[nth, at] = my_kept
                scratch[nth, at + tiles * words] = my_whole
        if lane == 0:
            scratch[nth, at_counts + tile] = count
            scratch[nth, at_counts + tiles + tile] = full
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()

    for tile in range(warp, tiles, every_warp):
        count = scratch[nth, at_counts + tile]
        full = scratch[nth, at_counts + tiles + tile]
        place = Int32(0)
        for other in cutlass.range(lane, tiles, 32, unroll=4):
            its = scratch[nth, at_counts + other]
            before = (its > count) | ((its == count) & (other < tile))
            place += chosen(before, Int32(1), Int32(0))
        for step in cutlass.range_constexpr(5):
            place += cute.arch.shuffle_sync_bfly(place, 16 >> step)
        if lane == 0:
            order[nth, place] = tile
            counts[nth, place] = count
            fulls[nth, place] = full
        of_whole, of_part = Int32(0), full
        below = (Int32(1) << lane) - 1
        for start in range(0, words, 32):
            my_kept, my_whole = Int32(0), Int32(0)
            if start + lane < words:
                at = at_bits + tile * words + start + lane
                my_kept = scratch[nth, at]
                my_whole = scratch[nth, at + tiles * words]
            for word in cutlass.range(start, cutlass.min(start + 32, words), unroll=2):
                whole = cute.arch.shuffle_sync(my_whole, word - start)
                part = cute.arch.shuffle_sync(my_kept, word - start) ^ whole
                if (whole >> lane) & 1 == 1:
                    listed[nth, place, of_whole + cute.arch.popc(whole & below)] = word * 32 + lane
                if (part >> lane) & 1 == 1:
                    listed[nth, place, of_part + cute.arch.popc(part & below)] = word * 32 + lane
                of_whole += cute.arch.popc(whole)
                of_part += cute.arch.popc(part)


@cute.jit
def launch({takes}, sms: cutlass.Constexpr, stream: cuda.CUstream):
    kernel({given}).launch(
        grid=[CTAS * Int32(listed.shape[0]), 1, 1],
        block=[32 * WARPS, 1, 1],
        cluster=[CTAS, 1, 1],
        use_pdl=True,
        stream=stream,
    )


KERNEL = "{name}"
TARGET = "{arch}"
ARGUMENTS = (
    {arguments}
)
OUTPUTS = {outputs}
ROLES = (("warps", {warps}, 128),)
CYCLES_PER_ITERATION = 0
SHARED_BYTES = 0
TENSOR_COLUMNS = 0
'''
