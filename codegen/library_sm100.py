"""Functions of generated files for Blackwell."""

from __future__ import annotations

from schedgen.codegen.library_panels import PANELS

_BEFORE = '''
def tile_layout(rows, columns, slots, dtype):
    """Rows of up to 128 bytes, swizzled; wider tiles are panels of as many bytes, side by side."""
    kinds = tcgen05.SmemLayoutAtomKind
    span = next(span for span in (128, 64, 32, 16) if columns * dtype.width // 8 % span == 0)
    kind = {128: kinds.K_SW128, 64: kinds.K_SW64, 32: kinds.K_SW32, 16: kinds.K_INTER}[span]
    atom = tcgen05.make_smem_layout_atom(kind, dtype)
    return cute.tile_to_shape(atom, (rows, columns, slots), order=(0, 1, 2))


def flat(registers, shape):
    """The same registers in another shape."""
    return cute.make_tensor(registers.iterator, cute.make_layout(shape))


'''
_BEHIND = '''
def pinned(value):
    """The same value, of which the compiler knows nothing ahead of time."""
    return cute.arch.shuffle_sync(value, cute.arch.lane_idx())


def row_pieces(tile, registers, thread, first):
    """A thread's row from column ``first`` on, up to 16 bytes at a time, with the registers for
    them.
    """
    width, count, stride = panel_shape(tile)
    width = min(width, cute.size(registers))
    thread = pinned(thread)  # or all addresses would be kept in registers for the whole kernel
    exchange = (thread * count >> 3) & (count - 1)
    for v in range(0, cute.size(registers), width):
        panel, piece = divmod((first + v) // width, count)
        pointer = piece_at(tile, thread, exchange, width, piece) + panel * stride
        yield cute.make_tensor(pointer, cute.make_layout(width)), part_of(registers, v, width)


def load_tile(tile, registers, thread, first=0):
    """The row of a thread, of a tile in shared memory."""
    for piece, mine in row_pieces(tile, registers, thread, first):
        cute.autovec_copy(piece, mine)


def store_tile(registers, tile, thread, first=0):
    for piece, mine in row_pieces(tile, as_dtype(registers, tile.element_type), thread, first):
        cute.autovec_copy(mine, piece)


def column_elements(tile, thread):
    """Pointers to the elements of a thread's column, of a tile in shared memory."""
    width, count, stride = panel_shape(tile)
    for v in range(cute.size(tile, mode=[0])):
        piece = thread // width % count
        pointer = piece_at(tile, v, (v * count >> 3) & (count - 1), width, piece)
        yield pointer + thread // (width * count) * stride + thread % width


def load_transposed(tile, registers, thread):
    """A column of a tile in shared memory, by a thread."""
    for v, element in enumerate(column_elements(tile, thread)):
        registers[v] = element.load()


def store_transposed(registers, tile, thread):
    registers = as_dtype(registers, tile.element_type)
    for v, element in enumerate(column_elements(tile, thread)):
        element.store(registers[v])


def rows_of(vector, thread):
    """The value of a thread's row."""
    registers = cute.make_rmem_tensor(1, vector.element_type)
    registers[0] = vector[thread]
    return registers


def store_rows(registers, vector, thread):
    vector[thread] = registers[0]


def columns_of(vector, thread):
    """The values of all columns."""
    registers = cute.make_rmem_tensor(cute.size(vector), vector.element_type)
    cute.autovec_copy(vector, registers)
    return registers


def row_max(registers, row):
    """Three values at a time, which is one instruction."""
    maximum = lambda x, y: cute.arch.fmax(x, y, nan=True)
    values = [Float32(registers[v]) for v in range(cute.size(registers))]
    while len(values) > 1:
        threes = [values[n : n + 3] for n in range(0, len(values), 3)]
        values = [pairwise(three, maximum) for three in threes]
    return values[0]


def row_sum(registers, row):
    """Two sums at a time, which is one instruction."""
    values = [Float32(registers[v]) for v in range(cute.size(registers))]
    values += [Float32(0.0)] * (len(values) % 2)
    pairs = [(values[n], values[n + 1]) for n in range(0, len(values), 2)]
    low, high = pairwise(pairs, cute.arch.add_packed_f32x2)
    return low + high


def row_sums(registers):
    """Each element with all before it in its row, which is the thread's."""
    sums = cute.make_rmem_tensor(cute.size(registers), Float32)
    total = Float32(0.0)
    for v in range(cute.size(registers)):
        total += Float32(registers[v])
        sums[v] = total
    return sums


def twice(x):
    return Float32(x), Float32(x)


def exp2_pair(x, v=0, share=0, of=1):
    """2 to the power of two elements, of ``share`` in ``of`` pairs by FMA units."""
    if v // 2 * share % of < share:
        return exp2_pair_on_fma(x)
    return tuple(cute.math.exp2(value, fastmath=True) for value in x)


def exp2_pair_on_fma(x):
    """2 to the power of two elements, as `exp2_on_fma` does it, two at a time."""
    add, fma = cute.arch.add_packed_f32x2, cute.arch.fma_packed_f32x2
    x = tuple(cute.arch.fmin(cute.arch.fmax(y, -127.0, nan=True), 128.0, nan=True) for y in x)
    shifted = add(x, twice(12583039.0))
    rest = cute.arch.sub_packed_f32x2(x, add(shifted, twice(-12583039.0)))
    power = fma(rest, twice(0.05500893), twice(0.24221097))
    power = fma(power, rest, twice(0.69328293))
    power = fma(power, rest, twice(1.0))
    whole = tuple((y.bitcast(Int32) << 23).bitcast(Float32) for y in shifted)
    return cute.arch.mul_packed_f32x2(power, whole)


def sigmoid_pair(x):
    scaled = cute.arch.mul_packed_f32x2(x, twice(-1.4426950408889634))
    power = tuple(cute.math.exp2(value, fastmath=True) for value in scaled)
    sums = cute.arch.add_packed_f32x2(power, twice(1.0))
    return tuple(cute.arch.rcp_approx(value) for value in sums)


def silu_pair(x):
    return cute.arch.mul_packed_f32x2(x, sigmoid_pair(x))


def gelu_pair(x):
    """The tanh approximation."""
    mul, fma = cute.arch.mul_packed_f32x2, cute.arch.fma_packed_f32x2
    factor = fma(mul(x, x), twice(0.035677408136300125), twice(0.7978845608028654))
    inner = mul(x, factor)
    half = mul(x, twice(0.5))
    return fma(half, tuple(cute.math.tanh(value, fastmath=True) for value in inner), half)


def columns_at(pointer, columns, dtype):
    """Columns of tensor memory as a tile with a row in each lane."""
    lane = 65536 * 32 // dtype.width
    layout = cute.make_layout((128, columns), stride=(lane, 1))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def column_pieces(tile, registers):
    """Pieces of at most 32 columns, with the registers for them."""
    tile, registers = cute.recast_tensor(tile, Float32), cute.recast_tensor(registers, Float32)
    first, columns = 0, cute.size(tile, mode=[1])
    while first < columns:
        count = min(32, 1 << ((columns - first).bit_length() - 1))
        layout = cute.make_layout((128, count), stride=(65536, 1))
        yield cute.make_tensor(tile.iterator + first, layout), part_of(registers, first, count)
        first += count


def load_columns(tile, registers, thread):
    """The row of a thread, of a tile in tensor memory; it arrives some time later."""
    for columns, mine in column_pieces(tile, registers):
        count = cute.size(mine)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, columns).get_slice(thread)
        cute.copy(copy, copy.partition_S(columns), flat(mine, ((count, 1), 1, 1)))


def store_columns(registers, tile, thread):
    """The row of a thread, of a tile in tensor memory; it leaves some time later."""
    for columns, mine in column_pieces(tile, as_dtype(registers, tile.element_type)):
        count = cute.size(mine)
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, columns).get_slice(thread)
        cute.copy(copy, flat(mine, ((count, 1), 1, 1)), copy.partition_D(columns))


def tmem_before_sync():
    cute.arch.inline_ptx("tcgen05.fence::before_thread_sync;")


def tmem_after_sync():
    cute.arch.inline_ptx("tcgen05.fence::after_thread_sync;")


def product(dtype, columns, left, right):
    """128 rows times ``columns``; left operand in SMEM or TMEM, right one K- or MN-major."""
    source = tcgen05.OperandSource.TMEM if left == "TMEM" else tcgen05.OperandSource.SMEM
    major = OperandMajorMode.K if right == "K" else OperandMajorMode.MN
    shape, group = (128, columns, 16), tcgen05.CtaGroup.ONE
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(dtype, Float32, shape, group, source, OperandMajorMode.K, major)
    )


def byte_product(dtype, columns, left, right):
    """The same for operands of 8 bits."""
    source = tcgen05.OperandSource.TMEM if left == "TMEM" else tcgen05.OperandSource.SMEM
    major = OperandMajorMode.K if right == "K" else OperandMajorMode.MN
    shape, group = (128, columns, 32), tcgen05.CtaGroup.ONE
    return cute.make_tiled_mma(
        tcgen05.MmaF8F6F4Op(dtype, dtype, Float32, shape, group, source, OperandMajorMode.K, major)
    )


def product_along_m(dtype, columns, right):
    """128 rows times ``columns``; left operand M-major in SMEM, right one K- or MN-major."""
    source, left = tcgen05.OperandSource.SMEM, OperandMajorMode.MN
    major = OperandMajorMode.K if right == "K" else OperandMajorMode.MN
    shape, group = (128, columns, 16), tcgen05.CtaGroup.ONE
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(dtype, Float32, shape, group, source, left, major)
    )


def byte_product_along_m(dtype, columns, right):
    """The same for operands of 8 bits."""
    source, left = tcgen05.OperandSource.SMEM, OperandMajorMode.MN
    major = OperandMajorMode.K if right == "K" else OperandMajorMode.MN
    shape, group = (128, columns, 32), tcgen05.CtaGroup.ONE
    return cute.make_tiled_mma(
        tcgen05.MmaF8F6F4Op(dtype, dtype, Float32, shape, group, source, left, major)
    )


def block_product(dtype, factor, columns):
    """The same with a factor for each block of numbers along k, which both operands lie along."""
    one, source, major = tcgen05.CtaGroup.ONE, tcgen05.OperandSource.SMEM, OperandMajorMode.K
    if dtype.width == 8:
        shape = (128, columns, 32)
        op = tcgen05.MmaMXF8F6F4Op(dtype, dtype, shape, one, source, major, major)
    elif factor == cutlass.Float8E4M3FN:
        op = tcgen05.MmaMXF4NVF4Op(factor, (128, columns, 64), one, source)
    else:
        op = tcgen05.MmaMXF4Op((128, columns, 64), one, source)
    return cute.make_tiled_mma(op)


def numbers_of(tiles, dtype):
    """Tiles of bytes, each two numbers of 4 bits, as tiles of these, where they are."""
    rows, columns, slots = (cute.size(tiles, mode=[n]) for n in range(3))
    layout = tile_layout(rows, 2 * columns, 1, dtype)
    apart = cute.make_layout(slots, stride=2 * cute.crd2idx((0, 0, 1), tiles.layout))
    layout, swizzle = cute.append(cute.select(layout.outer, [0, 1]), apart), layout.inner
    return cute.make_tensor(cute.recast_ptr(tiles.iterator, swizzle, dtype=dtype), layout)


def copy_factors(tile, pointer, parts):
    """Groups of 32 rows of 16 bytes, each to 4 columns of all groups of lanes of tensor memory:
    the first group of each part of the tile, then the second ones.
    """
    dtype, lane = tile.element_type, 4 * 65536
    atom = cute.make_copy_atom(tcgen05.Cp4x32x128bOp(tcgen05.CtaGroup.ONE), dtype)
    shape = ((((32, 4), 4), (1, 4)), 1, 1)
    source = cute.make_layout(shape, stride=((((16, 4), 0), (0, 1)), 0, 0))
    target = cute.make_layout(shape, stride=((((lane, 4), 32 * lane), (0, 1)), 0, 0))
    groups = cute.size(tile, mode=[0]) // 32
    for group in range(groups):
        first = group % parts * (groups // parts) + group // parts
        at = cute.recast_ptr(pointer, dtype=dtype) + 16 * group
        columns = cute.make_tensor(at, target)
        copy = tcgen05.make_s2t_copy(atom, columns)
        mine = copy.get_slice(0)
        lines = mine.partition_S(cute.make_tensor(tile.iterator + 512 * first, source))
        cute.copy(copy, tcgen05.get_s2t_smem_desc_tensor(copy, lines), mine.partition_D(columns))


def multiply_scaled(mma, result, left, right, factors, accumulate):
    """Issues the steps of a product along k, each with the factors of its blocks."""
    mma = cute.make_tiled_mma(mma.op)  # a flag of its own, which does not outlive a branch
    dtype, block = mma.op.sf_dtype, mma.op.sf_vec_size
    blocks = mma.op.shape_mnk[2] // block
    for step in range(cute.size(left, mode=[2])):
        group, first = divmod(step * blocks, 4)
        for field, (pointer, bytes_of_group) in zip(
            (tcgen05.Field.SFA, tcgen05.Field.SFB), factors
        ):
            at = cute.recast_ptr(pointer, dtype=dtype) + (group * bytes_of_group + first)
            mma.set(field, at)
        mma.set(tcgen05.Field.ACCUMULATE, True if step else accumulate)
        cute.gemm(mma, result, left[(None, None, step)], right[(None, None, step)], result)


def left_operand(mma, tile):
    return mma.make_fragment_A(mma.get_slice(0).partition_A(tile))


def right_operand(mma, tile):
    return mma.make_fragment_B(mma.get_slice(0).partition_B(tile))


def result_at(pointer, columns):
    """A product's result in tensor memory."""
    layout = cute.make_layout(((128, columns), 1, 1), stride=((65536, 1), 0, 0))
    return cute.make_tensor(pointer, layout)


def operand_at(pointer, columns, dtype):
    """A product's left operand in tensor memory, 16 columns for each step."""
    layout = cute.make_layout(((128, 16), 1, columns // 16), stride=((131072, 1), 0, 16))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def bytes_at(pointer, columns, dtype):
    """The same of elements of 8 bits, 32 columns for each step."""
    layout = cute.make_layout(((128, 32), 1, columns // 32), stride=((262144, 1), 0, 32))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def multiply(mma, result, left, right, accumulate):
    """Issues the steps of a product along k."""
    mma = cute.make_tiled_mma(mma.op)  # a flag of its own, which does not outlive a branch
    for step in range(cute.size(left, mode=[2])):
        mma.set(tcgen05.Field.ACCUMULATE, True if step else accumulate)
        cute.gemm(mma, result, left[(None, None, step)], right[(None, None, step)], result)
'''
LIBRARY = _BEFORE + PANELS + _BEHIND
