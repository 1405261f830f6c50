"""Findings that are one to a person: of the same lines of the source, with the same remedy.

A line of CuTe DSL becomes many lines of PTX where loops are unrolled and copies cut into pieces; a
fence that is missing behind it is one mistake, not one for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from schedgen.emulator.order.findings import Broken, Describe, Finding, Race, Severity

Source = Callable[[int], Hashable]
"""Equal for lines of PTX that come from one place in the source."""
_LISTED = 6
"""Further findings of a group whose lines are named."""


@dataclass(frozen=True, slots=True)
class Group:
    """Findings with the same source lines and needs; ``counts``: how often each was met."""

    findings: tuple[Finding, ...]
    counts: tuple[int, ...]

    @property
    def severity(self) -> Severity:
        return self.findings[0].severity

    def text(self, describe: Describe) -> str:
        """The first finding in full, and the lines of PTX of the others."""
        first, *more = self.findings
        text = first.text(describe, self.counts[0])
        if not more:
            return text
        lines = ", ".join(_lines(finding) for finding in more[:_LISTED])
        rest = f" and {len(more) - _LISTED} more" if len(more) > _LISTED else ""
        return f"{text}\n  also   {len(more)} of the same source lines: PTX lines {lines}{rest}"


def grouped(found: Iterable[tuple[Finding, int]], source: Source) -> tuple[Group, ...]:
    """Findings, with how often each was met, in groups; errors come first."""
    groups: dict[Hashable, list[tuple[Finding, int]]] = {}
    for finding, count in found:
        groups.setdefault(_key(finding, source), []).append((finding, count))
    order = list(Severity)
    made = (
        Group(tuple(f for f, _ in group), tuple(count for _, count in group))
        for group in groups.values()
    )
    return tuple(sorted(made, key=lambda group: order.index(group.severity)))


def _key(finding: Finding, source: Source) -> Hashable:
    if isinstance(finding, Broken):
        return source(finding.line), finding.rule, finding.severity
    if isinstance(finding, Race):
        places = source(finding.earlier.line), source(finding.later.line)
        about: Hashable = finding.missing, finding.kind, finding.earlier.proxy, finding.later.proxy
    else:
        other = finding.other and source(finding.other.line)
        places, about = (source(finding.access.line), other), finding.flaw
    return places, about, finding.space, finding.rule, finding.severity


def _lines(finding: Finding) -> str:
    if isinstance(finding, Race):
        return f"{finding.earlier.line} and {finding.later.line}"
    return str(finding.line if isinstance(finding, Broken) else finding.access.line)
