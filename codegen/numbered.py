"""Which of the hardware's numbered barriers a program's barriers are; all threads use number 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from schedgen.codegen.errors import EmitError
from schedgen.program.model import Barrier, Program, RoleProgram, Wait


@dataclass(frozen=True)
class NumberedBarriers:
    """Those of meetings come first: of each role, then of several; those of pace come last."""

    program: Program

    @cached_property
    def of_role(self) -> dict[str, int]:
        """Role whose warps meet -> the barrier that it uses for all of its meetings."""
        meetings = {b.name for b in self.program.barriers if b.kind == "role"}
        roles = [
            role.name
            for role in self.program.roles
            if any(isinstance(s.action, Wait) and s.action.barrier in meetings for s in role.steps)
        ]
        return {role: number for number, role in enumerate(roles, 1)}

    @cached_property
    def of_roles(self) -> dict[str, int]:
        """Barrier at which warps of several roles meet -> that of the hardware."""
        several = [barrier.name for barrier in self.program.barriers if barrier.kind == "roles"]
        return {name: number for number, name in enumerate(several, 1 + len(self.of_role))}

    @cached_property
    def of_pace(self) -> dict[str, int]:
        """Barrier of pace -> the first of its barriers of the hardware.

        Raises EmitError if there are not so many.
        """
        number = 1 + len(self.of_role) + len(self.of_roles)
        found: dict[str, int] = {}
        for barrier in self.program.barriers:
            if barrier.kind == "pace":
                found[barrier.name] = number
                number += barrier.slots
        if number > self.program.capacities.named_barriers:
            raise EmitError(
                f"{number} numbered barriers are needed, there are "
                f"{self.program.capacities.named_barriers}; fix: keep an order on fewer units "
                "(--pace)"
            )
        return found

    def meeting(self, role: RoleProgram, barrier: Barrier) -> int:
        """The barrier of the hardware at which warps of ``role``, maybe with others, meet."""
        return self.of_roles[barrier.name] if barrier.kind == "roles" else self.of_role[role.name]

    def pace_threads(self, barrier: str) -> int:
        """Threads that take part in each phase of a barrier of pace: those that arrive and those
        that wait.
        """
        waiting = (
            32 * role.warps
            for role in self.program.roles
            if any(isinstance(s.action, Wait) and s.action.barrier == barrier for s in role.steps)
        )
        return self.program.barrier[barrier].arrivals + sum(waiting)
