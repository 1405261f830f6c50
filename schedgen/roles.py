"""Kinds of roles."""

from __future__ import annotations

from enum import StrEnum


class RoleKind(StrEnum):
    """What executes a role."""

    WARP = "warp"
    """A warp, of which one elected thread issues what engines execute."""
    WARPGROUP = "warpgroup"
    """Four warps, all of whose threads work on tiles."""

    @staticmethod
    def of(warps: int) -> RoleKind:
        """The kind of a role with that many warps."""
        return RoleKind.WARPGROUP if warps >= WARPGROUP else RoleKind.WARP


WARPGROUP = 4
"""Warps of a warpgroup."""
