"""Mappings that keys of ``loops`` have in a spec file."""

from __future__ import annotations

from pydantic import Field

from schedgen.operations.fields import Arithmetic, Identifier, Model


class WalkedBlocks(Model):
    """Which blocks of what it walks the main loop takes at an output tile: arrays say so."""

    list: Identifier = Field(
        description="i32 argument: the block of each iteration, along its last extent"
    )
    count: Identifier = Field(
        description="i32 argument with the other extents of it: how many iterations a tile has"
    )
    full: Identifier | None = Field(
        None,
        description="i32 argument like 'count': in how many iterations, the first ones, 'partly' "
        "is 0 in formulas",
    )
    order: Identifier | None = Field(
        None,
        description="i32 argument like 'count': which output tile, along the last of its extents, "
        "an element of all arrays belongs to; each once, in the order in which they are computed",
    )
    tiles: dict[Identifier, Identifier] = Field(
        default_factory=dict[Identifier, Identifier],
        description="extents of both that count output tiles, and the extents that these are cut "
        "along",
        examples=[{"row_blocks": "seq_q"}],
    )


class FollowedTiles(Model):
    """Of which output tiles of the kernel before the results have to be there."""

    words: Identifier = Field(
        description="i32 argument in which that kernel counts ('tells'), along extents of which "
        "each output tile of this kernel has one element"
    )
    tiles: Arithmetic = Field(
        description="how many output tiles the word of an output tile has to count: an i32 "
        "argument, or a formula of extents",
        examples=["n_tiles", "ceil(seq_k / 128)"],
    )
