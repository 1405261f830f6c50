"""What the race checker found, and how it says so to a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from enum import StrEnum

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.order.tensor_cells import COLUMNS
from schedgen.emulator.order.tracker import Proxy, Queue, Space

Describe = Callable[[int], str]
"""The text of a line of PTX, and where in the CuTe DSL source it comes from."""


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    """A switch makes it advice."""
    REVIEW = "review"
    """Sound only under a reading that a switch wants a person to judge."""


class Missing(StrEnum):
    """What would order the two accesses."""

    HAND_OFF = "hand-off"
    """Nothing says to the second warp that the first one got so far."""
    PROXY_FENCE = "proxy fence"
    PHASE_WAIT = "wait for a phase"
    COMMIT = "tcgen05.commit"
    TENSOR_WAIT = "tcgen05.wait"
    FENCE_BEFORE = "tcgen05.fence::before_thread_sync"
    FENCE_AFTER = "tcgen05.fence::after_thread_sync"
    GROUP_WAIT = "wait for a group"
    ARRIVE = "arrive after the copy"
    THREAD_BLOCK = "same thread block"
    MAP_FENCE = "fence for the tensor map"


class Flaw(StrEnum):
    """Findings about one access."""

    UNINITIALIZED = "uninitialized"
    FREED = "use of deallocated tensor memory"
    UNPUBLISHED = "unpublished mbarrier"
    UNOBSERVED = "phase that nobody observed"
    IN_USE = "mbarrier changed while in use"
    EARLY = "access to global memory while the kernel before this one may still run"
    OUTLIVES = "access to shared memory that may come after the exit of its CTA"


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a finding.

    Attributes:
        line: of the PTX; for an asynchronous operation the line that issued it.
        iteration: how often the warp had executed that line before.
        queue: None for an ordinary access.
        action: what it did, as ``reads``.
    """

    warp: int
    cta: int
    line: int
    iteration: int
    proxy: Proxy
    queue: Queue | None
    write: bool
    atomic: bool
    action: str

    def text(self, describe: Describe) -> str:
        """One line about it."""
        by = "" if self.queue is None else f" ({self.queue.value})"
        return (
            f"warp {self.warp} of CTA {self.cta} {self.action}{by}, line {self.line}, "
            f"iteration {self.iteration}{_quoted(self.line, describe)}"
        )


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses to the same cells, at least one of them a write, that nothing orders.

    Attributes:
        cta: whose shared or tensor memory; -1 for global memory.
        low, high: first and last cell of the overlap: bytes, or ``lane * 512 + column``.
        cells: how many are in it.
        needs: what would order them.
        rule: number of the rule in the notes on synchronization semantics.
        switch: which reading the verdict depends on.
    """

    space: Space
    cta: int
    earlier: Access
    later: Access
    low: int
    high: int
    cells: int
    missing: Missing
    needs: str
    rule: str
    switch: str | None = None
    severity: Severity = Severity.ERROR

    @property
    def kind(self) -> str:
        """``read after write`` and the like, in the order in which this run executed them."""
        words = {True: "write", False: "read"}
        return f"{words[self.later.write]} after {words[self.earlier.write]}"

    @property
    def key(self) -> Hashable:
        """Equal for what is one finding to a person."""
        first, second = self.earlier, self.later
        return (
            first.line, second.line, self.kind, self.space, self.missing, self.rule, self.severity
        )  # fmt: skip

    def text(self, describe: Describe, count: int) -> str:
        """Some lines about it."""
        kind = self.kind.replace("after", f"after {self.earlier.proxy.value}")
        proxies = f"{self.later.proxy.value} {kind}"
        return "\n".join((
            f"{self.severity.value}: race, {proxies}: {where(self)}{_times(count)}",
            f"  first  {self.earlier.text(describe)}",
            f"  then   {self.later.text(describe)}",
            f"  needs  {self.needs}",
            f"  rule   {self.rule}{_depends(self.switch)}",
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defect:
    """Something wrong with one access. ``other`` is what it refers to, as the init of a barrier."""

    flaw: Flaw
    space: Space
    cta: int
    access: Access
    low: int
    high: int
    cells: int
    needs: str
    rule: str
    switch: str | None = None
    severity: Severity = Severity.ERROR
    other: Access | None = None

    @property
    def key(self) -> Hashable:
        """Equal for what is one finding to a person."""
        return self.flaw, self.access.line, self.other and self.other.line, self.severity

    def text(self, describe: Describe, count: int) -> str:
        """Some lines about it."""
        about = () if self.other is None else (f"  after  {self.other.text(describe)}",)
        return "\n".join((
            f"{self.severity.value}: {self.flaw.value}: {where(self)}{_times(count)}",
            f"  by     {self.access.text(describe)}",
            *about,
            f"  needs  {self.needs}",
            f"  rule   {self.rule}{_depends(self.switch)}",
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule of the ISA that an instruction breaks, whatever else is executed."""

    line: int
    rule: str
    problem: str
    severity: Severity = Severity.ERROR

    @property
    def key(self) -> Hashable:
        """Equal for what is one finding to a person."""
        return self.line, self.rule, self.severity

    def text(self, describe: Describe, count: int) -> str:
        """Some lines about it."""
        return "\n".join((
            f"{self.severity.value}: {self.problem}{_times(count)}",
            f"  by     line {self.line}{_quoted(self.line, describe)}",
            f"  rule   {self.rule}",
        ))  # fmt: skip


Finding = Race | Defect | Broken


class Findings:
    """Findings, each once, with how often it was met.

    Args:
        limit: how many are kept; of the rest only the number is.
        stop: raise an EmulationError when the first error is added.
        demoted: rules of which breaches are warnings.
    """

    def __init__(
        self, limit: int, stop: bool = False, demoted: Collection[str] = frozenset()
    ) -> None:
        self._limit = limit
        self._demoted = demoted
        self._stop = stop
        self._kept: dict[Hashable, tuple[Finding, int]] = {}
        self.listener: Callable[[Finding], None] | None = None
        """Is told of each finding."""
        self.beyond = 0
        """How often something was met that is not kept."""
        self.met = 0
        """How often anything was met in this execution."""

    def add(self, finding: Finding) -> None:
        """Keeps a finding, or counts one that is known."""
        self.met += 1
        if finding.rule in self._demoted and finding.severity is Severity.ERROR:
            finding = replace(finding, severity=Severity.WARNING)
        if self.listener is not None:
            self.listener(finding)
        key = finding.key
        known = self._kept.get(key)
        if known is not None:
            self._kept[key] = known[0], known[1] + 1
        elif len(self._kept) < self._limit:
            self._kept[key] = finding, 1
            if self._stop and finding.severity is Severity.ERROR:
                raise EmulationError("ended at the first finding")
        else:
            self.beyond += 1

    def join(self, other: Findings) -> None:
        """Adds what was found in another execution of the same launch."""
        for key, (finding, count) in other._kept.items():
            known = self._kept.get(key)
            if known is not None:
                self._kept[key] = known[0], known[1] + count
            elif len(self._kept) < self._limit:
                self._kept[key] = finding, count
            else:
                self.beyond += count
        self.beyond += other.beyond

    def again(self, key: Hashable) -> None:
        """Counts one more of a known kind."""
        self.met += 1
        known = self._kept.get(key)
        if known is None:
            self.beyond += 1
        else:
            self._kept[key] = known[0], known[1] + 1

    def demote(self, flaw: Flaw, needs: str) -> None:
        """Makes defects of a kind warnings, with another text of what they need."""
        self._kept = {
            key: (replace(finding, severity=Severity.WARNING, needs=needs), count)
            if isinstance(finding, Defect) and finding.flaw is flaw
            else (finding, count)
            for key, (finding, count) in self._kept.items()
        }

    def all(self) -> tuple[tuple[Finding, int], ...]:
        """Findings and their counts, in the order in which they were met."""
        return tuple(self._kept.values())


def where(finding: Race | Defect) -> str:
    """The cells of a finding in words."""
    low, high, cells = finding.low, finding.high, finding.cells
    if finding.space is Space.TENSOR:
        lanes, columns = (low // COLUMNS, high // COLUMNS), (low % COLUMNS, high % COLUMNS)
        return (
            f"{cells} cells of tensor memory of CTA {finding.cta}, from lane {lanes[0]} column "
            f"{columns[0]} to lane {lanes[1]} column {columns[1]}"
        )
    bytes_ = f"byte {low:#x}" if cells == 1 else f"{cells} bytes in {low:#x}…{high:#x}"
    if finding.space is Space.GLOBAL:
        return f"{bytes_} of global memory"
    return f"{bytes_} of shared memory of CTA {finding.cta}"


def _quoted(line: int, describe: Describe) -> str:
    text = describe(line)
    return f": {text}" if text else ""


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"


def _depends(switch: str | None) -> str:
    return "" if switch is None else f"; the verdict depends on the switch {switch}"
