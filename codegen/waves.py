"""Waves of output tiles: those that all blocks compute at a time, one each."""

from __future__ import annotations

from schedgen.codegen.ir import Name, code
from schedgen.codegen.source import Source

_NUMBER = Name("number")


def of_wave(source: Source) -> Name:
    """Writes which tile a block takes as its t-th, where ``tile`` is that of an order that repeats:
    the last block has the first one of every other wave, if there is one for each block. So tiles
    whose work grows with their numbers are shared out evenly, and come to blocks in their order.
    """
    tile, tiles, blocks = Name("tile"), Name("tiles"), code("cute.arch.grid_dim()[0]")
    source.add(code("{} = {}", _NUMBER, tile))
    turned = code("(t % 2 == 1) & ((t + 1) * {} <= {})", blocks, tiles)
    with source.block(code("if {}:", turned)):
        source.add(code("{} = (2 * t + 1) * {} - 1 - {}", _NUMBER, blocks, tile))
    return _NUMBER
