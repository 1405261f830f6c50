"""Stores of several warps to one memory: were the elements there already?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from schedgen.emulator.native import engine as objects
from schedgen.emulator.native.engine import Engine, engine, python

Exchange = Callable[[Any, Any, Any, int], int | None]


def _by_numpy(view: Any, index: Any, values: Any, parts: int) -> int | None:
    """Nothing is done."""
    return None


def exchange() -> Exchange:
    """What puts ``values`` where an ``index`` says into a ``view`` of elements, each in one place.
    It takes them as so many ``parts`` and returns a bit for each: whether all of it was there
    before. None: nothing was done, as arrays are not in a row or of other types."""
    made = engine()
    return _by_numpy if made is None else made.builtin("exchange", _address(made), None)


@cache
def _address(made: Engine) -> int:
    constants = {
        "DATA": objects.DATA, "SIZES": objects.SIZES, "STRIDES": objects.STRIDES,
        "FLAGS": objects.FLAGS, "RANK": objects.RANK,
    }  # fmt: skip
    addresses = {
        "NONE": id(None), "@increase": python("Py_IncRef"),
        "@made": python("PyLong_FromUnsignedLong"), "@number": python("PyLong_AsLong"),
    }  # fmt: skip
    text = _TEXT + _COUNT
    for size, name in ((1, "i8"), (2, "i16"), (4, "i32"), (8, "i64")):
        text += _PUT.replace("SIZE", str(size)).replace("INT", name)
    for word, value in constants.items():
        text = text.replace(word, str(value))
    return made.compiled(text, ("exchange",), addresses)["exchange"]


_COUNT = """
define internal i64 @count(ptr %array) {
  %flags.at = getelementptr i8, ptr %array, i64 FLAGS
  %flags = load i32, ptr %flags.at
  %bit = and i32 %flags, 1
  %row = icmp ne i32 %bit, 0
  br i1 %row, label %start, label %no
start:
  %rank.at = getelementptr i8, ptr %array, i64 RANK
  %rank.short = load i32, ptr %rank.at
  %rank = zext i32 %rank.short to i64
  %sizes.at = getelementptr i8, ptr %array, i64 SIZES
  %sizes = load ptr, ptr %sizes.at
  br label %loop
loop:
  %k = phi i64 [0, %start], [%k.next, %more]
  %product = phi i64 [1, %start], [%product.next, %more]
  %go = icmp ult i64 %k, %rank
  br i1 %go, label %more, label %done
more:
  %size.at = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %size.at
  %product.next = mul i64 %product, %size
  %k.next = add i64 %k, 1
  br label %loop
done:
  ret i64 %product
no:
  ret i64 -1
}
define internal i64 @width(ptr %array) {
  %rank.at = getelementptr i8, ptr %array, i64 RANK
  %rank.short = load i32, ptr %rank.at
  %rank = zext i32 %rank.short to i64
  %last = sub i64 %rank, 1
  %strides.at = getelementptr i8, ptr %array, i64 STRIDES
  %strides = load ptr, ptr %strides.at
  %stride.at = getelementptr i64, ptr %strides, i64 %last
  %stride = load i64, ptr %stride.at
  ret i64 %stride
}
"""
_PUT = """
define internal i64 @putSIZE(ptr %view, ptr %index, ptr %values, i64 %count, i64 %size,
                             i64 %part) {
  br label %check
check:  ; inside, and the same as before?
  %i = phi i64 [0, %0], [%i.next, %checked]
  %bits = phi i64 [-1, %0], [%bits.next, %checked]
  %at = getelementptr i64, ptr %index, i64 %i
  %place = load i64, ptr %at
  %inside = icmp ult i64 %place, %size
  br i1 %inside, label %checked, label %no
checked:
  %there = getelementptr INT, ptr %view, i64 %place
  %before = load INT, ptr %there, align 1
  %value.at = getelementptr INT, ptr %values, i64 %i
  %value = load INT, ptr %value.at, align 1
  %differs = icmp ne INT %before, %value
  %number = udiv i64 %i, %part
  %differ = zext i1 %differs to i64
  %bit = shl i64 %differ, %number
  %kept = xor i64 %bit, -1
  %bits.next = and i64 %bits, %kept
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %count
  br i1 %i.more, label %check, label %put
put:
  %j = phi i64 [0, %checked], [%j.next, %put]
  %to.at = getelementptr i64, ptr %index, i64 %j
  %to = load i64, ptr %to.at
  %target = getelementptr INT, ptr %view, i64 %to
  %from = getelementptr INT, ptr %values, i64 %j
  %new = load INT, ptr %from, align 1
  store INT %new, ptr %target, align 1
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %count
  br i1 %j.more, label %put, label %done
done:
  %all = and i64 %bits.next, 4294967295
  ret i64 %all
no:
  ret i64 -1
}
"""
_TEXT = """
define ptr @exchange(ptr %self, ptr %arguments, i64 %argc) {
  %view = load ptr, ptr %arguments
  %index.at = getelementptr ptr, ptr %arguments, i64 1
  %index = load ptr, ptr %index.at
  %values.at = getelementptr ptr, ptr %arguments, i64 2
  %values = load ptr, ptr %values.at
  %parts.at = getelementptr ptr, ptr %arguments, i64 3
  %parts.object = load ptr, ptr %parts.at
  %parts = call i64 @number(ptr %parts.object)
  %size = call i64 @count(ptr %view)
  %count = call i64 @count(ptr %index)
  %given = call i64 @count(ptr %values)
  %matches = icmp eq i64 %count, %given
  %some = icmp sgt i64 %count, 0
  %row = icmp sgt i64 %size, 0
  %few = icmp ult i64 %parts, 33
  %a = and i1 %matches, %some
  %b = and i1 %row, %few
  %right = and i1 %a, %b
  br i1 %right, label %types, label %none
types:
  %wide = call i64 @width(ptr %index)
  %w.view = call i64 @width(ptr %view)
  %w.values = call i64 @width(ptr %values)
  %long = icmp eq i64 %wide, 8
  %same = icmp eq i64 %w.view, %w.values
  %fit = and i1 %long, %same
  br i1 %fit, label %start, label %none
start:
  %part = udiv i64 %count, %parts
  %view.data.at = getelementptr i8, ptr %view, i64 DATA
  %view.data = load ptr, ptr %view.data.at
  %index.data.at = getelementptr i8, ptr %index, i64 DATA
  %index.data = load ptr, ptr %index.data.at
  %values.data.at = getelementptr i8, ptr %values, i64 DATA
  %values.data = load ptr, ptr %values.data.at
  switch i64 %w.view, label %none [
    i64 1, label %one
    i64 2, label %two
    i64 4, label %four
    i64 8, label %eight
  ]
one:
  %bits1 = call i64 @put1(ptr %view.data, ptr %index.data, ptr %values.data, i64 %count,
                          i64 %size, i64 %part)
  br label %put
two:
  %bits2 = call i64 @put2(ptr %view.data, ptr %index.data, ptr %values.data, i64 %count,
                          i64 %size, i64 %part)
  br label %put
four:
  %bits4 = call i64 @put4(ptr %view.data, ptr %index.data, ptr %values.data, i64 %count,
                          i64 %size, i64 %part)
  br label %put
eight:
  %bits8 = call i64 @put8(ptr %view.data, ptr %index.data, ptr %values.data, i64 %count,
                          i64 %size, i64 %part)
  br label %put
put:
  %bits = phi i64 [%bits1, %one], [%bits2, %two], [%bits4, %four], [%bits8, %eight]
  %failed = icmp slt i64 %bits, 0
  br i1 %failed, label %none, label %done
done:
  %result = call ptr @made(i64 %bits)
  ret ptr %result
none:
  %nothing = inttoptr i64 NONE to ptr
  call void @increase(ptr %nothing)
  ret ptr %nothing
}
"""
