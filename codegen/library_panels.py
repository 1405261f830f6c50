"""Functions of generated files that find elements of tiles of swizzled panels in shared memory."""

PANELS = '''
def panel_shape(tile):
    """Columns of 16 bytes, such pieces of a panel's row, and how far apart the panels are."""
    width, span = 128 // tile.element_type.width, cute.crd2idx((1, 0), tile.layout)
    inside = span >= cute.size(tile, mode=[1])
    return width, span // width, 0 if inside else cute.crd2idx((0, span), tile.layout)


def piece_at(tile, row, exchange, width, piece):
    """A pointer to ``width`` elements, at most 16 bytes, of a row of a panel or of a part of one.

    Swizzling exchanges pieces of a row by an exclusive or that depends on the row alone. A part
    begins at a multiple of its size, which is a power of two, so that the number of a piece in it
    has bits of its own. Addresses are computed here, because those of swizzled pointers take more
    than one register for each.
    """
    dtype, space = tile.element_type, cutlass.AddressSpace.smem
    address = tile[(row, None)].iterator.toint() ^ exchange * 16 ^ piece * 16
    return cute.make_ptr(dtype, address, space, assumed_align=width * dtype.width // 8)
'''
