"""Barriers among warps (bar, barrier.cluster), and atomic accesses that hand on knowledge."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedgen.emulator.order.knowledge import Message, merge
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells
from schedgen.emulator.order.warps import CLUSTER_SCOPE, CTA_SCOPE, GPU_SCOPE, Warp

_GENERATIONS = 8  # of one barrier that warps may still leave
_JOINED = (-1, -1)


class Barriers:
    """Named barriers and barrier.cluster: who leaves knows what those knew who arrived."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._arrived: dict[tuple[int, int], dict[int, Message | None]] = {}
        self._joins = 0

    def signal(
        self,
        warp: Warp,
        barrier: tuple[int, int],
        generation: int,
        line: int,
        cluster: bool,
        relaxed: bool,
    ) -> None:
        """A warp arrives."""
        warp.touch()
        message = warp.message()
        if relaxed:
            message = warp.relaxed(CLUSTER_SCOPE if cluster else CTA_SCOPE)
        warp.tells(None, line)
        generations = self._arrived.setdefault(barrier, {})
        generations[generation] = merge(generations.get(generation), message)
        if len(generations) > _GENERATIONS:
            del generations[min(generations)]

    def leave(self, warp: Warp, barrier: tuple[int, int], generation: int) -> None:
        """A warp goes on after the barrier is complete."""
        warp.acquire(self._arrived.get(barrier, {}).get(generation))

    def join(self, arrived: tuple[int, ...], leaving: tuple[int, ...], cluster: bool) -> None:
        """All at once."""
        self._joins += 1
        for number in arrived:
            self.signal(self._state.warp(number), _JOINED, self._joins, 0, cluster, False)
        for number in leaving:
            self.leave(self._state.warp(number), _JOINED, self._joins)


@dataclass(slots=True)
class _Location:
    """What was released at one address, by scope: for the CTA, the cluster, the GPU."""

    ctas: dict[int, Message | None] = field(default_factory=dict[int, "Message | None"])
    clusters: dict[int, Message | None] = field(default_factory=dict[int, "Message | None"])
    gpu: Message | None = None
    last: dict[int, tuple[Message | None, ...]] = field(
        default_factory=dict[int, "tuple[Message | None, ...]"]
    )
    """By warp, what it released here last, which need not be added twice."""


class Atomics:
    """Addresses that warps synchronize through (K4): a release or a fence, then a strong write;
    a strong read of it, then a fence, or an acquire. Read-modify-writes and overwritten values are
    not told apart: whoever reads an address gets all that was released there before."""

    def __init__(self) -> None:
        self._locations: dict[tuple[int, int], _Location] = {}

    def access(
        self, warp: Warp, cells: Cells, *, write: bool, acquire: bool, release: bool
    ) -> None:
        """A strong access. Its own data are checked elsewhere."""
        if acquire or self._locations:
            for key in _addresses(cells):
                if key in self._locations:
                    self._read(warp, self._locations[key], acquire)
        if not write or not (release or any(warp.released)):
            return
        levels = (warp.message(),) * (GPU_SCOPE + 1) if release else tuple(warp.released)
        for key in _addresses(cells):
            self._write(warp, self._locations.setdefault(key, _Location()), levels)

    def _read(self, warp: Warp, location: _Location, acquire: bool) -> None:
        levels = (
            location.ctas.get(warp.cta),
            location.clusters.get(warp.cluster.number),
            location.gpu,
        )
        for scope, message in enumerate(levels):
            if message is None:
                continue
            if acquire:
                warp.acquire(message)
            else:
                warp.pending[scope] = merge(warp.pending[scope], message)

    def _write(self, warp: Warp, location: _Location, levels: tuple[Message | None, ...]) -> None:
        last = location.last.get(warp.number)
        if last is not None and all(a is b for a, b in zip(last, levels, strict=True)):
            return
        location.last[warp.number] = levels
        cta, cluster = warp.cta, warp.cluster.number
        location.ctas[cta] = merge(location.ctas.get(cta), levels[CTA_SCOPE])
        location.clusters[cluster] = merge(location.clusters.get(cluster), levels[CLUSTER_SCOPE])
        location.gpu = merge(location.gpu, levels[GPU_SCOPE])


def _addresses(cells: Cells) -> list[tuple[int, int]]:
    if isinstance(cells.index, slice):
        return [(cells.cta, int(cells.index.start))]
    return [(cells.cta, address) for address in sorted(set(cells.index.tolist()))]
