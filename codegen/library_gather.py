"""Functions of generated files that take rows of a tile through a list."""

GATHER = '''
def words_at(address, there):
    """16 bytes of global memory, zeros unless they are ``there``: nothing is read then."""
    from cutlass._mlir.dialects import llvm

    given = [address.ir_value(), there.ir_value()]
    result = llvm.StructType.get_literal([given[1].type] * 4)
    text = (
        "{\\n.reg .pred P1;\\nsetp.ne.b32 P1, $5, 0;\\n"
        "mov.b32 $0, 0;\\nmov.b32 $1, 0;\\nmov.b32 $2, 0;\\nmov.b32 $3, 0;\\n"
        "@P1 ld.global.v4.b32 {$0, $1, $2, $3}, [$4];\\n}"
    )
    places = "=&r,=&r,=&r,=&r,l,r"
    made = llvm.inline_asm(result, given, text, places, has_side_effects=True)
    return [Int32(llvm.extractvalue(given[1].type, made, [n])) for n in range(4)]


def row_at(index, place, count, rows):
    """Which row an element of a list is, and whether that is one of ``rows``: none is behind the
    last of ``count`` elements, where nothing is read.
    """
    row = index[(cutlass.min(place, count - 1),)]
    there = cutlass.Uint32(row) < cutlass.Uint32(rows)
    return row, Int32(there) * Int32(place < count)


def gather_rows(tile, rows, index, begin, count, first, column, thread, band):
    """A tile in shared memory whose row i is row ``index[begin + first + i]``, from a column on: 0
    where there is none, and behind the last of ``count`` elements from ``begin`` on. Warps have a
    quarter of each ``band`` rows of it. Neighbouring threads load from one row, 16 bytes each, and
    all is loaded before any of it is stored.
    """
    dtype, height = tile.element_type, cute.size(tile, mode=[0])
    each = 128 // dtype.width
    bytes = cute.size(tile, mode=[1]) * dtype.width // 8
    across = next(span for span in (128, 64, 32, 16) if bytes % span == 0) // 16
    down, panels = 32 // across, bytes // (16 * across)
    quarter, lane = band // 4, thread % 32
    words = cute.make_rmem_tensor(height // 4 // down * panels * 4, Int32)
    places = []
    for n in range(0, height // 4, down):
        at = n // quarter * band + thread // 32 * quarter + n % quarter + lane // across
        row, there = row_at(index, begin + first + at, begin + count, rows.shape[0])
        start = rows.iterator.toint() + cutlass.Int64(row) * rows.stride[0] * (dtype.width // 8)
        for panel in range(panels):
            piece = panel * across + lane % across
            behind = column + piece * each
            inside = there * Int32(behind < rows.shape[1])
            found = words_at(start + cutlass.Int64(behind) * (dtype.width // 8), inside)
            for v in range(4):
                words[4 * len(places) + v] = found[v]
            places.append((at, piece))
    made = cute.recast_tensor(words, dtype)
    for n, place in enumerate(places):
        mine = cute.make_tensor(made.iterator + n * each, cute.make_layout((1, each)))
        cute.autovec_copy(mine, cute.local_tile(tile, (1, each), place))
'''
