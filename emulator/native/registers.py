"""Comparing registers of a warp with what they were: by identity, as long as nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import is_
from typing import Any

import numpy as np

from schedgen.emulator.native import engine as objects
from schedgen.emulator.native.engine import Engine, engine, python

Same = Callable[[list[Any], list[Any]], bool]
"""Takes two lists. Whether items of the first one are those of the second."""


@cache
def kept(slots: tuple[int, ...]) -> Same:
    """Whether registers are arrays, and the same ones in both lists."""
    made = engine()
    if made is not None:
        return made.builtin("kept", _addresses(made)["kept"], np.array(slots, np.int64))

    def compared(now: list[Any], before: list[Any]) -> bool:
        lanes = [now[slot] for slot in slots]
        same = all(map(is_, lanes, [before[slot] for slot in slots]))
        return same and {*map(type, lanes)} <= {np.ndarray}

    return compared


@cache
def held(slots: tuple[int, ...]) -> Same:
    """Whether registers in the first list are the items of the second, in their order."""
    made = engine()
    if made is not None:
        return made.builtin("held", _addresses(made)["held"], np.array(slots, np.int64))

    def compared(now: list[Any], items: Sequence[Any]) -> bool:
        return all(map(is_, [now[slot] for slot in slots], items))

    return compared


@cache
def _addresses(made: Engine) -> dict[str, int]:
    constants = {
        "DATA": objects.DATA, "SIZES": objects.SIZES, "LIST": objects.LIST_ITEMS,
        "TYPE": objects.TYPE, "ARRAY": id(np.ndarray), "TRUE": id(True), "FALSE": id(False),
        "@increase(": f"inttoptr (i64 {python('Py_IncRef')} to ptr)(",
    }  # fmt: skip
    text = _TEXT.format(name="kept", at="%slot", check=_ARRAYS) + _TEXT.format(
        name="held", at="%k", check="br label %next"
    )
    for word, value in constants.items():
        text = text.replace(word, str(value))
    return made.compiled(text, ("kept", "held"), level=1)


_ARRAYS = """%type.at = getelementptr i8, ptr %a, i64 TYPE
  %type = load i64, ptr %type.at
  %array = icmp eq i64 %type, ARRAY
  br i1 %array, label %next, label %no"""
_TEXT = """
define ptr @{name}(ptr %self, ptr %arguments, i64 %argc) {{
  %data.at = getelementptr i8, ptr %self, i64 DATA
  %slots = load ptr, ptr %data.at
  %sizes.at = getelementptr i8, ptr %self, i64 SIZES
  %sizes = load ptr, ptr %sizes.at
  %count = load i64, ptr %sizes
  %one = load ptr, ptr %arguments
  %one.at = getelementptr i8, ptr %one, i64 LIST
  %first = load ptr, ptr %one.at
  %other.at = getelementptr ptr, ptr %arguments, i64 1
  %other = load ptr, ptr %other.at
  %items.at = getelementptr i8, ptr %other, i64 LIST
  %second = load ptr, ptr %items.at
  br label %loop
loop:
  %k = phi i64 [0, %0], [%k.next, %next]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %compare, label %yes
compare:
  %slot.at = getelementptr i64, ptr %slots, i64 %k
  %slot = load i64, ptr %slot.at
  %a.at = getelementptr ptr, ptr %first, i64 %slot
  %a = load ptr, ptr %a.at
  %b.at = getelementptr ptr, ptr %second, i64 {at}
  %b = load ptr, ptr %b.at
  %same = icmp eq ptr %a, %b
  br i1 %same, label %check, label %no
check:
  {check}
next:
  %k.next = add i64 %k, 1
  br label %loop
yes:
  %true = inttoptr i64 TRUE to ptr
  call void @increase(ptr %true)
  ret ptr %true
no:
  %false = inttoptr i64 FALSE to ptr
  call void @increase(ptr %false)
  ret ptr %false
}}
"""
