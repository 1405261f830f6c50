"""Functions of generated files whose blocks change places from one round of tiles to the next."""

ROUNDS = '''
@cute.jit
def rotation_of(tiles: Int32, slices: Int32, blocks: Int32):
    """By how many places blocks move on from one round of tiles to the next; -1: back and forth.

    Tiles get shorter in a slice, and longer in the next one. Where a round is nearly as long as
    pairs of slices, each block would have a tile of the same length in all of them; so it moves on
    to where a tile is as short as the one before was long.
    """
    inside = cutlass.max(tiles // cutlass.max(slices, 1), 1)
    pair = 2 * inside
    step = cutlass.max(blocks, 1) % pair
    found = Int32(0)
    if 5 * cutlass.min(step, pair - step) <= pair:
        found = (inside + pair - step) % pair
        if found >= blocks:
            found = Int32(0)
    if slices == 1:
        found = Int32(-1)
    return found


def in_rounds(tile, by_round, rotation):
    """The tile of a block in the round of ``tile``, which is behind all tiles if it has none."""
    blocks = by_round.divisor
    number, place = divmod(tile, by_round)
    _, moved = divmod(place + number * cutlass.max(rotation, 0), by_round)
    back = cutlass.select_(number % 2 == 1, blocks - 1 - place, place)
    return tile - place + cutlass.select_(rotation < 0, back, moved)

'''
