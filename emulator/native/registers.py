"""Comparing registers of a warp with what they were, and lanes with each other."""

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


Snapshot = Callable[[list[Any], list[Any]], object]
"""Takes a list of registers, and one of what they were. Brings the second up to date."""


@cache
def snapshot(slots: tuple[int, ...]) -> Snapshot:
    """Puts some registers into the second list, at their places."""
    made = engine()
    if made is not None:
        return made.builtin("noted", _addresses(made)["noted"], np.array(slots, np.int64))

    def noted(now: list[Any], before: list[Any]) -> None:
        for slot in slots:
            before[slot] = now[slot]

    return noted


@cache
def held(slots: tuple[int, ...]) -> Same:
    """Whether registers in the first list are the items of the second, in their order."""
    made = engine()
    if made is not None:
        return made.builtin("held", _addresses(made)["held"], np.array(slots, np.int64))

    def compared(now: list[Any], items: Sequence[Any]) -> bool:
        return all(map(is_, [now[slot] for slot in slots], items))

    return compared


Value = Callable[..., Any]


def alike(*every: Any) -> Any:
    """The value that all lanes of some arrays have; None where they differ."""
    if any(type(lanes) is not np.ndarray for lanes in every):
        return NotImplemented
    first = every[0]
    if any(lanes.dtype != first.dtype for lanes in every):
        return NotImplemented
    bits = b"".join([lanes.tobytes() for lanes in every])
    return first.item(0) if bits == bits[: first.itemsize] * (len(bits) // first.itemsize) else None


def value_of() -> Value:
    """What gives the value that all lanes of one or more arrays have: None where they differ,
    `NotImplemented` where it has not looked at them, of promises for one."""
    made = engine()
    return alike if made is None else made.builtin("alike", _alike_address(made), None)


@cache
def _alike_address(made: Engine) -> int:
    types = [np.dtype(one) for one in (np.bool_, np.uint32, np.uint64)]
    constants = {
        "DATA": objects.DATA, "SIZES": objects.SIZES, "TYPE": objects.TYPE,
        "FLAGS": objects.FLAGS, "RANK": objects.RANK, "DESCRIPTION": objects.DESCRIPTION,
    }  # fmt: skip
    addresses = {
        "ARRAY": id(np.ndarray), "NONE": id(None), "NOT": id(NotImplemented),
        "BOOL": id(types[0]), "WORD": id(types[1]), "WIDE": id(types[2]),
        "@increase": python("Py_IncRef"), "@made": python("PyLong_FromUnsignedLong"),
    }  # fmt: skip
    text = _ALIKE
    for size, name in ((1, "i8"), (4, "i32"), (8, "i64")):
        text += _EQUAL.replace("SIZE", str(size)).replace("INT", name)
    for word, value in constants.items():
        text = text.replace(word, str(value))
    return made.compiled(text, ("alike",), addresses)["alike"]


_EQUAL = """
define internal i1 @equalSIZE(ptr %data, INT %first) {
  %one = insertelement <32 x INT> poison, INT %first, i32 0
  %all = shufflevector <32 x INT> %one, <32 x INT> poison, <32 x i32> zeroinitializer
  %lanes = load <32 x INT>, ptr %data, align 1
  %same = icmp eq <32 x INT> %lanes, %all
  %bits = bitcast <32 x i1> %same to i32
  %every = icmp eq i32 %bits, -1
  ret i1 %every
}
"""
_ALIKE = """
define ptr @alike(ptr %self, ptr %arguments, i64 %count) {
  %one = load ptr, ptr %arguments
  %kind.at = getelementptr i8, ptr %one, i64 DESCRIPTION
  br label %check
check:
  %k = phi i64 [0, %0], [%k.next, %fits]
  %array.at = getelementptr ptr, ptr %arguments, i64 %k
  %array = load ptr, ptr %array.at
  %type.at = getelementptr i8, ptr %array, i64 TYPE
  %type = load i64, ptr %type.at
  %is = icmp eq i64 %type, ARRAY
  br i1 %is, label %look, label %other
look:
  %kind = load i64, ptr %kind.at
  %mine.at = getelementptr i8, ptr %array, i64 DESCRIPTION
  %mine = load i64, ptr %mine.at
  %same = icmp eq i64 %mine, %kind
  %rank.at = getelementptr i8, ptr %array, i64 RANK
  %rank = load i32, ptr %rank.at
  %flat = icmp eq i32 %rank, 1
  %flags.at = getelementptr i8, ptr %array, i64 FLAGS
  %flags = load i32, ptr %flags.at
  %bit = and i32 %flags, 1
  %row = icmp ne i32 %bit, 0
  %both = and i1 %same, %flat
  %good = and i1 %both, %row
  br i1 %good, label %size, label %other
size:
  %sizes.at = getelementptr i8, ptr %array, i64 SIZES
  %sizes = load ptr, ptr %sizes.at
  %lanes = load i64, ptr %sizes
  %whole = icmp eq i64 %lanes, 32
  br i1 %whole, label %fits, label %other
fits:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %check, label %compare
compare:
  %first.at = getelementptr i8, ptr %one, i64 DATA
  %first = load ptr, ptr %first.at
  %is.bool = icmp eq i64 %kind, BOOL
  %is.word = icmp eq i64 %kind, WORD
  %is.wide = icmp eq i64 %kind, WIDE
  br i1 %is.bool, label %bool, label %no.bool
no.bool:
  br i1 %is.word, label %word, label %no.word
no.word:
  br i1 %is.wide, label %wide, label %other
bool:
  %b.value = load i8, ptr %first
  %b.long = zext i8 %b.value to i64
  br label %loop
word:
  %w.value = load i32, ptr %first
  %w.long = zext i32 %w.value to i64
  br label %loop
wide:
  %d.value = load i64, ptr %first
  br label %loop
loop:
  %value = phi i64 [%b.long, %bool], [%w.long, %word], [%d.value, %wide], [%value, %next]
  %n = phi i64 [0, %bool], [0, %word], [0, %wide], [%n.next, %next]
  %a.at = getelementptr ptr, ptr %arguments, i64 %n
  %a = load ptr, ptr %a.at
  %data.at = getelementptr i8, ptr %a, i64 DATA
  %data = load ptr, ptr %data.at
  br i1 %is.bool, label %bools, label %no.bools
no.bools:
  br i1 %is.word, label %words, label %wides
bools:
  %b = trunc i64 %value to i8
  %b.same = call i1 @equal1(ptr %data, i8 %b)
  br i1 %b.same, label %next, label %differ
words:
  %w = trunc i64 %value to i32
  %w.same = call i1 @equal4(ptr %data, i32 %w)
  br i1 %w.same, label %next, label %differ
wides:
  %d.same = call i1 @equal8(ptr %data, i64 %value)
  br i1 %d.same, label %next, label %differ
next:
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, %count
  br i1 %n.more, label %loop, label %done
done:
  %made = call ptr @made(i64 %value)
  ret ptr %made
differ:
  %none = inttoptr i64 NONE to ptr
  call void @increase(ptr %none)
  ret ptr %none
other:
  %not = inttoptr i64 NOT to ptr
  call void @increase(ptr %not)
  ret ptr %not
}
"""


@cache
def _addresses(made: Engine) -> dict[str, int]:
    constants = {
        "DATA": objects.DATA, "SIZES": objects.SIZES, "LIST": objects.LIST_ITEMS,
        "TYPE": objects.TYPE,
    }  # fmt: skip
    addresses = {
        "ARRAY": id(np.ndarray), "TRUE": id(True), "FALSE": id(False),
        "@increase": python("Py_IncRef"), "@decrease": python("Py_DecRef"),
    }  # fmt: skip
    text = _TEXT.format(name="kept", at="%slot", check=_ARRAYS) + _TEXT.format(
        name="held", at="%k", check="br label %next"
    )
    note = _TEXT.format(name="noted", at="%slot", check="br label %next")
    text += note.replace("label %check, label %no\n", f"label %next, label %put\n{_PUT}")
    for word, value in constants.items():
        text = text.replace(word, str(value))
    return made.compiled(text, ("kept", "held", "noted"), addresses)


_ARRAYS = """%type.at = getelementptr i8, ptr %a, i64 TYPE
  %type = load i64, ptr %type.at
  %array = icmp eq i64 %type, ARRAY
  br i1 %array, label %next, label %no"""
_PUT = """put:
  call void @increase(ptr %a)
  store ptr %a, ptr %b.at
  call void @decrease(ptr %b)
  br label %next
"""
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
