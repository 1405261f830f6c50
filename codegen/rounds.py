"""Where blocks take every n-th tile and tiles get shorter and longer in turn: which one of a round
a block takes, so that none has the long ones of all rounds (docs/adr/0040).
"""

from __future__ import annotations

from schedgen.codegen.ir import Code, Name, called, code
from schedgen.codegen.source import Source

PLACED = Name("placed")
"""The number of the tile that a block computes in the round of ``tile``."""
DIVISOR = {"round": code("cutlass.max(blocks, 1)")}


def of_host(source: Source, blocks: str) -> None:
    """Computes the rotation for so many blocks; the numbers of tiles and slices are known."""
    source.comment("a round is a tile of each block, and none has the long ones of all")
    source.add(f"blocks = {blocks}")
    found = called("rotation_of", Name("tiles"), Name("slices"), Name("blocks"))
    source.add(code("rotation = {}", found))


def placed() -> Code:
    """Finds the number."""
    found = called("in_rounds", Name("tile"), Name("by_round"), Name("rotation"))
    return code("{} = {}", PLACED, found)
