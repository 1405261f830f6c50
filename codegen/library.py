"""Functions that generated files define if they use them."""

from __future__ import annotations

import re

COMMON = '''
def slot(number, slots):
    """The slot of a ring that a running number uses."""
    return number % slots


def phase(number, slots):
    """The parity of the phase in which the barrier of that slot is."""
    return number // slots % 2


def tile_layout(rows, columns, slots, dtype):
    """Rows of up to 128 bytes, swizzled; wider tiles are panels of 128 bytes, side by side."""
    kinds = warpgroup.SmemLayoutAtomKind
    span = min(columns * dtype.width // 8, 128)
    kind = {128: kinds.K_SW128, 64: kinds.K_SW64, 32: kinds.K_SW32, 16: kinds.K_INTER}[span]
    atom = warpgroup.make_smem_layout_atom(kind, dtype)
    return cute.tile_to_shape(atom, (rows, columns, slots), order=(0, 1, 2))


def one_tile(rows, columns, dtype):
    return cute.select(tile_layout(rows, columns, 1, dtype), [0, 1])


def tiles_at(pointer, rows, columns, slots, dtype):
    """Tiles of shared memory: (rows, columns, slots)."""
    layout = tile_layout(rows, columns, slots, dtype)
    return cute.make_tensor(cute.recast_ptr(pointer, layout.inner, dtype=dtype), layout.outer)


def vectors_at(pointer, length, slots, stride, dtype):
    """Vectors in shared memory: (length, slots), ``stride`` elements apart."""
    layout = cute.make_layout((length, slots), stride=(1, stride))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def transposed(tensor):
    """Rows and columns exchanged, in the same place."""
    order = [1, 0, *range(2, cute.rank(tensor))]
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, order))


def fragment_of(tile, columns, thread):
    """The elements of a tile in shared memory that a thread has of a product's result."""
    major = warpgroup.OperandMajorMode.K
    mma = sm90_utils.make_trivial_tiled_mma(
        BFloat16, BFloat16, major, major, Float32, (1, 1, 1), (64, columns)
    )
    return mma.get_slice(thread).partition_C(tile)


def load_fragment(tile, columns, dtype, thread):
    part = fragment_of(tile, columns, thread)
    registers = cute.make_rmem_tensor(part.shape, dtype)
    cute.autovec_copy(part, registers)
    return registers


def store_fragment(registers, tile, columns, thread):
    part = fragment_of(tile, columns, thread)
    cute.autovec_copy(cute.make_tensor(registers.iterator, cute.make_layout(part.shape)), part)


def rows_of(vector, slot, thread):
    """The values of a thread's two rows."""
    registers = cute.make_rmem_tensor(2, vector.element_type)
    for v in range(2):
        registers[v] = vector[(thread // 32 * 16 + thread % 32 // 4 + 8 * v, slot)]
    return registers


@cute.jit
def store_rows(registers: cute.Tensor, vector: cute.Tensor, slot: Int32, thread: Int32):
    """One of the four threads of a row writes its value."""
    if thread % 4 == 0:
        for v in cutlass.range_constexpr(2):
            vector[(thread // 32 * 16 + thread % 32 // 4 + 8 * v, slot)] = registers[v]


def columns_of(vector, first, columns, slot, thread):
    """The values of a thread's columns, for each element of its fragment."""
    registers = cute.make_rmem_tensor(columns // 2, vector.element_type)
    for v in range(columns // 2):
        registers[v] = vector[(first + 8 * (v // 4) + 2 * (thread % 4) + v % 2, slot)]
    return registers


def pairwise(values, function):
    """All values combined, neighbours first."""
    while len(values) > 1:
        pairs = [function(*values[n : n + 2]) for n in range(0, len(values) - 1, 2)]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def across_row(registers, first, count, row, function):
    """One row combined over the four threads that have it."""
    mine = [Float32(registers[first + v]) for v in range(count) if v // 2 % 2 == row]
    value = pairwise(mine, function)
    for distance in (1, 2):
        value = function(value, cute.arch.shuffle_sync_bfly(value, distance))
    return value


def row_max(registers, first, count, row):
    return across_row(registers, first, count, row, cute.arch.fmax)


def row_sum(registers, first, count, row):
    return across_row(registers, first, count, row, lambda x, y: x + y)


def tiles_in_row(row, columns, row_block, column_block):
    """Tiles of a row of tiles that reach to the diagonal or below it."""
    return cutlass.min(((row + 1) * row_block - 1) // column_block + 1, columns)


@cute.jit
def count_triangle(outer: Int32, rows: Int32, columns: Int32, row_block, column_block):
    """Tiles that are not above the diagonal."""
    count = Int32(0)
    for row in cutlass.range(rows, unroll=1):
        count += tiles_in_row(row, columns, row_block, column_block)
    return count * outer


@cute.jit
def in_triangle(index: Int32, outer: Int32, rows: Int32, columns: Int32, row_block, column_block):
    """Which tile number ``index`` is: (outer, row, column)."""
    row = Int32(0)
    rest = index
    at = Int32(0)
    width = tiles_in_row(row, columns, row_block, column_block)
    while rest >= width:
        rest -= width
        row += 1
        if row == rows:
            row = Int32(0)
            at += 1
        width = tiles_in_row(row, columns, row_block, column_block)
    return at, row, rest


def sigmoid(x):
    return cute.arch.rcp_approx(1.0 + cute.math.exp2(x * -1.4426950408889634, fastmath=True))


def gelu(x):
    """The tanh approximation."""
    inner = x * (0.7978845608028654 + 0.035677408136300125 * (x * x))
    return 0.5 * x * (1.0 + cute.math.tanh(inner, fastmath=True))
'''


def used(body: str) -> str:
    """The functions that ``body`` calls, and those that they call, in order."""
    functions = _functions()
    needed: set[str] = set()
    found = _called(body, functions)
    while found - needed:
        needed |= found
        found = set[str]().union(*(_called(functions[name], functions) for name in needed))
    return "\n\n".join(functions[name] for name in functions if name in needed)


def _functions() -> dict[str, str]:
    """Name -> its text with decorator, in the order of this file."""
    texts = re.split(r"\n\n\n", COMMON.strip("\n"))
    return {re.search(r"def (\w+)", text)[1]: text + "\n" for text in texts}  # type: ignore[index]


def _called(text: str, functions: dict[str, str]) -> set[str]:
    return {name for name in re.findall(r"\b(\w+)\(", text) if name in functions}
