"""What is known of a launch after it: of one schedule, of all, of one that ended early."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from schedgen.emulator.machine.launch import Statistics
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Finding, Findings, Severity
from schedgen.emulator.order.groups import Group


@dataclass(frozen=True)
class Report:
    """What is known of one launch after it.

    Attributes:
        findings: races and other defects, and warnings; None if nobody looked for them.
        text: the findings for a person, "" if there are none.
        groups: the findings, those together that have the same lines of the source and needs.
        seconds: how long the execution took, parsing not included.
        executed: PTX lines of synchronization that some schedule executed.
        blocked: those of instructions in which some warp had to wait under some schedule.
        shown: by key of a finding the schedules that show it: seeds, and `policy` behind them.
        inits: the PTX line that initialized each mbarrier, by its CTA and offset.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    statistics: Statistics
    findings: tuple[Finding, ...] | None
    text: str
    seconds: float
    groups: tuple[Group, ...] = ()
    executed: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    shown: Mapping[Hashable, tuple[int, ...]] = field(
        default_factory=dict[Hashable, tuple[int, ...]]
    )
    inits: Mapping[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    @property
    def clean(self) -> bool:
        """Whether a run that looked for races and other defects found none; warnings may be."""
        return self.findings is not None and not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are no mere warnings."""
        return tuple(f for f in self.findings or () if f.severity is Severity.ERROR)


@dataclass(frozen=True)
class Execution:
    """What one schedule brought: findings, None if nobody looked for them, and the lines of
    `Report.executed` and `Report.blocked`."""

    findings: Findings | None
    executed: frozenset[int]
    blocked: frozenset[int]
    inits: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Aborted:
    """What is known of a launch that did not come to its end; `EmulationError.aborted`.

    Attributes:
        text: of the error, without what the race checker has found.
        groups: what that has found until then.
        inits: as in `Report`.
        schedule: the number of the schedule, as in `Report.shown`.
    """

    text: str
    groups: tuple[Group, ...]
    inits: Mapping[tuple[int, int], int]
    schedule: int


def execution_of(checker: Checker | None, done: Statistics) -> Execution:
    """What an execution brought that came to its end."""
    if checker is None:
        return Execution(None, done.executed, done.blocked, {})
    return Execution(checker.kept, done.executed, done.blocked, checker.inits)


def shown_by(every: Sequence[Execution]) -> dict[Hashable, tuple[int, ...]]:
    """By key of a finding the numbers of the executions that show it, from 0."""
    shown: dict[Hashable, tuple[int, ...]] = {}
    for number, one in enumerate(every):
        for finding, _ in () if one.findings is None else one.findings.all():
            shown[finding.key] = (*shown.get(finding.key, ()), number)
    return shown
