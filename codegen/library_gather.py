"""Functions of generated files that take rows of a tile through a list."""

GATHER = '''
def copy_words(place, address, count):
    """Begins to copy 16 bytes to shared memory: ``count`` of global memory, and then zeros."""
    from cutlass._mlir.dialects import llvm

    given = [one.ir_value() for one in (place, address, count)]
    text = "cp.async.cg.shared.global [$0], [$1], 16, $2;"
    llvm.inline_asm(None, given, text, "r,l,r", has_side_effects=True)


def copies_begun():
    """Ends a group of copies of the thread."""
    from cutlass._mlir.dialects import llvm

    llvm.inline_asm(None, [], "cp.async.commit_group;", "", has_side_effects=True)


def copies_done(pending):
    """All copies of the thread are complete but those of its last ``pending`` groups."""
    from cutlass._mlir.dialects import llvm

    llvm.inline_asm(None, [], f"cp.async.wait_group {pending};", "", has_side_effects=True)


def row_at(index, place, end, rows):
    """Which row an element of a list is, and 1 if that is one of ``rows``, else 0 for both. Of an
    element from ``end`` on, behind which nothing is read, it is none.
    """
    row = index[(cutlass.min(place, end - 1),)]
    there = (row >= 0) & (row < rows) & (place < end)
    return cutlass.select_(there, row, Int32(0)), cutlass.select_(there, Int32(1), Int32(0))


def rows_of_thread(height, across, band, thread):
    """The rows of a tile that a thread copies 16 bytes of at a time. Warps have a quarter of each
    ``band`` rows; ``across`` neighbouring threads copy of one row.
    """
    quarter, lane = band // 4, thread % 32
    steps = range(0, height // 4, 32 // across)
    places = [n // quarter * band + n % quarter for n in steps]
    return [at + thread // 32 * quarter + lane // across for at in places]


def rows_of_list(rows, index, begin, count, first, thread, height, across, band):
    """Where the rows of a thread begin, if row i of a tile is row ``index[begin + first + i]``, and
    a number whose bit n says whether there is an n-th one. There is none behind the last of
    ``count`` elements from ``begin`` on.
    """
    places = rows_of_thread(height, across, band, thread)
    size = rows.element_type.width // 8
    found, bits = cute.make_rmem_tensor(len(places), cutlass.Int64), Int32(0)
    first, end = begin + first, begin + count
    taken = [row_at(index, first + at, end, rows.shape[0]) for at in places]
    for n, (row, there) in enumerate(taken):
        found[n] = rows.iterator.toint() + cutlass.Int64(row) * rows.stride[0] * size
        bits = bits | there << n
    return found, bits


def gather_rows(tile, rows, found, bits, column, thread, band):
    """Begins to copy the rows that `rows_of_list` found to a tile in shared memory, from a column
    on: 0 where there is none, and behind the last column.
    """
    each, pieces, apart = panel_shape(tile)
    size = tile.element_type.width // 8
    height, width = (cute.size(tile, mode=[n]) for n in range(2))
    across = min(pieces, width // each)  # of a part of a panel fewer than it has
    piece = thread % 32 % across
    behind = [column + (n * across + piece) * each for n in range(width // (across * each))]
    left = [cutlass.min(cutlass.max(rows.shape[1] - at, 0), each) * size for at in behind]
    for n, at in enumerate(rows_of_thread(height, across, band, thread)):
        exchange, there = (at * pieces >> 3) & (pieces - 1), bits >> n & 1
        place = piece_at(tile, at, exchange, each, piece)
        for panel, (begin, count) in enumerate(zip(behind, left)):
            address = found[n] + cutlass.Int64(begin) * size
            copy_words(Int32((place + panel * apart).toint()), address, count * there)
'''
