"""CUDA graphs of iterations: some twenty launches become one.

A graph has memory of its own, which a later replay overwrites; so there is one for each stream, its
input is written and its output read out under a lock. The least recently used ones are dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

import torch
from torch import Tensor

MOST_ELEMENTS = 1 << 25
"""Of what is worth a graph: launching takes less time than computing on more than that."""
_MOST_GRAPHS = 16

_lock = threading.RLock()
_graphs: OrderedDict[Hashable, _Graph] = OrderedDict()


class Kind(NamedTuple):
    """Of tensors that one graph can be used for."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class _Graph:
    def __init__(self, kind: Kind, run: Callable[[Tensor], Tensor]) -> None:
        self.input = torch.zeros(kind.shape, dtype=kind.dtype, device=kind.device)
        # Compilers, caches and libraries start up before, outside of the graph.
        run(self.input)
        torch.cuda.current_stream(kind.device).synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self.output = run(self.input)

    def replay(self) -> None:
        self._graph.replay()


def worthwhile(x: Tensor) -> bool:
    """Whether iterations on ``x`` should go through a graph."""
    if not x.is_cuda or x.numel() > MOST_ELEMENTS or torch.compiler.is_compiling():
        return False
    return not torch.cuda.is_current_stream_capturing()


def replayed(
    kind: Kind,
    fill: Callable[[Tensor], object],
    run: Callable[[Tensor], Tensor],
    take: Callable[[Tensor], Tensor],
    *options: Hashable,
) -> Tensor:
    """``take(run(x))`` for a contiguous x of a ``kind`` that ``fill`` writes: a graph runs it.

    The graph is that of this kind, stream and ``options``. What ``take`` returns must have
    memory of its own.
    """
    stream = torch.cuda.current_stream(kind.device)
    key = (kind, stream.cuda_stream, *options)
    with _lock, torch.cuda.device(kind.device):
        graph = _graphs.pop(key, None)
        if graph is None:
            graph = _Graph(kind, run)
        _graphs[key] = graph
        while len(_graphs) > _MOST_GRAPHS:
            _graphs.popitem(last=False)
        fill(graph.input)
        graph.replay()
        return take(graph.output)
