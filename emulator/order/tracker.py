"""What the machine tells whoever follows the order of accesses, and one who ignores it.

The machine (`schedgen.emulator.machine`) calls these methods while it executes; the race checker
(`schedgen.emulator.order`) implements them. Units of execution are warps: lanes of one warp count
as ordered. A warp is named by its number in the launch, which is unique over all CTAs.

An asynchronous operation (bulk copy, tensor-core operation, cp.async) is an `int` handle from
`issue`. Its accesses are reported with `access` when it executes. What ends it is said with
`track`, `commit`, `bulk_commit` or `group_commit`; `finish` follows when it has executed and all
its `track` calls were made, and is not optional.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Space(StrEnum):
    SHARED = "shared"
    TENSOR = "tensor"
    GLOBAL = "global"


class Proxy(StrEnum):
    GENERIC = "generic"
    ASYNC = "async"
    TENSOR = "tensor"
    """tcgen05 accesses to tensor memory."""


class Queue(StrEnum):
    """Which asynchronous operations of a warp are ordered among each other, and how they end."""

    BULK_LOAD = "bulk load"
    """Ends by complete-tx on an mbarrier (`track`)."""
    BULK_STORE = "bulk store"
    """Ends by bulk groups of the issuing warp (`bulk_commit`, `bulk_wait`)."""
    MMA = "tcgen05"
    """tcgen05 mma, cp and shift: ends by `commit`; pipelined among each other (C2)."""
    TMEM_LOAD = "tcgen05.ld"
    TMEM_STORE = "tcgen05.st"
    WGMMA = "wgmma"
    CP_ASYNC = "cp.async"
    """Ends by groups (`group_commit`, `group_wait`), or by `track` (cp.async.mbarrier.arrive)."""
    STORE_ASYNC = "st.async"
    """st.async and red.async: end by complete-tx on an mbarrier (`track`)."""


class Cells(NamedTuple):
    """Bytes that one access touches.

    ``index``: byte addresses, flat int64 array or a slice. SHARED: offsets in the shared memory of
    CTA ``cta`` (its number in the launch). TENSOR: ``lane * 512 + column`` of ``cta``. GLOBAL: host
    addresses; ``cta`` is -1.

    ``width``: how many consecutive cells each entry of an array stands for. 32 lanes that load 16
    bytes each are 32 addresses of width 16; a box in global memory is its rows; tcgen05.ld.x32 is
    32 lanes of width 32. It is several times cheaper than one entry per cell. An array is not
    changed afterwards; one that is not writeable (``setflags``) is taken for one that comes again.
    """

    space: Space
    cta: int
    index: NDArray[np.int64] | slice  # pyright: ignore[reportIncompatibleMethodOverride]
    width: int = 1


Changed = Callable[[], NDArray[np.int64]]
"""Says which cells held something else before a write, in numbers as `Cells` has them."""


class Tracker(Protocol):
    """Methods in the order in which a kernel meets them. ``line`` is the line of the PTX.

    Every argument with a default may be left out; what is lost then is said beside it.
    """

    # accesses
    def generic(
        self,
        warp: int,
        cells: Cells,
        *,
        write: bool,
        line: int,
        atomic: bool = False,
        acquire: bool = False,
        release: bool = False,
        adds: bool = False,
        same: bool = False,
        changed: Changed | None = None,
    ) -> None:
        """``atomic``: atom, red, and strong ld and st (volatile, relaxed, acquire, release).
        ``same``: a write of the bytes that were there already (S30); else it counts as of others,
        in all cells or, where ``changed`` is given, in those.

        An atomic read-modify-write is reported once, with ``write``; ``adds``: one that adds.
        ``acquire`` and ``release`` are those of its ``.sem``.
        """
        ...

    def together(
        self,
        warps: Sequence[int],
        cells: Sequence[Cells],
        whole: Cells,
        *,
        write: bool,
        line: int,
    ) -> bool:
        """Whether ordinary accesses of some warps of a CTA to shared memory may be told at once, by
        `entered` when they have happened; else each of them is told by `generic`. ``whole`` are the
        ``cells`` of all of them; no byte is written more than once."""
        ...

    def entered(self, *, write: bool, line: int, same: Sequence[bool]) -> None:
        """The accesses that `together` was asked about last; ``same`` as in `generic`, of each."""
        ...

    def issue(
        self,
        warp: int,
        queue: Queue,
        line: int,
        *,
        together: tuple[int, ...] = (),
        chain: Hashable = None,
    ) -> int:
        """An asynchronous operation begins; what its warp knows now is what it relies on.

        Args:
            together: the other warps that execute the same operation (a wgmma that is issued once
                for its warpgroup); it relies on what all of them know.
            chain: accumulator and shape of a tcgen05.mma, None for cp and shift (C2). Only used
                where `Switches.product_order` asks for it.
        """
        ...

    def access(
        self, operation: int, cells: Cells, *, write: bool, atomic: bool = False
    ) -> None: ...
    def finish(self, operation: int) -> None: ...
    def consumed(self, operation: int) -> None:
        """All lanes' registers of this tcgen05.ld have been read (S10); else it counts as not."""
        ...

    # tensor memory comes and goes; without these calls, its cells live for ever
    def allocate(self, warp: int, cells: Cells, line: int) -> None: ...
    def deallocate(self, warp: int, cells: Cells, line: int, peer: Cells | None = None) -> None:
        """``peer``: the same columns of the other CTA, with cta_group::2."""
        ...

    # mbarriers: ``barrier`` is (cta, byte offset), ``phase`` counts from 0 since init
    def barrier_init(self, warp: int, barrier: tuple[int, int], line: int) -> None: ...
    def barrier_invalidate(self, warp: int, barrier: tuple[int, int], line: int) -> None: ...
    def arrive(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None: ...
    def track(self, operation: int, barrier: tuple[int, int], phase: int) -> None: ...
    def commit(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        operation: int | None = None,
    ) -> None:
        """The arrive-on of a tcgen05.commit happens.

        ``operation`` is what `issue` (with `Queue.MMA`) returned when the commit was issued: it
        tracks what its warp had issued by then. Without it, what the warp has issued by now.
        """
        ...

    def wait(
        self,
        warp: int,
        barrier: tuple[int, int],
        phase: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None: ...

    def broken(self, line: int, rule: str, problem: str, *, warning: bool = False) -> None:
        """A rule of the ISA is broken in a way that execution survives (`Machine.broken`)."""
        ...

    # groups of asynchronous operations
    def bulk_commit(self, warp: int) -> None: ...
    def bulk_wait(self, warp: int, pending: int, *, read: bool) -> None: ...
    def group_commit(self, warp: int, queue: Queue) -> None: ...
    def group_wait(self, warp: int, queue: Queue, pending: int) -> None: ...
    def tmem_wait(self, warp: int, queue: Queue) -> None: ...

    # fences
    def proxy_fence(self, warp: int, space: Space | None) -> None: ...
    def map_release(self, warp: int) -> None:
        """fence.proxy.tensormap::generic.release."""
        ...

    def map_acquire(self, warp: int, address: int) -> None:
        """fence.proxy.tensormap::generic.acquire, for the tensor map at a global address."""
        ...

    def map_use(self, warp: int, cells: Cells, line: int) -> None:
        """A copy that reads a tensor map is issued; ``cells`` are the bytes of the map."""
        ...

    def barrier_init_fence(self, warp: int) -> None: ...
    def predecessor_count(self, warp: int, cells: Cells) -> bool:
        """A word of global memory is read with ``.acquire``: whether the warp finds there what the
        kernels in front of this one leave; else they count in it, and it finds one less (L1).
        """
        ...

    def predecessor_wait(self, warp: int) -> None:
        """griddepcontrol.wait: the kernel before this one has ended."""
        ...

    def tcgen05_fence(self, warp: int, *, before: bool) -> None: ...
    def thread_fence(self, warp: int, *, cluster: bool, gpu: bool = True) -> None:
        """fence.acq_rel, fence.sc or membar of ``.cta`` scope, or wider: ``cluster``, ``gpu``."""
        ...

    # barriers among warps: what a warp did before its signal is ordered before what others do
    # after they leave. ``barrier`` is (cta, 0…15) for bar, (number of the cluster, -1) for
    # barrier.cluster; ``generation`` counts its completions. The machine calls these two; `join` is
    # their short form for all at once, for tests.
    def signal(
        self,
        warp: int,
        barrier: tuple[int, int],
        generation: int,
        *,
        line: int,
        cluster: bool = False,
        relaxed: bool = False,
    ) -> None:
        """A warp arrives (bar.sync, bar.arrive, bar.red, barrier.cluster.arrive)."""
        ...

    def leave(
        self,
        warp: int,
        barrier: tuple[int, int],
        generation: int,
        *,
        line: int,
        cluster: bool = False,
    ) -> None:
        """A warp that waited goes on: the generation in which it arrived is complete."""
        ...

    def join(
        self, arrived: tuple[int, ...], leaving: tuple[int, ...], *, cluster: bool
    ) -> None: ...


class Ignore:
    """The tracker of a run without race detection."""

    def __getattr__(self, name: str) -> object:
        return _nothing


def _nothing(*_: object, **__: object) -> int:
    return 0
