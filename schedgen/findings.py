"""What a method says about a program: nothing found, or findings with a trace to follow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Claim(StrEnum):
    """What is claimed of every program, for all trip counts, numbers of tiles and latencies."""

    RACE = "race_free"
    """Conflicting accesses happen in the order that is meant."""
    DEADLOCK = "deadlock_free"
    """Every role comes to its end."""
    PHASE = "phase_safe"
    """No wait confuses two phases, and each phase is observed before the next one begins."""
    COUNT = "counts_consistent"
    """Arrivals and bytes of every phase add up to what the barrier takes."""
    CAPACITY = "capacities"
    """Storage is disjoint and fits; so do registers, warps and named barriers."""
    FRAME = "framed"
    """What roles find is made before they begin, and nothing of theirs is left when they end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that does not hold: one sentence, and a trace a person can follow.

    ``subject`` names the steps, barriers or stores at fault, so that methods can be compared.
    ``later_tile``: of a race, that the second access is in another tile than the first.
    """

    claim: Claim
    text: str
    subject: tuple[str, ...] = ()
    witness: tuple[str, ...] = ()
    later_tile: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one method found. ``bound`` says in words what was covered, '' if everything is."""

    method: str
    findings: tuple[Finding, ...]
    seconds: float
    bound: str = ""

    @property
    def proven(self) -> bool:
        return not self.findings
