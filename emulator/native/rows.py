"""Numbers of accesses in parts of a shadow: which there are, and writing one to all.

Places (`order.places`) are rows of so many entries each, at equal distances or as an index says.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.native import engine as objects
from schedgen.emulator.native.engine import Builtin, Engine, engine, python


class Rows(NamedTuple):
    """``found(numbers)`` has the different numbers, ascending; None if these are many, or some
    entries are outside. ``put(numbers, number)``
    writes one to all, and returns False if some are outside. ``numbers`` are int32 in a row."""

    found: Builtin
    put: Builtin
    kept: object
    """What they have the address of."""


def rows(first: int, count: int, distance: int, width: int) -> Rows | None:
    """``count`` rows of ``width`` entries, the first ones ``distance`` apart; None: not native."""
    return _bound(first, count, distance, width, None)


def listed(index: NDArray[np.int64], width: int) -> Rows | None:
    """Rows of ``width`` entries, aligned; ``index`` has their numbers."""
    if index.dtype != np.int64 or not index.flags.c_contiguous:
        return None
    if not index.size:
        return None
    end = (int(index.max()) + 1) * width
    size = -(-(end - int(index.min()) * width) // _EIGHT) * _EIGHT
    if width % _EIGHT and size <= end and size <= _SPARSE * width * index.size:
        return _masked(index, width, end - size, size)
    return _bound(0, index.size, 0, width, index)


def _bound(
    first: int, count: int, distance: int, width: int, index: NDArray[np.int64] | None
) -> Rows | None:
    made = engine()
    if made is None or not count or not width:
        return None
    address = 0 if index is None else index.ctypes.data
    last = first + (count - 1) * distance if index is None else int(index.max()) * width
    words = np.array([first, count, distance, width, address, last + width], np.int64)
    return _of(made, ("found", "put"), words, index)


def _masked(index: NDArray[np.int64], width: int, first: int, size: int) -> Rows | None:
    """One row, of which some entries count: eight are looked at in the time of one."""
    made = engine()
    if made is None:
        return None
    mask = np.zeros(size, np.int32)
    mask[(index[:, None] * width + (np.arange(width) - first)).ravel()] = 1
    inside = int(index[0]) * width
    row = [first, 1, 0, size, 0, first + size, mask.ctypes.data, inside]
    return _of(made, ("found_masked", "put_masked"), np.array(row, np.int64), mask)


def _of(made: Engine, names: tuple[str, str], words: NDArray[np.int64], kept: object) -> Rows:
    found, put = (made.builtin(name, _addresses(made)[name], words) for name in names)
    return Rows(found, put, kept)


@cache
def _addresses(made: Engine) -> dict[str, int]:
    names = ("found", "put", "found_masked", "put_masked")
    addresses = {
        "NONE": id(None), "FALSE": id(False), "@increase": python("Py_IncRef"),
        "@made": python("PyLong_FromLong"), "@number": python("PyLong_AsLong"),
        "@list": python("PyList_New"),
    }  # fmt: skip
    return made.compiled(_module(), names, addresses)


_EIGHT = 8
"""Entries that are looked at together."""
_SPARSE = 8
"""Entries for each one that counts up to which all are looked at."""


_ROWS = """
  %self.data = getelementptr i8, ptr %self, i64 DATA
  %words = load ptr, ptr %self.data
  %first = load i64, ptr %words
  %count.at = getelementptr i64, ptr %words, i64 1
  %rows = load i64, ptr %count.at
  %distance.at = getelementptr i64, ptr %words, i64 2
  %distance = load i64, ptr %distance.at
  %width.at = getelementptr i64, ptr %words, i64 3
  %width = load i64, ptr %width.at
  %index.at = getelementptr i64, ptr %words, i64 4
  %index = load ptr, ptr %index.at
  %listed = icmp ne ptr %index, null
  %array = load ptr, ptr %arguments
  %array.data = getelementptr i8, ptr %array, i64 DATA
  %numbers = load ptr, ptr %array.data
  %whole = and i64 %width, -8
  %end.at = getelementptr i64, ptr %words, i64 5
  %end = load i64, ptr %end.at
  %sizes.at = getelementptr i8, ptr %array, i64 SIZES
  %sizes = load ptr, ptr %sizes.at
  %size = load i64, ptr %sizes
  %inside = icmp ule i64 %end, %size
  br i1 %inside, label %start, label %other
start:
  START
  br label %row
row:
  %r = phi i64 [0, %LAST], [%r.next, %row.end]
  br i1 %listed, label %by.index, label %by.distance
by.index:
  %entry = getelementptr i64, ptr %index, i64 %r
  %number = load i64, ptr %entry
  %listed.at = mul i64 %number, %width
  br label %begin
by.distance:
  %steps = mul i64 %r, %distance
  %row.at = add i64 %first, %steps
  br label %begin
begin:
  %at = phi i64 [%listed.at, %by.index], [%row.at, %by.distance]
  %entries = getelementptr i32, ptr %numbers, i64 %at
  br label %eight
eight:
  %e = phi i64 [0, %begin], [%e.next, %eight.next]
  %e.more = icmp ult i64 %e, %whole
  br i1 %e.more, label %eight.do, label %one
eight.do:
  %e.at = getelementptr i32, ptr %entries, i64 %e
  EIGHT
eight.next:
  %e.next = add i64 %e, 8
  br label %eight
one:
  %o = phi i64 [%whole, %eight], [%o.next, %one.next]
  %o.more = icmp ult i64 %o, %width
  br i1 %o.more, label %one.do, label %row.end
one.do:
  %o.at = getelementptr i32, ptr %entries, i64 %o
  ONE
one.next:
  %o.next = add i64 %o, 1
  br label %one
row.end:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %rows
  br i1 %r.more, label %row, label %done
"""
_FOUND = {
    "START": """%known = alloca [LIMIT x i32]
  %n = alloca i64
  store i64 0, ptr %n
  %last = alloca i32
  br i1 %listed, label %first.index, label %first.row
first.index:
  %zero.number = load i64, ptr %index
  %zero.listed = mul i64 %zero.number, %width
  br label %first.found
first.row:
  br label %first.found
first.found:
  %zero = phi i64 [%zero.listed, %first.index], [%first, %first.row]
  %zero.at = getelementptr i32, ptr %numbers, i64 %zero
  %wanted = load i32, ptr %zero.at
  store i32 %wanted, ptr %last
  store i32 %wanted, ptr %known
  store i64 1, ptr %n""",
    "LAST": "first.found",
    "EIGHT": """%e.value = load <8 x i32>, ptr %e.at, align 4
  %before = load i32, ptr %last
  %one.lane = insertelement <8 x i32> poison, i32 %before, i32 0
  %all = shufflevector <8 x i32> %one.lane, <8 x i32> poison, <8 x i32> zeroinitializer
  %e.differ = xor <8 x i32> %e.value, %all
  %e.bits = bitcast <8 x i32> %e.differ to i256
  %e.same = icmp eq i256 %e.bits, 0
  br i1 %e.same, label %eight.next, label %each
each:
  %x = phi i64 [0, %eight.do], [%x.next, %each.next]
  %x.at = getelementptr i32, ptr %e.at, i64 %x
  %x.ok = call i1 @note(ptr %x.at, ptr %known, ptr %n, ptr %last)
  br i1 %x.ok, label %each.next, label %other
each.next:
  %x.next = add i64 %x, 1
  %x.more = icmp ult i64 %x.next, 8
  br i1 %x.more, label %each, label %eight.next""",
    "ONE": """%o.ok = call i1 @note(ptr %o.at, ptr %known, ptr %n, ptr %last)
  br i1 %o.ok, label %one.next, label %other""",
}
_MASK = """%mask.at = getelementptr i64, ptr %words, i64 6
  %mask = load ptr, ptr %mask.at
  """
_SOME = """%m.at = getelementptr i32, ptr %mask, i64 %e
  %m.value = load <8 x i32>, ptr %m.at, align 4
  %m = icmp ne <8 x i32> %m.value, zeroinitializer
  %raw = load <8 x i32>, ptr %e.at, align 4
  """


def _found_masked() -> dict[str, str]:
    """What does not count is taken for the number before it, which is known."""
    inside = """br label %first.found
first.found:
  %zero.word = getelementptr i64, ptr %words, i64 7
  %zero = load i64, ptr %zero.word
"""
    start, eight = _FOUND["START"], _FOUND["EIGHT"]
    begin, end = start.index("br i1 %listed"), start.index("  %zero.at")
    eight = eight.replace("%e.value = load <8 x i32>, ptr %e.at, align 4\n", "")
    eight = eight.replace(
        "  %e.differ",
        "  %e.value = select <8 x i1> %m, <8 x i32> %raw, <8 x i32> %all\n  %e.differ",
    )
    eight = eight.replace("each:\n", "each.first:\n  store <8 x i32> %e.value, ptr %temporary\n"
                          "  br label %each\neach:\n")  # fmt: skip
    eight = eight.replace("label %each\neach.first", "label %each.first\neach.first")
    eight = eight.replace("[0, %eight.do]", "[0, %each.first]").replace(
        "ptr %e.at, i64 %x", "ptr %temporary, i64 %x"
    )
    return {
        "START": _MASK + "%temporary = alloca <8 x i32>\n  " + start[:begin] + inside + start[end:],
        "LAST": _FOUND["LAST"],
        "EIGHT": _SOME + eight,
        "ONE": _FOUND["ONE"],
    }


_NOTE = """
define internal i1 @note(ptr %at, ptr %known, ptr %n, ptr %last) {
  %value = load i32, ptr %at
  %before = load i32, ptr %last
  %same = icmp eq i32 %value, %before
  br i1 %same, label %yes, label %look
look:
  store i32 %value, ptr %last
  %count = load i64, ptr %n
  br label %search
search:  ; ascending: how many are less?
  %k = phi i64 [0, %look], [%k.next, %less]
  %k.more = icmp ult i64 %k, %count
  br i1 %k.more, label %compare, label %insert
compare:
  %k.at = getelementptr i32, ptr %known, i64 %k
  %k.value = load i32, ptr %k.at
  %k.same = icmp eq i32 %k.value, %value
  br i1 %k.same, label %yes, label %order
order:
  %k.less = icmp slt i32 %k.value, %value
  br i1 %k.less, label %less, label %insert
less:
  %k.next = add i64 %k, 1
  br label %search
insert:
  %full = icmp uge i64 %count, LIMIT
  br i1 %full, label %no, label %shift
shift:
  %j = phi i64 [%count, %insert], [%j.less, %move]
  %j.more = icmp ugt i64 %j, %k
  br i1 %j.more, label %move, label %put
move:
  %j.less = sub i64 %j, 1
  %from = getelementptr i32, ptr %known, i64 %j.less
  %to = getelementptr i32, ptr %known, i64 %j
  %moved = load i32, ptr %from
  store i32 %moved, ptr %to
  br label %shift
put:
  %here = getelementptr i32, ptr %known, i64 %k
  store i32 %value, ptr %here
  %more = add i64 %count, 1
  store i64 %more, ptr %n
  br label %yes
yes:
  ret i1 1
no:
  ret i1 0
}
"""
_LIST = """done:
  %total = load i64, ptr %n
  %list = call ptr @list(i64 %total)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %fail, label %fill
fail:
  ret ptr null
fill:
  %f = phi i64 [0, %done], [%f.next, %fill.put]
  %f.at = getelementptr i32, ptr %known, i64 %f
  %f.value = load i32, ptr %f.at
  %f.long = sext i32 %f.value to i64
  %f.object = call ptr @made(i64 %f.long)
  %f.bad = icmp eq ptr %f.object, null
  br i1 %f.bad, label %fail, label %fill.put
fill.put:
  %items.at = getelementptr i8, ptr %list, i64 ITEMS
  %items = load ptr, ptr %items.at
  %f.slot = getelementptr ptr, ptr %items, i64 %f
  store ptr %f.object, ptr %f.slot
  %f.next = add i64 %f, 1
  %f.more = icmp ult i64 %f.next, %total
  br i1 %f.more, label %fill, label %filled
filled:
  ret ptr %list
other:
"""
_LIMIT = 64
"""Different numbers up to which they are looked for."""
_PUT = {
    "START": """%value.at = getelementptr ptr, ptr %arguments, i64 1
  %value = load ptr, ptr %value.at
  %long = call i64 @number(ptr %value)
  %wanted = trunc i64 %long to i32
  %one.lane = insertelement <8 x i32> poison, i32 %wanted, i32 0
  %all = shufflevector <8 x i32> %one.lane, <8 x i32> poison, <8 x i32> zeroinitializer""",
    "LAST": "start",
    "EIGHT": """store <8 x i32> %all, ptr %e.at, align 4
  br label %eight.next""",
    "ONE": """store i32 %wanted, ptr %o.at
  br label %one.next""",
}
_PUT_MASKED = {
    **_PUT,
    "START": _MASK + _PUT["START"],
    "EIGHT": _SOME
    + """%new = select <8 x i1> %m, <8 x i32> %all, <8 x i32> %raw
  store <8 x i32> %new, ptr %e.at, align 4
  br label %eight.next""",
}
_NONE = """  %none = inttoptr i64 NONE to ptr
  call void @increase(ptr %none)
  ret ptr %none
"""


def _module() -> str:
    head = "define ptr @{}(ptr %self, ptr %arguments, i64 %argc) {{"
    text = _NOTE
    for name, parts in (("found", _FOUND), ("found_masked", _found_masked())):
        text += head.format(name) + _filled(parts) + _LIST + _NONE + "}\n"
    other = _NONE.replace("%none", "%false").replace("NONE", "FALSE")
    for name, parts in (("put", _PUT), ("put_masked", _PUT_MASKED)):
        text += head.format(name) + _filled(parts) + f"done:\n{_NONE}other:\n{other}}}\n"
    constants = {
        "DATA": objects.DATA, "SIZES": objects.SIZES, "ITEMS": objects.LIST_ITEMS,
        "LIMIT": _LIMIT,
    }  # fmt: skip
    for word, value in constants.items():
        text = text.replace(word, str(value))
    return text


def _filled(parts: dict[str, str]) -> str:
    text = _ROWS
    for word, part in parts.items():
        text = text.replace(word, part)
    return text
