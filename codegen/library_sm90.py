"""Functions of generated files for Hopper."""

from __future__ import annotations

from schedgen.codegen.library_panels import PANELS

_OWN = '''
def tile_layout(rows, columns, slots, dtype):
    """Rows of up to 128 bytes, swizzled; wider tiles are panels of as many bytes, side by side."""
    kinds = warpgroup.SmemLayoutAtomKind
    span = next(span for span in (128, 64, 32, 16) if columns * dtype.width // 8 % span == 0)
    kind = {128: kinds.K_SW128, 64: kinds.K_SW64, 32: kinds.K_SW32, 16: kinds.K_INTER}[span]
    atom = warpgroup.make_smem_layout_atom(kind, dtype)
    return cute.tile_to_shape(atom, (rows, columns, slots), order=(0, 1, 2))


def pin(registers):
    """All of them have their values here: nothing of that is left to do behind a fence."""
    words = registers if registers.element_type == Float32 else cute.recast_tensor(registers, Int32)
    letter = "f" if words.element_type == Float32 else "r"
    values = [words[v].ir_value() for v in range(cute.size(words))]
    places = [f"={letter}" for value in values] + [str(v) for v in range(len(values))]
    result = llvm.StructType.get_literal([value.type for value in values])
    made = llvm.inline_asm(result, values, "", ",".join(places), has_side_effects=True)
    for v, value in enumerate(values):
        words[v] = words.element_type(llvm.extractvalue(value.type, made, [v]))


@cute.jit
def hold_back(registers: cute.Tensor):
    """What comes next is executed when these have their values: nothing moves above a branch that
    depends on the last ones. It is hardly ever taken, and pauses for a nanosecond.
    """
    words = cute.recast_tensor(registers, Int32)
    count = cutlass.const_expr(cute.size(words))
    if words[count - 1] ^ words[count // 2 - 1] == 0x7FA5C3E1:
        llvm.inline_asm(None, [], "nanosleep.u32 1;", "", has_side_effects=True)


def anew(number):
    """A number of which nothing is known before: what depends on it is computed behind this."""
    value = number.ir_value()
    return Int32(llvm.inline_asm(value.type, [value], "", "=r,0", has_side_effects=True))


@cute.jit
def begin_block(turn: Int32):
    """Nothing that comes next is executed between what was issued before: instructions are put in
    order within blocks. Few loops have so many turns; that one pauses for a nanosecond. Of a larger
    number a compiler knows that no turn has it, where columns are computed from turns.
    """
    if turn == 65521:
        llvm.inline_asm(None, [], "nanosleep.u32 1;", "", has_side_effects=True)


def product_of(tile):
    """A product of one warpgroup whose result has the size of a tile."""
    major = OperandMajorMode.K
    return sm90_utils.make_trivial_tiled_mma(
        BFloat16, BFloat16, major, major, Float32, (1, 1, 1), (64, cute.size(tile, mode=[1]))
    )


def fragment_of(tile, thread):
    """The elements of a tile in shared memory that a thread has of a product's result."""
    return product_of(tile).get_slice(thread).partition_C(tile)


def by_matrices(tile):
    """Whether ldmatrix and stmatrix can move a tile, four matrices of 8 x 8 at a time."""
    return tile.element_type.width == 16 and cute.size(tile, mode=[1]) % 16 == 0


def matrices_of(operation, tile, registers, thread):
    """The copy of a tile by ``operation``, and its view of a thread's registers."""
    copy = cute.make_tiled_copy_C(
        cute.make_copy_atom(operation, tile.element_type), product_of(tile)
    )
    layout = cute.make_layout(fragment_of(tile, thread).shape)
    mine = copy.get_slice(thread)
    return copy, mine, mine.retile(cute.make_tensor(registers.iterator, layout))


def load_bytes(tile, registers, thread):
    """A thread's elements of 8 bits, two neighbours of each 8 columns at a time. Pieces of both of
    its rows are exchanged alike.
    """
    _, count, stride = panel_shape(tile)
    words = cute.recast_tensor(registers, cutlass.Int16)
    row, below = thread // 32 * 16 + thread % 32 // 4, cute.crd2idx((8, 0), tile.layout)
    for v in range(cute.size(words)):
        panel, piece = divmod(v // 4, count)
        pointer = piece_at(tile, row, (row * count >> 3) & (count - 1), 2, piece)
        pointer += panel * stride + v % 2 * below + v // 2 % 2 * 8 + thread % 4 * 2
        words[v] = cute.recast_ptr(pointer, dtype=cutlass.Int16).load()


def load_halves(tile, registers, thread):
    """A thread's bytes of two numbers of 4 bits each, one of the four bytes of each 8 numbers: it
    loads those of the four threads of a row, of both of its rows, and chooses.
    """
    _, count, stride = panel_shape(tile)
    words = cute.recast_tensor(registers, Int32)
    row, below = thread // 32 * 16 + thread % 32 // 4, cute.crd2idx((8, 0), tile.layout)
    mine = thread % 4 * 0x11 + 0x40
    for v in range(0, cute.size(words), 2):
        panel, piece = divmod(v // 2, count)
        pointer = piece_at(tile, row, (row * count >> 3) & (count - 1), 16, piece)
        both = []
        for more in (0, below):
            four = cute.make_rmem_tensor(4, Int32)
            at = cute.recast_ptr(pointer + panel * stride + more, dtype=Int32)
            cute.autovec_copy(cute.make_tensor(at, cute.make_layout(4)), four)
            both.append(four)
        for n in range(2):
            first, second = (
                cute.arch.prmt(both[0][w], both[1][w], mine) for w in range(2 * n, 2 * n + 2)
            )
            words[v + n] = cute.arch.prmt(first, second, Int32(0x5410))


def load_tile(tile, registers, thread, transpose=False):
    """A thread's elements of a tile in shared memory; ``transpose``: neighbours in the tile's
    columns are neighbours in memory.
    """
    if by_matrices(tile):
        operation = LdMatrix8x8x16bOp(transpose, 4)
        copy, mine, values = matrices_of(operation, tile, registers, thread)
        cute.copy(copy, mine.partition_S(tile), values)
    else:
        part = fragment_of(tile, thread)
        cute.autovec_copy(part, cute.make_tensor(registers.iterator, cute.make_layout(part.shape)))


def store_tile(registers, tile, thread, transpose=False):
    """The opposite."""
    registers = as_dtype(registers, tile.element_type)
    if by_matrices(tile):
        operation = StMatrix8x8x16bOp(transpose, 4)
        copy, mine, values = matrices_of(operation, tile, registers, thread)
        cute.copy(copy, values, mine.partition_D(tile))
    else:
        part = fragment_of(tile, thread)
        cute.autovec_copy(cute.make_tensor(registers.iterator, cute.make_layout(part.shape)), part)


def pairs_of(tile, thread, blocks):
    """Pointers to a thread's two neighbours of each 8 columns of 32 bits, of one of its rows and of
    the other, and whether blocks of 8 columns are exchanged.

    Half a warp moves its 8 bytes together, of four rows, of which swizzling gives two the same
    banks: one of the two exchanges halves of a panel's row.
    """
    _, count, stride = panel_shape(tile)
    row, below = thread // 32 * 16 + thread % 32 // 4, cute.crd2idx((8, 0), tile.layout)
    swizzle = (row * count >> 3) & (count - 1)
    exchanged = swizzle & 1 if count > 2 else 0
    exchange = swizzle ^ exchanged * (count // 2) ^ thread % 4 // 2
    pointers = []
    for block in range(blocks):
        panel, piece = divmod(2 * block, count)
        pointer = piece_at(tile, row, exchange, 2, piece) + panel * stride + thread % 2 * 2
        pointers += [pointer, pointer + below]
    return pointers, exchanged


def in_order(registers, exchanged, tile):
    """Elements with those of exchanged blocks where they belong; twice is nothing."""
    values = [registers[v] for v in range(cute.size(registers))]
    if isinstance(exchanged, int):
        return values
    apart = panel_shape(tile)[1]
    return [cutlass.select_(exchanged == 1, values[v ^ apart], x) for v, x in enumerate(values)]


def load_pairs(tile, registers, thread):
    """A thread's elements of 32 bits."""
    pointers, exchanged = pairs_of(tile, thread, cute.size(registers) // 4)
    for n, pointer in enumerate(pointers):
        pair = cute.make_tensor(registers.iterator + 2 * n, cute.make_layout(2))
        cute.autovec_copy(cute.make_tensor(pointer, cute.make_layout(2)), pair)
    for v, value in enumerate(in_order(registers, exchanged, tile)):
        registers[v] = value


def store_pairs(registers, tile, thread):
    registers = as_dtype(registers, tile.element_type)
    pointers, exchanged = pairs_of(tile, thread, cute.size(registers) // 4)
    values = in_order(registers, exchanged, tile)
    for n, pointer in enumerate(pointers):
        pair = cute.make_rmem_tensor(2, tile.element_type)
        pair[0], pair[1] = values[2 * n], values[2 * n + 1]
        cute.autovec_copy(pair, cute.make_tensor(pointer, cute.make_layout(2)))


def load_straight(tile, registers, thread):
    """A thread's elements of 32 bits, of which some rows have the same banks."""
    load_tile(tile, registers, thread)


def store_straight(registers, tile, thread):
    store_tile(registers, tile, thread)


def load_transposed(tile, registers, thread):
    load_tile(transposed(tile), registers, thread, True)


def store_transposed(registers, tile, thread):
    store_tile(registers, transposed(tile), thread, True)


def store_turned(registers, tile, thread):
    """The same for elements of 32 bits: a thread has two neighbours in each of its columns, and
    half a warp moves 8 columns of 4 rows, which have banks of their own.
    """
    _, count, stride = panel_shape(tile)
    registers, span = as_dtype(registers, tile.element_type), 4 * count
    row, column = thread % 4 * 2, thread // 32 * 16 + thread % 32 // 4
    exchange = (row * count >> 3) & (count - 1) ^ column % span // 4
    for v in range(cute.size(registers)):
        low, right = v % 2, v // 2 % 2
        pointer = piece_at(tile, row, exchange, 4, 2 * right ^ low * count // 8)
        pointer += column // span * stride + column % 4 + (v // 4 * 8 + low) * span
        pointer.store(registers[v])


def rows_of(vector, thread):
    """The values of a thread's two rows."""
    registers = cute.make_rmem_tensor(2, vector.element_type)
    for v in range(2):
        registers[v] = vector[thread // 32 * 16 + thread % 32 // 4 + 8 * v]
    return registers


@cute.jit
def store_rows(registers: cute.Tensor, vector: cute.Tensor, thread: Int32):
    """One of the four threads of a row writes its value."""
    if thread % 4 == 0:
        for v in cutlass.range_constexpr(2):
            vector[thread // 32 * 16 + thread % 32 // 4 + 8 * v] = registers[v]


def columns_of(vector, thread):
    """The values of a thread's columns, for each element of its fragment."""
    count = cute.size(vector) // 2
    registers = cute.make_rmem_tensor(count, vector.element_type)
    for v in range(count):
        registers[v] = vector[8 * (v // 4) + 2 * (thread % 4) + v % 2]
    return registers


def across_row(registers, row, function):
    """One of a thread's rows combined over the four threads that have it."""
    mine = [Float32(registers[v]) for v in range(cute.size(registers)) if v // 2 % 2 == row]
    value = pairwise(mine, function)
    for distance in (1, 2):
        value = function(value, cute.arch.shuffle_sync_bfly(value, distance))
    return value


def row_max(registers, row):
    return across_row(registers, row, lambda x, y: cute.arch.fmax(x, y, nan=True))


def row_max_of_threes(registers, row):
    """The same, if it is not negative, otherwise no more: of numbers as integers, which there are
    instructions for that compare three of. As integers, negative numbers are in the opposite order,
    and below all others.
    """
    words = cute.recast_tensor(registers, Int32)
    mine = [words[v] for v in range(cute.size(words)) if v // 2 % 2 == row]
    while len(mine) > 1:
        threes = [mine[n : n + 3] for n in range(0, len(mine), 3)]
        mine = [pairwise(some, cutlass.max) for some in threes]
    value = mine[0].bitcast(Float32)
    for distance in (1, 2):
        other = cute.arch.shuffle_sync_bfly(value, distance)
        value = cute.arch.fmax(value, other, nan=True)
    return value


def any_of_warp(condition):
    """Whether it holds for one of the threads of a warp."""
    return cute.arch.vote_any_sync(condition)


def row_sum(registers, row):
    return across_row(registers, row, lambda x, y: x + y)


def lane_sum(registers, row):
    """What a thread has of a row, see `across_lanes`."""
    mine = [Float32(registers[v]) for v in range(cute.size(registers)) if v // 2 % 2 == row]
    return pairwise(mine, lambda x, y: x + y)


@cute.jit
def across_lanes(sums: cute.Tensor):
    """Sums of rows, from those of each of the four threads of a row."""
    for v in cutlass.range_constexpr(cute.size(sums)):
        for distance in cutlass.range_constexpr(1, 3):
            sums[v] = sums[v] + cute.arch.shuffle_sync_bfly(sums[v], distance)


def of_rows(sums):
    """The same in a copy."""
    made = cute.make_rmem_tensor(cute.size(sums), Float32)
    for v in range(cute.size(sums)):
        made[v] = sums[v]
    across_lanes(made)
    return made


def row_sums(registers):
    """Each element with all before it in its row; four neighbours have two of eight columns."""
    sums = cute.make_rmem_tensor(cute.size(registers), Float32)
    lane = cute.arch.lane_idx() % 4
    for row in range(2):
        before = Float32(0.0)
        for v in range(2 * row, cute.size(registers), 4):
            first = Float32(registers[v])
            pair = first + Float32(registers[v + 1])
            total = pair
            for step in (1, 2):
                left = cute.arch.shuffle_sync_up(total, step)
                total = total + cutlass.select_(lane >= step, left, Float32(0.0))
            left = cute.arch.shuffle_sync_up(total, 1)
            left = before + cutlass.select_(lane >= 1, left, Float32(0.0))
            sums[v] = left + first
            sums[v + 1] = left + pair
            before += cute.arch.shuffle_sync(total, 3, mask_and_clamp=0x1C1F)
    return sums


def keep_as_results(registers, to, first):
    """Results in 8 bits, from element ``first`` on, where a product takes them in that order: four
    of a row, two columns each of two times 8, are one register of its left operand.
    """
    count = cute.size(registers)
    lies = cute.make_layout((2, 2, 2, count // 8), stride=(1, 4, 2, 8))
    made = cute.make_rmem_tensor(lies, Float32)
    for v in range(count):
        made[v] = registers[v]
    part = cute.make_tensor(to.iterator + first, cute.make_layout(count))
    part.store(cute.make_tensor(made.iterator, cute.make_layout(count)).load().to(to.element_type))


def exchange_bytes(registers, to):
    """Bytes as threads have those of results, to where they have those of a left operand.

    Of 16 columns and a thread's two rows, thread t of four has two words, of columns 2 t and
    2 t + 1 of either 8, and gets columns 4 t to 4 t + 3. Each word goes to one thread, and the two
    that arrive are from neighbours, the first halves of both for the first row.
    """
    source, words = cute.recast_tensor(registers, Int32), cute.recast_tensor(to, Int32)
    lane = cute.arch.lane_idx() % 4
    odd, sender = lane % 2 == 1, lane % 2 * 2 + lane // 2
    low = cutlass.select_(lane < 2, Int32(0x5410), Int32(0x1054))
    high = cutlass.select_(lane < 2, Int32(0x7632), Int32(0x3276))
    for v in range(0, cute.size(words), 2):
        here, there = source[v], source[v + 1]
        sent = cutlass.select_(odd, there, here), cutlass.select_(odd, here, there)
        one = cute.arch.shuffle_sync(sent[0], sender, mask_and_clamp=0x1C1F)
        other = cute.arch.shuffle_sync(sent[1], sender ^ 1, mask_and_clamp=0x1C1F)
        words[v] = cute.arch.prmt(one, other, low)
        words[v + 1] = cute.arch.prmt(one, other, high)
'''
LIBRARY = PANELS + _OWN
