"""Functions that generated files define where rows are shorter than what bulk copies bring."""

ROWS = '''
def short_rows(vectors, size):
    """Vectors with all ``size`` elements that a copy brings, of which they have fewer."""
    layout = cute.make_layout((size, cute.size(vectors, mode=[1])), stride=(1, vectors.stride[1]))
    return cute.make_tensor(vectors.iterator, layout)


def overlapping(tensor, size, step):
    """Tiles of ``size`` elements along the first mode of a tensor, ``step`` elements apart, and of
    one along the others: (element of a tile, number of a tile along each mode).
    """
    first, *others = tensor.stride
    shape = (size, cute.ceil_div(tensor.shape[0], step), *tensor.shape[1:])
    layout = cute.make_layout(shape, stride=(first, first * step, *others))
    return cute.make_tensor(tensor.iterator, layout)
'''
