"""Why one thing has to wait for another, as data; the sentences for it are all here.

Code decides on the kind and the subjects of a `Reason`, never on what it reads like: with any other
sentences every schedule, program and verdict is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonKind(StrEnum):
    """What a reason says of its subjects; see `SENTENCES` for which these are."""

    # Dependences, as `edges.EdgeClass` has them.
    FLOW = "flow"
    CARRIED = "carried"
    ANTI = "anti"
    OUTPUT = "output"
    ORDER = "order"
    # What else fixes the pace of a schedule.
    PERIODS = "periods"
    ROLE_PERIODS = "role_periods"
    ITERATIONS = "iterations"
    PROGRAM_ORDER = "program_order"
    # What is busy.
    UNIT = "unit"
    ISSUE = "issue"
    # Arcs of the event graph of a program.
    STEPS = "steps"
    NEXT_TILE = "next_tile"
    QUEUE = "queue"
    COMMIT_ORDER = "commit_order"
    COMMIT_DONE = "commit_done"
    BEGINS = "begins"
    ENDS = "ends"
    WAIT_GROUP = "wait_group"
    BARRIER = "barrier"
    TRIPS = "trips"
    # What keeps two operations of one role in order.
    SAME_THREADS = "same_threads"
    ISSUED_BEHIND = "issued_behind"
    FENCED = "fenced"
    GROUP_AWAITED = "awaited"
    WARPS_MEET = "warps_meet"
    ROLE_MEETS = "role_meets"
    UNORDERED = "unordered"
    # What waits and barriers are for.
    USES = "uses"
    OVERWRITES = "overwrites"
    USES_AFTER = "uses_after"
    OVERWRITES_AFTER = "overwrites_after"
    # What keeps two roles to the order of the schedule.
    PACE = "pace"
    # What the warps of a role meet for, and the threads of a warp.
    USES_ACROSS = "uses_across"
    OVERWRITES_ACROSS = "overwrites_across"
    USES_WITHIN = "uses_within"
    OVERWRITES_WITHIN = "overwrites_within"


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind and the names of what it is about: operations, buffers, units, roles, barriers."""

    kind: ReasonKind
    subjects: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentence, for people to read."""
        return render(self)


SENTENCES = {
    # Of a buffer, a ring or an order; or of a buffer and the one in whose storage it lives.
    ReasonKind.FLOW: "flow {storage}",
    ReasonKind.CARRIED: "carried {storage}",
    ReasonKind.ANTI: "anti {storage}",
    ReasonKind.OUTPUT: "output {storage}",
    ReasonKind.ORDER: "order {storage}",
    # Of a unit, nothing, nothing, a role.
    ReasonKind.PERIODS: "unit {0}",
    ReasonKind.ROLE_PERIODS: "role order",
    ReasonKind.ITERATIONS: "iterations of the main loop",
    ReasonKind.PROGRAM_ORDER: "program order of {0}",
    # Of a unit, a group of operations.
    ReasonKind.UNIT: "{0}",
    ReasonKind.ISSUE: "issue of {0}",
    # Of a role, a role, an engine, nothing (5 times), a barrier, nothing.
    ReasonKind.STEPS: "order of {0}",
    ReasonKind.NEXT_TILE: "next tile of {0}",
    ReasonKind.QUEUE: "the {0} engine works in order",
    ReasonKind.COMMIT_ORDER: "a commit follows the queue",
    ReasonKind.COMMIT_DONE: "the commit arrives after it was issued",
    ReasonKind.BEGINS: "it begins after it was issued",
    ReasonKind.ENDS: "it ends after it began",
    ReasonKind.WAIT_GROUP: "a wait_group waits for what was issued",
    ReasonKind.BARRIER: "barrier {0}",
    ReasonKind.TRIPS: "the tile has iterations",
    # Of nothing (twice), a fence, an operation, a meeting (twice), nothing.
    ReasonKind.SAME_THREADS: "the same threads, in the order of their steps",
    ReasonKind.ISSUED_BEHIND: "it is issued behind it",
    ReasonKind.FENCED: "{0}",
    ReasonKind.GROUP_AWAITED: "wait_group {0}",
    ReasonKind.WARPS_MEET: "{0}",
    ReasonKind.ROLE_MEETS: "{0}",
    ReasonKind.UNORDERED: "nothing orders them",
    # Of an operation, a store and the operation that has to come first.
    ReasonKind.USES: "{0} uses {1}",
    ReasonKind.OVERWRITES: "{0} writes over {1}",
    ReasonKind.USES_AFTER: "{0} uses {1} after {2}",
    ReasonKind.OVERWRITES_AFTER: "{0} writes over {1} after {2}",
    # Of an operation, the one that is issued before it, and a unit.
    ReasonKind.PACE: "pace: {0} is issued after {1}, as planned for {2}",
    # Of an operation, the one that has to come first, and a store.
    ReasonKind.USES_ACROSS: "{0} uses what {1} of other warps did in {2}",
    ReasonKind.OVERWRITES_ACROSS: "{0} writes over what {1} of other warps did in {2}",
    ReasonKind.USES_WITHIN: "{0} uses what {1} of other threads of a warp did in {2}",
    ReasonKind.OVERWRITES_WITHIN: "{0} writes over what {1} of other threads of a warp did in {2}",
}


def render(reason: Reason) -> str:
    """The sentence of ``reason``."""
    return SENTENCES[reason.kind].format(*reason.subjects, storage=storage(reason.subjects))


def is_whole(reason: Reason) -> bool:
    """Whether ``reason`` has as many subjects as its kind has, which a file may get wrong."""
    sentence, count = SENTENCES[reason.kind], len(reason.subjects)
    return count in (1, 2) if "{storage}" in sentence else count == sentence.count("{")


def storage(subjects: tuple[str, ...]) -> str:
    """``P in S``: a buffer and, if it has none of its own, in whose storage it lives."""
    return " in ".join(subjects)
