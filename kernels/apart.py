"""Memory that stays, whatever the running thread is about."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


def apart(make: Callable[[], _T]) -> _T:
    """What ``make`` returns or raises, in a thread of its own.

    For tensors that stay. ``torch.compile(mode="reduce-overhead")`` runs a function once to warm up
    and gives it memory that its CUDA graph will use again; it objects to tensors there that outlive
    the run. That memory is for allocations of the running thread.
    """
    with ThreadPoolExecutor(1) as other:
        return other.submit(make).result()
