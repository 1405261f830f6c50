"""Functions of generated files that take rows of a tile through a list."""

GATHER = '''
def copy_words(place, address, count):
    """Begins to copy 16 bytes to shared memory: ``count`` of global memory, and then zeros."""
    from cutlass._mlir.dialects import llvm

    given = [one.ir_value() for one in (place, address, count)]
    text = "cp.async.cg.shared.global [$0], [$1], 16, $2;"
    llvm.inline_asm(None, given, text, "r,l,r", has_side_effects=True)


def copies_done():
    """All copies that the thread began are complete."""
    from cutlass._mlir.dialects import llvm

    llvm.inline_asm(None, [], "cp.async.wait_all;", "", has_side_effects=True)


def row_at(index, place, end, rows):
    """Which row an element of a list is, and 1 if that is one of ``rows``, else 0 for both. Of an
    element from ``end`` on, behind which nothing is read, it is none.
    """
    row = index[(cutlass.min(place, end - 1),)]
    there = (row >= 0) & (row < rows) & (place < end)
    return cutlass.select_(there, row, Int32(0)), cutlass.select_(there, Int32(1), Int32(0))


def gather_rows(tile, rows, index, begin, count, first, column, thread, band):
    """A tile in shared memory whose row i is row ``index[begin + first + i]``, from a column on: 0
    where there is none, and behind the last of ``count`` elements from ``begin`` on. Warps have a
    quarter of each ``band`` rows of it. Neighbouring threads copy of one row, 16 bytes each.
    """
    each, pieces, apart = panel_shape(tile)
    size = tile.element_type.width // 8
    height, width = (cute.size(tile, mode=[n]) for n in range(2))
    across = min(pieces, width // each)  # of a part of a panel fewer than it has
    down, quarter, lane = 32 // across, band // 4, thread % 32
    steps = range(0, height // 4, down)
    places = [n // quarter * band + n % quarter for n in steps]
    places = [at + thread // 32 * quarter + lane // across for at in places]
    first, end = begin + first, begin + count
    found = [row_at(index, first + at, end, rows.shape[0]) for at in places]
    for at, (row, there) in zip(places, found):
        start = rows.iterator.toint() + cutlass.Int64(row) * rows.stride[0] * size
        exchange, piece = (at * pieces >> 3) & (pieces - 1), lane % across
        place = piece_at(tile, at, exchange, each, piece)
        for panel in range(width // (across * each)):
            behind = column + (panel * across + piece) * each
            left = cutlass.min(cutlass.max(rows.shape[1] - behind, 0), each) * size
            address = start + cutlass.Int64(behind) * size
            copy_words(Int32((place + panel * apart).toint()), address, left * there)
    copies_done()
'''
