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
from schedgen.kernels.variants.block_template import FILE
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
    return FILE.format(
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
        of_block=_lines(_along("column", parts, needed), 5),
        needed=", ".join(needed),
        name=NAME,
        outputs=RESULTS,
        arch=arch,
        arguments=_lines(_arguments(parts, numbers), 1),
    )


def _about(wanted: Asked) -> str:
    mask = " ".join((wanted.mask or "").replace("\\", " ").replace('"""', " ").split())
    turned = ", of blocks of rows for tiles of columns" if wanted.turned else ""
    return textwrap.fill(mask + (", causal" if wanted.causal else "") + turned, 96)


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
        yield "    for begin in range(first + lane, last, 32 * AT_ONCE):"
        yield "        for step in cutlass.range_constexpr(AT_ONCE):"
        yield "            at = cutlass.min(begin + 32 * step, last - 1)"
        yield f"            low, high = wider(low, high, {name}[{at}])"
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
