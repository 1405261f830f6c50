"""Through which calls an operation of a kernel was traced: PTX has its innermost line only.

CuTe DSL runs helpers while it traces a kernel and keeps one place per operation, that of the
innermost line that is the user's. The column of that place comes through the compiler unchanged and
means nothing to anybody here, so it carries the number of a stack that is remembered in this
process.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, update_wrapper
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.launch.dsl import Dsl
from schedgen.emulator.ptx.tree import Location

Stack = tuple[tuple[str, int], ...]
"""File and line of each frame, innermost first."""
_FIRST = 1 << 10
"""Smaller ones are columns, of PTX that was compiled before."""
_LAST = (1 << 16) - 1
"""The largest column that LLVM keeps."""
_KERNEL = "kernel_wrapper"
"""The DSL's function that calls a kernel's: what called that is no part of the kernel."""
_BLOCK = re.compile(r"\.<locals>\.\w+_\d+$")
"""Functions that the DSL makes of the bodies of loops and branches."""

_numbers: dict[Stack, int] = {}
_stacks: list[Stack] = []


def callers_of(place: Location) -> tuple[Location, ...]:
    """The calls through which an operation at a place was traced, innermost first."""
    at = place.column - _FIRST
    if not 0 <= at < len(_stacks):
        return ()
    file, line = _stacks[at][0]
    if line != place.line or Path(file).name != Path(place.file).name:
        return ()  # compiled elsewhere: it is a column after all
    return tuple(Location(*frame) for frame in _stacks[at][1:])


def number_of(stack: Stack) -> int:
    """The column for operations that were traced through these frames; 0 if there are too many."""
    known = _numbers.get(stack)
    if known is None:
        known = _FIRST + len(_stacks)
        if known > _LAST:
            return 0
        _stacks.append(stack)
        _numbers[stack] = known
    return known


def note_stacks(stack: ExitStack, dsl: Dsl) -> None:
    """Make the DSL give operations the number of their stack in place of a column."""
    places: Any = dsl.places

    def locate(info: Any) -> Any:
        asked = inspect.currentframe()
        start = None if asked is None else places._find_user_frame(asked.f_back)
        found = _frames(start, inside)
        if not found or found[0][1] != info.lineno:
            return plain(info)
        place = dsl.location.file(info.filename, info.lineno, number_of(found))
        return dsl.location.name(info.function, childLoc=place)

    def inside(frame: FrameType) -> bool:
        """Whether a frame is the DSL's own."""
        if (known := own.get(frame.f_code)) is None:
            known = own[frame.f_code] = bool(places._is_framework_stack_frame(frame))
        return known

    own: dict[CodeType, bool] = {}
    plain: Any = places._get_location_from_frame_info
    # As what wraps the DSL's function: quack hashes functions with all that they refer to.
    standin = update_wrapper(partial(locate), plain)
    set_attribute(stack, places, "_get_location_from_frame_info", standin)


def _frames(frame: FrameType | None, inside: Callable[[FrameType], bool]) -> Stack:
    """Frames of the user's code up to the kernel; of a function that the DSL has cut into blocks
    the innermost one."""
    found: list[tuple[str, int]] = []
    block = ""
    while frame is not None:
        code = frame.f_code
        if inside(frame):
            if code.co_name == _KERNEL:
                return tuple(found)
        elif not block.startswith(f"{code.co_qualname}.<locals>."):
            found.append((code.co_filename, frame.f_lineno))
            block = code.co_qualname if _BLOCK.search(code.co_qualname) else ""
        frame = frame.f_back
    return ()  # of no kernel: code of the host
