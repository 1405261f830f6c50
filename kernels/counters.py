"""Counters that blocks claim output tiles from (`schedgen.program.claims`), and who has which.

A kernel finds its counter 0 and leaves it so: of T tiles exactly T tickets are drawn, and the
atomic goes round after T. Nothing has to be reset, in no stream and in no graph; but two kernels
that run at a time must not have the same one. So

* a stream has one, as of cuBLAS' workspaces: its kernels run one after the other, also where the
  next one starts early, because it draws only after `griddepcontrol.wait`;
* each launch that a CUDA graph captures has one of its own: graphs run in any stream, at any time,
  a graph never beside itself.

A kernel that was aborted leaves anything, but also a context in which nothing works any more, and
no memory of it. Why not otherwise: docs/adr/0025.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from schedgen.kernels import native
from schedgen.kernels.apart import apart

_APART = 32
"""Numbers from one counter to the next: a line of L2 each."""
_COUNT = 4096
"""Counters that are made at a time."""
_PER_THREAD_STREAM = 2
"""The handle that stands for another default stream in each thread (cudaStreamPerThread)."""


class Counters:
    """Those of one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._free: list[Tensor] = []
        self._of: dict[tuple[int, int], Tensor] = {}
        self._make()

    def counter(self, stream: int) -> Tensor:
        """The counter of a kernel that is launched on ``stream``, or captured there."""
        if torch.cuda.is_current_stream_capturing():
            return self._captured()
        key = stream, threading.get_ident() if stream == _PER_THREAD_STREAM else 0
        found = self._of.get(key)
        if found is None:
            with self._lock:
                found = self._of.setdefault(key, self._free.pop())
            if stream != _PER_THREAD_STREAM:
                native.keep_counter(self._device.index or 0, stream, found.data_ptr())
        if len(self._free) < _COUNT // 2:
            with self._lock:
                self._make()
        return found

    def _captured(self) -> Tensor:
        """One that no other launch ever gets; if there is none left, and none can be made while a
        graph is captured, memory of the graph that it sets to 0 itself, each time.
        """
        with self._lock:
            if len(self._free) > 1:
                return self._free.pop()
        return torch.zeros(1, dtype=torch.int32, device=self._device)

    def _make(self) -> None:
        """More of them. Copied from the host, which waits for it: they are 0 for all streams."""
        zeros = torch.zeros(_COUNT, _APART, dtype=torch.int32)
        made = apart(lambda: zeros.to(self._device))
        self._free += [row[:1] for row in made.unbind()]


_of: dict[torch.device, Counters] = {}
_making = threading.Lock()


def counters(device: torch.device) -> Counters:
    """Those of ``device``; not to be made while a graph is captured."""
    found = _of.get(device)
    if found is None:
        with _making:
            found = _of.get(device) or Counters(device)
            _of[device] = found
    return found
