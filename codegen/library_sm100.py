"""Functions of generated files for Blackwell."""

LIBRARY = '''
def tile_layout(rows, columns, slots, dtype):
    """Rows of up to 128 bytes, swizzled; wider tiles are panels of 128 bytes, side by side."""
    kinds = tcgen05.SmemLayoutAtomKind
    span = min(columns * dtype.width // 8, 128)
    kind = {128: kinds.K_SW128, 64: kinds.K_SW64, 32: kinds.K_SW32, 16: kinds.K_INTER}[span]
    atom = tcgen05.make_smem_layout_atom(kind, dtype)
    return cute.tile_to_shape(atom, (rows, columns, slots), order=(0, 1, 2))


def flat(registers, shape):
    """The same registers in another shape."""
    return cute.make_tensor(registers.iterator, cute.make_layout(shape))


def load_tile(tile, registers, thread):
    """The row of a thread, of a tile in shared memory."""
    cute.autovec_copy(tile[(thread, None)], flat(registers, tile[(thread, None)].shape))


def store_tile(registers, tile, thread):
    row = tile[(thread, None)]
    cute.autovec_copy(flat(as_dtype(registers, tile.element_type), row.shape), row)


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
    values = [Float32(registers[v]) for v in range(cute.size(registers))]
    return pairwise(values, cute.arch.fmax)


def row_sum(registers, row):
    values = [Float32(registers[v]) for v in range(cute.size(registers))]
    return pairwise(values, lambda x, y: x + y)


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


def multiply(mma, result, left, right, accumulate):
    """Issues the steps of a product along k."""
    mma = cute.make_tiled_mma(mma.op)  # a flag of its own, which does not outlive a branch
    for step in range(cute.size(left, mode=[2])):
        mma.set(tcgen05.Field.ACCUMULATE, True if step else accumulate)
        cute.gemm(mma, result, left[(None, None, step)], right[(None, None, step)], result)
'''
