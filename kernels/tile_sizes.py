"""Sizes of output tiles that there are kernels for, by what they compute (`tiling` chooses)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` x ``columns`` of an output, to which an iteration adds products ``depth`` long;
    ``teams`` of warps compute such tiles in turn.
    """

    rows: int = 128
    columns: int = 256
    depth: int = 64
    teams: int = 1

    @property
    def settings(self) -> dict[str, str]:
        """Parameters of the specs of products, where they differ from the specs' own."""
        found: dict[str, str] = {}
        if self.rows != 128:  # a warpgroup of Hopper has 64 rows
            found |= {"tile_m": str(self.rows), "consumers": str(self.rows // 64)}
        if self.columns != 256:
            found["tile_n"] = str(self.columns)
        if self.depth != 64:
            found["tile_k"] = str(self.depth)
        if self.columns > 32 and self.columns % 32:  # slices of the epilogue divide a tile
            found["widest_slice"] = "16"
        if self.teams != 1:
            found["teams"] = str(self.teams)
        return found

    def __str__(self) -> str:
        size = f"{self.rows}x{self.columns}x{self.depth}"
        return size if self.teams == 1 else f"{size} in turn"


TILES = {
    "sm_90a": (
        *(Tile(), Tile(columns=192), Tile(columns=128), Tile(rows=64, columns=128)),
        *(Tile(rows=64, columns=64, depth=128), Tile(rows=64, columns=32, depth=256)),
    ),
    "sm_100a": (Tile(), Tile(columns=128)),
}
"""Sizes of output tiles that there are kernels for; the first is the specs' own."""
MORE = {
    "sm_90a": (
        *(Tile(columns=96), Tile(columns=176), Tile(columns=224)),
        Tile(columns=32, depth=128),
    )
}
"""More of them, of products that are not symmetric and read b along k: with these tiles results of
a few rows fill whole waves. Where b lies along n such tiles are panels of 32 or 64 bytes, and
`polar` took 16 to 27 % longer with them (H200)."""
IN_TURN = {"sm_90a": (Tile(columns=192, teams=2), Tile(columns=128, teams=2))}
"""Those of `gemm` and `gemm_symmetric` that two warpgroups compute in turn, so that one of them
multiplies while the other one is at its epilogue (ping-pong)."""
TRANSPOSED = {
    "sm_90a": (
        *(Tile(rows=64, columns=16, depth=128), Tile(rows=64, columns=32, depth=256)),
        Tile(columns=64, depth=128),
    )
}
"""The same of products that are stored transposed: rows of such a tile are columns of the result,
and its columns are rows."""
FUSED = {
    "sm_90a": (
        *(Tile(), Tile(columns=192), Tile(columns=128), Tile(rows=64, columns=128)),
        Tile(rows=64, columns=64, depth=128),
    ),
    "sm_100a": TILES["sm_100a"],
}
"""The same of products with factors or sums of squares of their rows."""
DROPPED = {"sm_90a": (Tile(), Tile(columns=128)), "sm_100a": TILES["sm_100a"]}
"""The same of products with dropout."""
GATED = {
    "sm_90a": (
        *(Tile(), Tile(columns=224), Tile(columns=192)),
        *(Tile(columns=192, teams=2), Tile(columns=128, teams=2)),
        *(Tile(rows=64, columns=128), Tile(rows=64, columns=64, depth=128)),
    ),
    "sm_100a": TILES["sm_100a"],
}
"""The same of products with a gate."""
GROUPED = {
    arch: {
        "nk": (Tile(), Tile(columns=128), *IN_TURN.get(arch, ())),
        "kn": (Tile(), *IN_TURN.get(arch, ())[-1:]),
    }
    for arch in TILES
}
"""The same of products of groups of bf16, by how b lies in memory."""
GATHERED: dict[str, dict[str, tuple[Tile, ...]]] = {
    "sm_90a": {
        "nk": (Tile(columns=192), Tile(columns=128)),
        "kn": (Tile(columns=192),),
    },
    "sm_100a": dict.fromkeys(("nk", "kn"), (Tile(),)),
}
"""The same where a list takes the rows."""
GROUPED_K = {
    "sm_90a": (Tile(), Tile(columns=128)),
    "sm_100a": (Tile(),),
}
"""The same of products of groups along k. Groups have numbers of iterations of their own, so no
warpgroups take tiles in turn."""
ALONG_M = {
    False: {"sm_90a": (Tile(), Tile(columns=128, teams=2)), "sm_100a": (Tile(),)},
    True: {arch: (Tile(),) for arch in TILES},
}
"""The same of products whose left operand lies along m, as for the gradients of weights: of bf16,
with right operands along n; of all output tiles, and of those of a triangle."""
