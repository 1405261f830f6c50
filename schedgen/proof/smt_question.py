"""A question to Z3: a violation, as a formula over the times of a window."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.findings import Claim
from schedgen.program.model import Arrive, Commit, Fence, Program, Run, Wait, WaitGroup
from schedgen.proof.smt_window import Event, Term


@dataclass(frozen=True, slots=True)
class Question:
    """``formula`` is satisfiable if the claim fails; ``events`` are those it is about.

    Questions with the same claim, subject and ``detail`` are one.
    """

    claim: Claim
    text: str
    subject: tuple[str, ...]
    formula: Term
    events: tuple[Event, ...]
    detail: tuple[object, ...]


def describe(program: Program, role: str, number: int) -> str:
    """A step in words."""
    return f"{role}: {action(program, role, number)}"


def action(program: Program, role: str, number: int) -> str:
    """The same without the role."""
    match program.role[role].steps[number].action:
        case Run(operation):
            return operation
        case Wait(barrier):
            return f"wait for '{barrier}'"
        case Arrive(barrier):
            return f"arrive at '{barrier}'"
        case Commit(barrier):
            return f"commit to '{barrier}'"
        case WaitGroup(operation):
            return f"wait_group {operation}"
        case Fence(kind):
            return f"fence {kind.value}"
