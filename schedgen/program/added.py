"""Operations of a program that are none of its kernel, and were added behind synthesis."""

from __future__ import annotations

from schedgen.program import claims, following, taking_turns
from schedgen.program.model import Program, RoleProgram, Run


def is_added(operation: str) -> bool:
    """Whether an operation claims a tile, takes a turn, or is about the tiles of two kernels."""
    return (
        claims.is_claim(operation)
        or taking_turns.is_turn(operation)
        or following.is_following(operation)
    )


def ran(role: RoleProgram) -> list[str]:
    """The operations of the kernel that a role runs, in the order of its steps."""
    runs = (step.action for step in role.steps if isinstance(step.action, Run))
    return [run.operation for run in runs if not is_added(run.operation)]


def of_kernel(program: Program) -> Program:
    """``program`` with the operations of its kernel only."""
    return following.of_kernel(taking_turns.of_kernel(claims.of_kernel(program)))
