"""Functions that generated files define if they use them; a library for each architecture."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from schedgen.codegen.library_following import FOLLOWING
from schedgen.codegen.library_gather import GATHER
from schedgen.codegen.library_narrow import NARROW
from schedgen.codegen.library_ragged import RAGGED
from schedgen.codegen.library_random import RANDOM
from schedgen.codegen.library_rounds import ROUNDS
from schedgen.codegen.library_turns import TURNS
from schedgen.codegen.library_waits import WAITS
from schedgen.codegen.trees import parsed

_BEFORE = '''
def slot(number, slots):
    """The slot of a ring that a running number uses."""
    return Int32(cutlass.Uint32(number) % slots)


def phase(number, slots):
    """The parity of the phase in which the barrier of that slot is."""
    return Int32(cutlass.Uint32(number) // slots % 2)


def advance(slot, phase, slots, by=1):
    """Slot and parity of the number that comes ``by`` numbers later."""
    later = slot + by
    again = later >= slots
    return cutlass.select_(again, later - slots, later), cutlass.select_(again, 1 - phase, phase)


def in_turns(turn, least, trips):
    """A turn from ``least`` on, ``trips`` at most: the nearest one."""
    return cutlass.min(trips, cutlass.max(Int32(turn), Int32(least)))


def blocks_of(vector, count):
    """The value of the block of columns that each element of a thread's fragment lies in."""
    few = cute.make_rmem_tensor(cute.size(vector), vector.element_type)
    cute.autovec_copy(vector, few)
    registers = cute.make_rmem_tensor(count, vector.element_type)
    for v in range(count):
        registers[v] = few[v * cute.size(vector) // count]
    return registers


def part_of(tensor, first, count):
    """Neighbouring elements of a vector or of registers."""
    return cute.make_tensor(tensor.iterator + first, cute.make_layout(count))


def as_dtype(registers, dtype):
    """All elements, converted if need be."""
    if registers.element_type == dtype:
        return registers
    converted = cute.make_rmem_tensor(cute.size(registers), dtype)
    converted.store(registers.load().to(dtype))
    return converted

'''
_BEHIND = '''
def instance_of(warp, first):
    """Which of the roles it is whose warps begin with the first one, four each."""
    return (warp - first) // 4


def place(shared, offset, aligned):
    """A place in shared memory that is known when the kernel runs, on a multiple of bytes."""
    space = cute.AddressSpace.smem
    return cute.make_ptr(cutlass.Uint8, shared.toint() + offset, space, assumed_align=aligned)


def one_tile(rows, columns, dtype):
    return cute.select(tile_layout(rows, columns, 1, dtype), [0, 1])


def tiles_at(pointer, rows, columns, slots, dtype):
    """Tiles of shared memory: (rows, columns, slots)."""
    layout = tile_layout(rows, columns, slots, dtype)
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=dtype), layout.outer)


def tiles_apart(pointer, rows, columns, slots, stride, dtype):
    """Tiles of shared memory: (rows, columns, slots), the slots ``stride`` elements apart."""
    layout = tile_layout(rows, columns, 1, dtype)
    slot = cute.select(layout.outer, [0, 1])
    outer = cute.append(slot, cute.make_layout(slots, stride=stride))
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=dtype), outer)


def vectors_at(pointer, length, slots, stride, dtype):
    """Vectors in shared memory: (length, slots), ``stride`` elements apart."""
    layout = cute.make_layout((length, slots), stride=(1, stride))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def ragged_map(tensor, mode):
    """A tensor one mode of which may end anywhere: element i of n is number 2^30 - n + i there. The
    mode behind it moves it by as many elements as there are up to its end, and the last one back by
    2^30, round 2^64: a map may not begin at an address before the tensor.
    """
    room, stride = 1 << 30, tensor.stride[mode]
    around = cutlass.Int64((1 << 34) * 8 // tensor.element_type.width) - stride
    shape = [room if n == mode else size for n, size in enumerate(tensor.shape)]
    shape += [tensor.shape[mode] + 1, room + 1]
    layout = cute.make_layout(tuple(shape), stride=(*tensor.stride, stride, around))
    return cute.make_tensor(tensor.iterator, layout)


def within(tensor, mode, begin, size):
    """Coordinates of such a tensor for ``size`` elements from ``begin`` on, and no others."""
    room = 1 << 30
    at = [room - size if n == mode else 0 for n in range(cute.rank(tensor) - 2)]
    return cute.domain_offset((*at, begin + size, room), tensor)


def folded_map(tensor, mode, count, pitch):
    """Such a tensor of ``count`` of them that are ``pitch`` elements of the mode apart: those of
    number i begin at element ``pitch * i``.
    """
    all = (count - 1) * pitch + tensor.shape[mode]
    shape = tuple(all if n == mode else size for n, size in enumerate(tensor.shape))
    layout = cute.make_layout(shape, stride=tensor.stride)
    return ragged_map(cute.make_tensor(tensor.iterator, layout), mode)


@cute.jit
def page_of(table: cute.Tensor, number: Int32, first: Int32, size: Int32, page, pages: Int32):
    """The page that has the element ``first`` of a number, and how many of its elements belong to
    the ``size`` of that: none of a page that is not there. Nothing is read of the table behind the
    last one.
    """
    found = Int32(-1)
    if first < size:
        found = table[(number, first // page)]
    there = found >= 0 and found < pages
    count = cutlass.min(size - first // page * page, Int32(page))
    return cutlass.select_(there, found, 0), cutlass.select_(there, count, 0)


def part_of_tile(rows, columns, box, dtype):
    """The first rows of a tile, as they lie in it."""
    layout = one_tile(rows, columns, dtype)
    part = cute.composition(layout.outer, (box, columns))
    return cute.make_composed_layout(layout.inner, layout.offset, part)


@cute.jit
def draw(counter: cute.Tensor, tiles: Int32):
    """The next ticket, by one thread of a warp: the old value of the counter, which begins anew
    behind the last one that all blocks draw.
    """
    ticket = Int32(0)
    if cute.arch.lane_idx() == 0:
        ticket = next_of(counter.iterator, tiles - 1)
    return ticket


def next_of(counter, last):
    """The old value of a counter in global memory, which goes from 0 to ``last`` and then round."""
    from cutlass._mlir.dialects import llvm

    words = [counter.toint().ir_value(), last.ir_value()]
    text = "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;"
    made = llvm.inline_asm(words[1].type, words, text, "=r,l,r", has_side_effects=True)
    return Int32(made)


@cute.jit
def tell(place: cute.Pointer, tile: Int32):
    """Writes the number of a tile, by the thread that drew it; then the whole warp has done so."""
    if cute.arch.lane_idx() == 0:
        cute.make_tensor(place, cute.make_layout(1))[0] = tile
    cute.arch.sync_warp()


def taken(place):
    """The number of a tile; all threads of the warp have read it."""
    return cute.arch.make_warp_uniform(cute.make_tensor(place, cute.make_layout(1))[0])


def opaque(number):
    """The same number, of which the compiler knows nothing: it compares that, not what it is of."""
    from cutlass._mlir.dialects import llvm

    words = [number.ir_value()]
    return Int32(llvm.inline_asm(words[0].type, words, "mov.b32 $0, $1;", "=r,r"))


@cute.jit
def segment_of(starts: cute.Tensor, number: Int32, most: Int32):
    """Where the elements of a number begin, and how many there are: inside of all, ``most`` of
    them, whatever the array says.
    """
    begin = cutlass.min(cutlass.max(starts[(number,)], 0), most)
    end = cutlass.min(cutlass.max(starts[(number + 1,)], begin), most)
    return begin, end - begin


@cute.jit
def length_of(lengths: cute.Tensor, number: Int32, most: Int32):
    """How many elements a number has: none to ``most``, whatever the array says."""
    return cutlass.min(cutlass.max(lengths[(number,)], 0), most)


def count_of(counts, at, most):
    """How many iterations an output tile has: 1 to ``most``, whatever the array says."""
    return cutlass.min(cutlass.max(counts[at], 1), most)


def block_of(blocks, at, most):
    """A block that an array names: one of ``most``, whatever it says."""
    return cutlass.min(cutlass.max(blocks[at], 0), most - 1)


def transposed(tensor):
    """Rows and columns exchanged, in the same place."""
    order = [1, 0, *range(2, cute.rank(tensor))]
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, order))


def pairwise(values, function):
    """All values combined, neighbours first."""
    while len(values) > 1:
        pairs = [function(*values[n : n + 2]) for n in range(0, len(values) - 1, 2)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def in_bands(index, rows, by_band):
    """Row and column of a tile: bands of 8 rows, column by column, so that tiles that are computed
    at one time share operands in the L2 cache.
    """
    band, rest = divmod(index, by_band)
    height = cutlass.min(rows - 8 * band, 8)
    return 8 * band + rest % height, rest // height


def tiles_in_row(row, row_block, column_block):
    """Tiles of a row of tiles that reach to the diagonal or below it."""
    return ((row + 1) * row_block - 1) // column_block + 1


@cute.jit
def divisor_of(count: Int32, most: Int32):
    """The largest divisor of ``count`` that is not above ``most``; 1 if all are."""
    found = Int32(1)
    for n in range(2, cutlass.min(count, most) + 1):
        if count % n == 0:
            found = n
    return found


def tiles_in_rows(rows, row_block, column_block):
    """Tiles of the first ``rows`` rows; a row a period later has ``more`` tiles more."""
    period = next(n for n in range(1, 1 + column_block) if n * row_block % column_block == 0)
    more = period * row_block // column_block
    first = [tiles_in_row(row, row_block, column_block) for row in range(period)]
    periods = rows // period
    count = periods * sum(first) + more * period * (periods * (periods - 1) // 2)
    for row in range(period - 1):
        count += cutlass.max(cutlass.min(rows % period - row, 1), 0) * (first[row] + more * periods)
    return count


def band_of_triangle(row_block, column_block):
    """Tiles of each row of the first band of rows; about 8 rows, and as many more columns in each
    band than in the band before.
    """
    period = next(n for n in range(1, 1 + column_block) if n * row_block % column_block == 0)
    rows = period * max(1, round(8 / period))
    return [tiles_in_row(row, row_block, column_block) for row in range(rows)]


def in_corner(index, widths):
    """Row and column of a tile in rows that have ``widths`` tiles, row by row."""
    row, column = Int32(0), index
    for n in range(1, len(widths)):
        below = Int32(index >= sum(widths[:n]))
        row += below
        column -= below * widths[n - 1]
    return row, column


@cute.jit
def in_triangle(index: Int32, rows: Int32, row_block, column_block):
    """Row and column of a tile that is not above the diagonal: bands of rows, column by column, so
    that tiles that are computed at one time share operands in the L2 cache. Columns that do not
    reach to a band's last row come last, row by row.
    """
    widths = band_of_triangle(row_block, column_block)
    band = len(widths)
    more = band * row_block // column_block
    first, whole = Int32(0), Int32(0)
    count = Int32(sum(widths))
    while index >= count:
        index -= count
        first += band
        whole += more
        count += band * more
    height = cutlass.min(rows - first, band)
    column = Int32(cutlass.Uint32(index) // band)
    if height < band:
        column = index // height
    row = index - column * height
    if column >= whole:
        row, column = in_corner(index - whole * height, widths)
        column += whole
    return first + row, column


def exp2_on_fma(x):
    """2 to the power of x, within 1.1e-4 of its value; 0 below -126, infinite above 127.5.

    x is a whole number n and a rest of at most a half. Beside a number as large as 2 ** 23 there is
    no room for the rest: n + 127 is left in the low bits, and shifted to the exponent it is 2 to
    the power of n. For the rest there is a polynomial that is 1 at 0 and has the smallest relative
    error otherwise.
    """
    x = cute.arch.fmin(cute.arch.fmax(x, -127.0, nan=True), 128.0, nan=True)
    shifted = x + 12583039.0
    rest = x - (shifted - 12583039.0)
    power = ((0.05500893 * rest + 0.24221097) * rest + 0.69328293) * rest + 1.0
    return power * (shifted.bitcast(Int32) << 23).bitcast(Float32)


def exp2_in_part(x, v, share, of):
    """2 to the power of x, of ``share`` in ``of`` pairs of elements by FMA units."""
    on_fma = v // 2 * share % of < share
    return exp2_on_fma(x) if on_fma else cute.math.exp2(x, fastmath=True)


def sigmoid(x):
    return cute.arch.rcp_approx(1.0 + cute.math.exp2(x * -1.4426950408889634, fastmath=True))


def gelu(x):
    """The tanh approximation."""
    inner = x * (0.7978845608028654 + 0.035677408136300125 * (x * x))
    return 0.5 * x * (1.0 + cute.math.tanh(inner, fastmath=True))

'''
COMMON = WAITS + _BEFORE + NARROW + _BEHIND + RANDOM + TURNS + ROUNDS + FOLLOWING


def used(called: Collection[str], library: str) -> str:
    """The functions that ``called`` names, and those that they call, in order."""
    functions = _functions(COMMON) | _functions(RAGGED) | _functions(GATHER) | _functions(library)
    needed: set[str] = set()
    found = set(called)
    while found - needed:
        needed |= found
        found = set[str]().union(*(functions[name].calls & functions.keys() for name in needed))
    return "\n\n".join(functions[name].text for name in functions if name in needed)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the library: its text with decorator, and the names that it calls."""

    text: str
    calls: frozenset[str]


@cache
def _functions(library: str) -> dict[str, _Function]:
    """Name -> function, in order."""
    lines, found = library.splitlines(), dict[str, _Function]()
    for node in parsed(library).body:
        assert isinstance(node, ast.FunctionDef)
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        text = "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
        calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
        names = frozenset(each.id for each in calls if isinstance(each, ast.Name))
        found[node.name] = _Function(text, names)
    return found
