"""What all parts of the checker share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from schedgen.emulator.machine.switches import CopyProxy, StoreProxy, Switches
from schedgen.emulator.order.agents import FENCED, Cluster, Kind
from schedgen.emulator.order.findings import Findings
from schedgen.emulator.order.memory import Memory
from schedgen.emulator.order.records import Origin, Records
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.order.warps import Warp

_WARPS_PER_GROUP = 4


class State:
    """Warps, clusters, memories, accesses and findings of one launch.

    Args:
        warps_per_cta: warps are numbered through the launch, CTA after CTA.
        cluster_of: the number of the cluster of a CTA.
        switches: how ambiguities of the ISA are read.
        limit: how many different findings are kept.
        stop: raise an error at the first finding that is no mere advice.
        demoted: rules of which breaches are warnings.
    """

    def __init__(
        self,
        warps_per_cta: int,
        cluster_of: Callable[[int], int],
        switches: Switches,
        limit: int,
        stop: bool = False,
        demoted: Collection[str] = frozenset(),
    ) -> None:
        self.switches = switches
        self.records = Records()
        self.memory = Memory()
        self.findings = Findings(limit, stop, demoted)
        self.warps: dict[int, Warp] = {}
        self._warps_per_cta = warps_per_cta
        self._cluster_of = cluster_of
        self._clusters: dict[int, Cluster] = {}
        self._last: dict[int, int] = {}
        self._iterations: dict[tuple[int, int], int] = {}
        fenced = set(FENCED)
        if switches.copy_proxy is CopyProxy.NONE:
            fenced.discard(Kind.COPY)
        if switches.store_proxy is StoreProxy.ASYNC:
            fenced.discard(Kind.STORE_ASYNC)
        self.fenced = frozenset(fenced)
        """Kinds of agents whose accesses belong to the generic proxy (S12, S13)."""

    def warp(self, number: int) -> Warp:
        """A warp by its number in the launch, that does something."""
        if self._last:
            self._last.pop(number, None)
        known = self.warps.get(number)
        if known is None:
            cta, local = divmod(number, self._warps_per_cta)
            group = local // _WARPS_PER_GROUP
            cluster = self.cluster(cta)
            known = Warp(number, cta, group, cluster, self.switches)
            self.warps[number] = known
        return known

    def each(self, numbers: Sequence[int]) -> list[Warp]:
        """Several of them."""
        if not self._last:
            try:
                return [self.warps[number] for number in numbers]
            except KeyError:
                pass  # one does something for the first time
        return [self.warp(number) for number in numbers]

    def note(self, warp: int, line: int) -> None:
        """A warp has just executed a line for one of its lanes."""
        self._last[warp] = line

    def is_last(self, warp: int, line: int) -> bool:
        """Whether a warp did nothing since it executed a line for another of its lanes."""
        return self._last.get(warp) == line

    def cluster(self, cta: int) -> Cluster:
        """The cluster of a CTA."""
        number = self._cluster_of(cta)
        known = self._clusters.get(number)
        if known is None:
            known = self._clusters[number] = Cluster(number, self.fenced)
        return known

    def iteration(self, warp: int, line: int) -> int:
        """How often a warp had executed a line before it did last; -1 if it never did."""
        return self._iterations.get((warp, line), -1)

    def origin(self, warp: Warp, line: int, queue: Queue | None = None) -> Origin:
        """A warp executes a line. Its clock must be a fresh one (`Warp.touch`)."""
        key = warp.number, line
        iteration = self._iterations[key] = self._iterations.get(key, -1) + 1
        return Origin(warp.number, warp.cta, line, iteration, warp.clock, queue)
