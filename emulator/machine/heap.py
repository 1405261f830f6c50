"""The garbage collector while launches are executed."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_GARBAGE = 200_000
"""Objects that may become garbage before the collector looks."""


@contextmanager
def settled_heap() -> Generator[None]:
    """Lets the garbage collector pass over what was there before: torch, the DSL and a parsed
    kernel are some million objects, and a launch makes enough for it to go through them often.
    Hardly any of what a launch makes is garbage before it ends: it looks for some more rarely.

    It looks when this ends. Around all of what is done for a launch it finds little then: most is
    gone by itself. May be nested.
    """
    if _inside:  # counting what is frozen takes longer than a small launch
        yield
        return
    thresholds = gc.get_threshold()
    frozen = gc.get_freeze_count()  # the program does so itself
    if not frozen:
        gc.freeze()
    if thresholds[0]:
        gc.set_threshold(max(thresholds[0], _GARBAGE), *thresholds[1:])
    _inside.append(True)
    try:
        yield
    finally:
        _inside.pop()
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


_inside: list[bool] = []
"""Not empty: a launch is being executed."""
