"""Functions that generated files define where output tiles are numbered densely (`codegen.dense`).

All threads of a warp execute them together: each looks at one number of 32 that follow each other.
"""

RAGGED = '''
@cute.jit
def segment_to(ends: cute.Tensor, number: Int32, most: Int32):
    """The same as `segment_of`, by where elements end; those of number 0 begin at 0."""
    before = cutlass.select_(number > 0, ends[(cutlass.max(number - 1, 0),)], Int32(0))
    begin = cutlass.min(cutlass.max(before, 0), most)
    end = cutlass.min(cutlass.max(ends[(number,)], begin), most)
    return begin, end - begin


@cute.jit
def tiles_of(sizes, array: cute.Tensor, number: Int32, numbers: Int32, most: Int32, block):
    """How many tiles of ``block`` elements a number has: none behind the last of ``numbers``."""
    begin, size = sizes(array, cutlass.min(number, numbers - 1), most)
    return cutlass.select_(number < numbers, cute.ceil_div(size, block), Int32(0))


@cute.jit
def tiles_of_all(sizes, array: cute.Tensor, numbers: Int32, most: Int32, block):
    """How many tiles all numbers have together."""
    lane = cute.arch.lane_idx()
    count, base = Int32(0), Int32(0)
    while base < numbers:
        count += tiles_of(sizes, array, base + lane, numbers, most, block)
        base += 32
    return cute.arch.warp_redux_sync(count, "add")


@cute.jit
def number_of_tile(tile: Int32, sizes, array: cute.Tensor, numbers: Int32, most: Int32, block):
    """Which number a tile belongs to, and which of its tiles it is, where those of all numbers
    follow each other. Whatever the array says, that is one of ``numbers``, and found in the end.
    """
    lane = cute.arch.lane_idx()
    base, left = Int32(-32), tile
    count, through, together = Int32(0), Int32(0), Int32(0)
    while together <= left and base + 32 < numbers:
        left -= together
        base += 32
        count = tiles_of(sizes, array, base + lane, numbers, most, block)
        through = count
        for step in cutlass.range_constexpr(5):
            below = cute.arch.shuffle_sync_up(through, 1 << step)
            through += cutlass.select_(lane >= 1 << step, below, Int32(0))
        together = cute.arch.shuffle_sync(through, 31)
    # Numbers before it are those all tiles of which are passed: the first lanes, as sums grow.
    passed = cute.arch.popc(cute.arch.vote_ballot_sync(through <= left))
    passed = cutlass.min(passed, cutlass.min(numbers - 1 - base, 31))
    return base + passed, left - cute.arch.shuffle_sync(through - count, passed)


def copy_pages(tma, tensor, tile, barrier, where, table, number, first, size, pages, pitch, page):
    """A tile whose rows begin with element ``first`` of a number, from the pages that have these:
    copies of as many rows as divide a page and a tile. ``where``: tiles along the other modes.
    """
    from math import gcd

    rank, rows, columns = cute.rank(tensor), cute.size(tile, mode=[0]), cute.size(tile, mode=[1])
    box = gcd(rows, page)
    sizes = (box, columns) + (1,) * (rank - 2)
    for n in range(rows // box):
        row = first + n * box
        at, count = page_of(table, number, row, size, page, pages)
        part = cute.local_tile(tile, (box, columns), (n, 0))
        source = within(tensor, 0, at * pitch, count)
        source = cute.local_tile(source, sizes, (row % page // box, *where, 0, 0))
        to, source = cpasync.tma_partition(
            tma, 0, cute.make_layout(1), cute.group_modes(part, 0, 2),
            cute.group_modes(source, 0, rank),
        )
        cute.copy(tma, source, to, tma_bar_ptr=barrier)

'''
