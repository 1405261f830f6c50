"""CUDA graphs of whole calls: some twenty launches become one.

A graph has memory of its own, which a later replay overwrites; so there is one for each stream, and
results are copied out. The least recently used ones are dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch
from torch import Tensor

MOST_ELEMENTS = 1 << 25
"""Of what is worth a graph: launching takes less time than computing on more than that."""
_MOST_GRAPHS = 16

_lock = threading.RLock()
_graphs: OrderedDict[Hashable, _Graph] = OrderedDict()


class _Graph:
    def __init__(self, x: Tensor, run: Callable[[Tensor], Tensor]) -> None:
        self._input = x.clone()
        # Compilers, caches and libraries start up before, outside of the graph.
        run(self._input)
        torch.cuda.current_stream(x.device).synchronize()
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._output = run(self._input)

    def __call__(self, x: Tensor) -> Tensor:
        self._input.copy_(x)
        self._graph.replay()
        return self._output.clone()


def worthwhile(x: Tensor) -> bool:
    """Whether a call with ``x`` should go through a graph."""
    if not x.is_cuda or x.numel() > MOST_ELEMENTS or torch.compiler.is_compiling():
        return False
    return not torch.cuda.is_current_stream_capturing()


def replayed(x: Tensor, run: Callable[[Tensor], Tensor], *options: Hashable) -> Tensor:
    """``run(x)``, whose result is new, through the graph of this shape, stream and ``options``."""
    stream = torch.cuda.current_stream(x.device)
    key = (x.shape, x.stride(), x.dtype, x.device, stream.cuda_stream, *options)
    with _lock, torch.cuda.device(x.device):
        graph = _graphs.pop(key, None)
        if graph is None:
            graph = _Graph(x, run)
        _graphs[key] = graph
        while len(_graphs) > _MOST_GRAPHS:
            _graphs.popitem(last=False)
        return graph(x)
