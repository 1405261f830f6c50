"""Independent work side by side on a GPU: a fork and a join of streams.

A persistent kernel has one CTA for each output tile, or one for each SM if there are more tiles
than SMs: tiles that do not fill the last wave leave SMs without work. CTAs of a second kernel that
does not depend on the first fill them. In a CUDA graph, which is captured from streams, the two are
nodes without an edge between them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

_T = TypeVar("_T")


class _Here(threading.local):
    allowed = True


_here = _Here()


def allowed() -> bool:
    """Whether work may go side by side in this thread: not within `in_order`."""
    return _here.allowed


@contextmanager
def in_order() -> Generator[None]:
    """Within it this thread launches nothing side by side, to measure what that is worth."""
    before, _here.allowed = _here.allowed, False
    try:
        yield
    finally:
        _here.allowed = before


def together(
    device: torch.device, first: Callable[[], _T], second: Callable[[], Tensor]
) -> tuple[_T, Tensor]:
    """The results of two calls of which neither needs the other.

    On a GPU ``second`` launches its kernels on another stream, which waits for what the current one
    was given before; the current one then waits for both. Elsewhere, and while torch compiles, they
    run one after the other. Also if a call raises, the streams are joined: a capture would not end
    otherwise.

    Args:
        device: where both compute.
        first: its kernels are launched first, on the current stream: the longer way.
        second: returns one tensor. What it reads must be held by itself, as arguments of a
            ``partial`` are: memory that is given back before the join could be overwritten.

    Raises:
        Whatever a call raises; ``second`` is not called if ``first`` does.
    """
    if device.type != "cuda" or torch.compiler.is_compiling():
        return first(), second()
    here = torch.cuda.current_stream(device)
    beside = _beside(device, here.cuda_stream)
    beside.wait_stream(here)
    try:
        one = first()
        with torch.cuda.stream(beside):
            other = second()
    finally:
        here.wait_stream(beside)
    # Its memory belongs to the other stream, which must not reuse it before this one has read it.
    other.record_stream(here)
    return one, other


@lru_cache(64)
def _beside(device: torch.device, stream: int) -> torch.cuda.Stream:
    """The other stream of a stream. Each has its own, so that threads do not meet in one, whose
    work one of them may be capturing.
    """
    del stream
    return torch.cuda.Stream(device)
