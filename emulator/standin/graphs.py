"""CUDA graphs: what a program does while one is captured happens when it is replayed.

As on a GPU, nothing is executed during the capture: launches are kept with the values of their
parameters, operations of torch with their arguments. Tensors that operations make are there
from the capture on, and filled by each replay.
"""

# torch has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from schedgen.emulator.launch.diversion import set_attribute

_aten = torch.ops.aten
_EMPTY = ("aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty")
"""Operations that leave memory as it is."""
_current: list[CudaGraph] = []
"""The graph that is being captured, if one is."""


class CudaGraph:
    """`torch.cuda.CUDAGraph` without a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        del keep_graph
        self._steps: list[Callable[[], object]] = []

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """Begins to keep what the program does.

        Raises:
            RuntimeError: a graph is being captured already.
        """
        if _current:
            raise RuntimeError("a CUDA graph is being captured already")
        self._steps.clear()
        _current.append(self)

    def capture_end(self) -> None:
        """Ends it."""
        _current.clear()

    def add(self, step: Callable[[], object]) -> None:
        """Keeps something for replays."""
        self._steps.append(step)

    def replay(self) -> None:
        """Does all that was kept, in order."""
        for step in self._steps:
            step()

    def reset(self) -> None:
        """Forgets it."""
        self._steps.clear()

    def pool(self) -> tuple[int, int]:
        """The handle of its memory, which is that of everybody here."""
        return 0, 0

    def instantiate(self) -> None: ...
    def enable_debug_mode(self) -> None: ...
    def debug_dump(self, debug_path: str) -> None: ...


def capturing() -> CudaGraph | None:
    """The graph that is being captured, if one is."""
    return _current[-1] if _current else None


def operation(func: Any, args: Any, kwargs: dict[str, Any], place: Callable[[Any], Any]) -> Any:
    """The result of an operation on plain tensors, which is kept if a graph is being captured.

    ``place`` puts a tensor where it will stay, to be filled by replays.

    Raises:
        RuntimeError: the program reads an element while a graph is being captured.
    """
    graph = capturing()
    if graph is None:
        return func(*args, **kwargs)
    if func is _aten._local_scalar_dense.default:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
    if func._schema.is_mutable:
        written = _written(func, args, kwargs)
        before = [one.clone() for one in written]
        result = func(*args, **kwargs)
        if torch.Tag.inplace_view in func.tags:  # only what the tensor is called changes
            return result
        for one, old in zip(written, before, strict=True):
            if one.shape == old.shape:
                one.copy_(old)
        graph.add(lambda: func(*args, **kwargs))
        return result
    result = func(*args, **kwargs)
    if any(one.alias_info is not None for one in func._schema.returns):
        return result  # a view
    result = tree_map_only(torch.Tensor, place, result)
    if func._schema.name not in _EMPTY:
        graph.add(lambda: _again(func, args, kwargs, result))
    return result


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments that an operation writes."""
    found: list[torch.Tensor] = []
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            found += [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
    return found


def _again(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
    for old, new in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
        if isinstance(old, torch.Tensor):
            old.copy_(new)


@contextmanager
def _graph(cuda_graph: CudaGraph, *_: Any, **__: Any) -> Generator[None]:
    """`torch.cuda.graph`: captures what is done inside."""
    cuda_graph.capture_begin()
    try:
        yield
    finally:
        cuda_graph.capture_end()


def divert_graphs(stack: ExitStack) -> None:
    """Make CUDA graphs of torch work."""
    stack.callback(_current.clear)
    for module in (torch.cuda, torch.cuda.graphs):
        for name, value in {
            "CUDAGraph": CudaGraph, "graph": _graph, "graph_pool_handle": lambda: (0, 0),
            "is_current_stream_capturing": lambda: capturing() is not None,
        }.items():  # fmt: skip
            set_attribute(stack, module, name, value)
