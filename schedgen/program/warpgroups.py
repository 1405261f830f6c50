"""Which warps run a role, and how many registers their threads have.

Warpgroups of four warps change their registers together, so what a role needs its warpgroup gets.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.program.model import RoleProgram

_LANES, _GROUP = 32, 4
_REGISTERS = 65536
"""32-bit registers of an SM (CUDA C++ Programming Guide, compute capability 9 and 10)."""
_STEP, _FEWEST, _MOST = 8, 24, 255
"""What setmaxnreg takes (PTX ISA): multiples of 8 from 24 on; a thread can name 255."""


class Warpgroups:
    """The warps of a block with these roles."""

    def __init__(self, roles: Sequence[RoleProgram]) -> None:
        self.roles = tuple(roles)
        self.first: dict[str, int] = {}
        """Role -> its first warp; warpgroups come first, to begin at a multiple of 4."""
        warp = 0
        for role in sorted(roles, key=lambda role: -role.warps):
            self.first[role.name] = warp
            warp += role.all_warps

    @property
    def count(self) -> int:
        """Warps of the block, in whole warpgroups."""
        return -(-sum(role.all_warps for role in self.roles) // _GROUP) * _GROUP

    def groups(self, role: RoleProgram) -> range:
        """The warpgroups that a role's warps are in, those of all its teams."""
        first = self.first[role.name]
        return range(first // _GROUP, (first + role.all_warps - 1) // _GROUP + 1)

    def registers(self, role: RoleProgram) -> int:
        """The register budget of these warpgroups."""
        mine = self.groups(role)
        sharing = [r.registers for r in self.roles if self.first[r.name] // _GROUP in mine]
        return max(_FEWEST, -(-max(sharing) // _STEP) * _STEP)

    @property
    def entry(self) -> int:
        """Registers of a thread when the kernel starts: all that a block of this size can have."""
        return min(_MOST, _REGISTERS // (_LANES * self.count)) // _STEP * _STEP

    @property
    def moves(self) -> bool:
        """Whether a role needs more registers than the block begins with."""
        return max(map(self.registers, self.roles)) > self.entry
