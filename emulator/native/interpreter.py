"""Executes runs of elementwise instructions: a loop over calls, as machine code.

A run is an array of int64, `Layout`: which registers it reads and writes, and for each of its
instructions the address of a function over 32 lanes (`bodies`) with its operands. Nothing has to be
compiled for a run, only once for each kind of instruction.

Registers stay where they are. An array that nothing but the register list refers to is written in
place; otherwise the register gets a new one, so that whoever has taken the old one keeps what it
was.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from schedgen.emulator.native import engine as objects
from schedgen.emulator.native.engine import Builtin, Engine, new_array, python

HEADER, READ, WRITTEN, CALLS = 3, 3, 5, 6
"""Words of a run: of its beginning, and for each register read, register written and call."""

# Beginning: registers read, registers written, calls; then an address for each place: those read,
# those written but not read, and others, which are known beforehand.
# Read: number of the register, bytes of a lane, where to put lanes that are not in a row.
# Written: number, bytes of a lane, place, whether it is read, too, and the dtype.
# Call: function, target, three sources; the function that puts a result into some lanes.


class Interpreter(NamedTuple):
    """Addresses of functions: for all lanes of some warps, and for some lanes of one warp."""

    full: int
    masked: int


@cache
def interpreter(engine: Engine) -> Interpreter:
    """The compiled functions."""
    names = ("full", "masked")
    text = _FETCH + _text("full", masked=False) + _text("masked", masked=True)
    addresses = {
        "ARRAY": id(np.ndarray), "FALSE": id(False), "TRUE": id(True), "@new": new_array(),
        "@increase": python("Py_IncRef"), "@decrease": python("Py_DecRef"),
    }  # fmt: skip
    found = engine.compiled(text, names, addresses)
    return Interpreter(found["full"], found["masked"])


def bound(engine: Engine, words: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Builtin]:
    """The functions of a run: takes the register lists of warps; takes a mask and one such list.
    They return False, and have done nothing, where a register is no array."""
    found = interpreter(engine)
    return [
        engine.builtin("full", found.full, words),
        engine.builtin("masked", found.masked, words),
    ]


_FETCH = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @llvm.umin.i32(i32, i32)
define internal void @strided(ptr %array, ptr %to, i64 %size) {
  %strides.at = getelementptr i8, ptr %array, i64 STRIDES
  %strides = load ptr, ptr %strides.at
  %stride = load i64, ptr %strides
  %data.at = getelementptr i8, ptr %array, i64 DATA
  %data = load ptr, ptr %data.at
  br label %loop
loop:
  %i = phi i64 [0, %0], [%next, %loop]
  %from.by = mul i64 %i, %stride
  %to.by = mul i64 %i, %size
  %from = getelementptr i8, ptr %data, i64 %from.by
  %there = getelementptr i8, ptr %to, i64 %to.by
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %from, i64 %size, i1 0)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 32
  br i1 %more, label %loop, label %end
end:
  ret void
}
define internal void @fetch(ptr %array, ptr %to, i64 %size) {
  %flags.at = getelementptr i8, ptr %array, i64 FLAGS
  %flags = load i32, ptr %flags.at
  %bit = and i32 %flags, 1
  %row = icmp ne i32 %bit, 0
  br i1 %row, label %whole, label %lanes
whole:
  %data.at = getelementptr i8, ptr %array, i64 DATA
  %data = load ptr, ptr %data.at
  %bytes = shl i64 %size, 5
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %bytes, i1 0)
  ret void
lanes:
  call void @strided(ptr %array, ptr %to, i64 %size)
  ret void
}
""".replace("STRIDES", str(objects.STRIDES)).replace("DATA", str(objects.DATA)).replace(
    "FLAGS", str(objects.FLAGS)
)  # fmt: skip


_RUN = """
define ptr @NAME(ptr %self, ptr %arguments, i64 %count) {
start:
  %dims = alloca [1 x i64]
  store i64 32, ptr %dims
  %result = alloca [256 x i8], align 32
  %self.data = getelementptr i8, ptr %self, i64 DATA
  %run = load ptr, ptr %self.data
  %n.read = load i64, ptr %run
  %n.written.at = getelementptr i64, ptr %run, i64 1
  %n.written = load i64, ptr %n.written.at
  %n.calls.at = getelementptr i64, ptr %run, i64 2
  %n.calls = load i64, ptr %n.calls.at
  %places = getelementptr i64, ptr %run, i64 3
  %n.places = load i64, ptr %places
  %base = getelementptr i64, ptr %places, i64 1
  %reads = getelementptr i64, ptr %base, i64 %n.places
  %reads.size = mul i64 %n.read, READ
  %writes = getelementptr i64, ptr %reads, i64 %reads.size
  %writes.size = mul i64 %n.written, WRITTEN
  %calls = getelementptr i64, ptr %writes, i64 %writes.size
  MASK
  br label %warp.check

warp.check:  ; are all registers arrays, those of all warps?
  %c.w = phi i64 [FIRST, %start], [%c.w.next, %check.done]
  %c.list.at = getelementptr ptr, ptr %arguments, i64 %c.w
  %c.list = load ptr, ptr %c.list.at
  %c.items.at = getelementptr i8, ptr %c.list, i64 LIST
  %c.items = load ptr, ptr %c.items.at
  br label %check
check:
  %c.k = phi i64 [0, %warp.check], [%c.next, %check.next]
  %c.more = icmp ult i64 %c.k, %n.read
  br i1 %c.more, label %check.one, label %CHECKED
check.one:
  %c.by = mul i64 %c.k, READ
  %c.entry = getelementptr i64, ptr %reads, i64 %c.by
  %c.slot = load i64, ptr %c.entry
  %c.item.at = getelementptr ptr, ptr %c.items, i64 %c.slot
  %c.item = load ptr, ptr %c.item.at
  %c.type.at = getelementptr i8, ptr %c.item, i64 TYPE
  %c.type = load i64, ptr %c.type.at
  %c.is = icmp eq i64 %c.type, ARRAY
  br i1 %c.is, label %check.next, label %refuse
check.next:
  %c.next = add i64 %c.k, 1
  br label %check
  OTHERS
check.done:
  %c.w.next = add i64 %c.w, 1
  %c.w.more = icmp ult i64 %c.w.next, %count
  br i1 %c.w.more, label %warp.check, label %warp

refuse:
  %false = inttoptr i64 FALSE to ptr
  call void @increase(ptr %false)
  ret ptr %false

warp:
  %w = phi i64 [FIRST, %check.done], [%w.next, %called]
  %list.at = getelementptr ptr, ptr %arguments, i64 %w
  %list = load ptr, ptr %list.at
  %items.at = getelementptr i8, ptr %list, i64 LIST
  %items = load ptr, ptr %items.at
  br label %read

read:  ; where are they?
  %r.k = phi i64 [0, %warp], [%r.next, %read.next]
  %r.more = icmp ult i64 %r.k, %n.read
  br i1 %r.more, label %read.one, label %write
read.one:
  %r.by = mul i64 %r.k, READ
  %r.entry = getelementptr i64, ptr %reads, i64 %r.by
  %r.slot = load i64, ptr %r.entry
  %r.item.at = getelementptr ptr, ptr %items, i64 %r.slot
  %r.item = load ptr, ptr %r.item.at
  %r.flags.at = getelementptr i8, ptr %r.item, i64 FLAGS
  %r.flags = load i32, ptr %r.flags.at
  %r.bit = and i32 %r.flags, 1
  %r.row = icmp ne i32 %r.bit, 0
  %r.place = getelementptr ptr, ptr %base, i64 %r.k
  br i1 %r.row, label %read.row, label %read.lanes
read.row:
  %r.data.at = getelementptr i8, ptr %r.item, i64 DATA
  %r.data = load ptr, ptr %r.data.at
  store ptr %r.data, ptr %r.place
  br label %read.next
read.lanes:
  %r.size.at = getelementptr i64, ptr %r.entry, i64 1
  %r.size = load i64, ptr %r.size.at
  %r.scratch.at = getelementptr i64, ptr %r.entry, i64 2
  %r.scratch = load ptr, ptr %r.scratch.at
  call void @strided(ptr %r.item, ptr %r.scratch, i64 %r.size)
  store ptr %r.scratch, ptr %r.place
  br label %read.next
read.next:
  %r.next = add i64 %r.k, 1
  br label %read

write:  ; where do results go?
  %o.k = phi i64 [0, %read], [%o.next, %write.next]
  %o.more = icmp ult i64 %o.k, %n.written
  br i1 %o.more, label %write.one, label %call
write.one:
  %o.by = mul i64 %o.k, WRITTEN
  %o.entry = getelementptr i64, ptr %writes, i64 %o.by
  %o.slot = load i64, ptr %o.entry
  %o.size.at = getelementptr i64, ptr %o.entry, i64 1
  %o.size = load i64, ptr %o.size.at
  %o.place.at = getelementptr i64, ptr %o.entry, i64 2
  %o.place.number = load i64, ptr %o.place.at
  %o.place = getelementptr ptr, ptr %base, i64 %o.place.number
  %o.type.at = getelementptr i64, ptr %o.entry, i64 4
  %o.type = load ptr, ptr %o.type.at
  %o.item.at = getelementptr ptr, ptr %items, i64 %o.slot
  %o.item = load ptr, ptr %o.item.at
  %o.uses = load i32, ptr %o.item
  %o.alone = icmp eq i32 %o.uses, 1
  br i1 %o.alone, label %write.kind, label %write.new
write.kind:
  %o.kind.at = getelementptr i8, ptr %o.item, i64 TYPE
  %o.kind = load i64, ptr %o.kind.at
  %o.is = icmp eq i64 %o.kind, ARRAY
  br i1 %o.is, label %write.own, label %write.new
write.own:
  %o.flags.at = getelementptr i8, ptr %o.item, i64 FLAGS
  %o.flags = load i32, ptr %o.flags.at
  %o.bits = and i32 %o.flags, OWNED
  %o.owned = icmp eq i32 %o.bits, OWNED
  %o.had.at = getelementptr i8, ptr %o.item, i64 DESCRIPTION
  %o.had = load ptr, ptr %o.had.at
  %o.same = icmp eq ptr %o.had, %o.type
  %o.sizes.at = getelementptr i8, ptr %o.item, i64 SIZES
  %o.sizes = load ptr, ptr %o.sizes.at
  %o.rank.at = getelementptr i8, ptr %o.item, i64 RANK
  %o.rank = load i32, ptr %o.rank.at
  %o.one = icmp eq i32 %o.rank, 1
  %o.fits = and i1 %o.same, %o.one
  %o.both = and i1 %o.owned, %o.fits
  br i1 %o.both, label %write.lanes, label %write.new
write.lanes:
  %o.lanes = load i64, ptr %o.sizes
  %o.all = icmp eq i64 %o.lanes, 32
  br i1 %o.all, label %write.place, label %write.new
write.place:
  %o.data.at = getelementptr i8, ptr %o.item, i64 DATA
  %o.data = load ptr, ptr %o.data.at
  store ptr %o.data, ptr %o.place
  br label %write.next
write.new:
  call void @increase(ptr %o.type)
  %o.array = inttoptr i64 ARRAY to ptr
  %made = call ptr @new(ptr %o.array, ptr %o.type, i32 1, ptr %dims,
                        ptr null, ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %fail, label %write.put
fail:
  ret ptr null
write.put:
  %m.data.at = getelementptr i8, ptr %made, i64 DATA
  %m.data = load ptr, ptr %m.data.at
  %o.keep.at = getelementptr i64, ptr %o.entry, i64 3
  %o.kept = load i64, ptr %o.keep.at
  %o.keep = icmp ne i64 %o.kept, KEEP
  br i1 %o.keep, label %write.keep, label %write.put.in
write.keep:
  call void @fetch(ptr %o.item, ptr %m.data, i64 %o.size)
  br label %write.put.in
write.put.in:
  store ptr %m.data, ptr %o.place
  store ptr %made, ptr %o.item.at
  call void @decrease(ptr %o.item)
  br label %write.next
write.next:
  %o.next = add i64 %o.k, 1
  br label %write

call:
  %k = phi i64 [0, %write], [%k.next, %call.next]
  %k.more = icmp ult i64 %k, %n.calls
  br i1 %k.more, label %call.one, label %called
call.one:
  %k.by = mul i64 %k, CALLS
  %k.entry = getelementptr i64, ptr %calls, i64 %k.by
  %function = load ptr, ptr %k.entry
  %d.at = getelementptr i64, ptr %k.entry, i64 1
  %d.number = load i64, ptr %d.at
  %d.place = getelementptr ptr, ptr %base, i64 %d.number
  %d = load ptr, ptr %d.place
  %a.at = getelementptr i64, ptr %k.entry, i64 2
  %a.number = load i64, ptr %a.at
  %a.place = getelementptr ptr, ptr %base, i64 %a.number
  %a = load ptr, ptr %a.place
  %b.at = getelementptr i64, ptr %k.entry, i64 3
  %b.number = load i64, ptr %b.at
  %b.place = getelementptr ptr, ptr %base, i64 %b.number
  %b = load ptr, ptr %b.place
  %c.at = getelementptr i64, ptr %k.entry, i64 4
  %c.number = load i64, ptr %c.at
  %c.place = getelementptr ptr, ptr %base, i64 %c.number
  %c = load ptr, ptr %c.place
  DO
  br label %call.next
call.next:
  %k.next = add i64 %k, 1
  br label %call
called:
  %w.next = add i64 %w, 1
  %w.more = icmp ult i64 %w.next, %count
  br i1 %w.more, label %warp, label %done
done:
  %true = inttoptr i64 TRUE to ptr
  call void @increase(ptr %true)
  ret ptr %true
}
"""
_MASK = """%mask.array = load ptr, ptr %arguments
  %mask = alloca [32 x i8], align 32
  call void @fetch(ptr %mask.array, ptr %mask, i64 1)"""
_OTHERS = """
check.others:
  %e.k = phi i64 [0, %check], [%e.next, %others.next]
  %e.more = icmp ult i64 %e.k, %n.written
  br i1 %e.more, label %others.one, label %check.done
others.one:
  %e.by = mul i64 %e.k, WRITTEN
  %e.entry = getelementptr i64, ptr %writes, i64 %e.by
  %e.slot = load i64, ptr %e.entry
  %e.item.at = getelementptr ptr, ptr %c.items, i64 %e.slot
  %e.item = load ptr, ptr %e.item.at
  %e.type.at = getelementptr i8, ptr %e.item, i64 TYPE
  %e.type = load i64, ptr %e.type.at
  %e.is = icmp eq i64 %e.type, ARRAY
  br i1 %e.is, label %others.next, label %refuse
others.next:
  %e.next = add i64 %e.k, 1
  br label %check.others"""
_SOME = """call void %function(ptr %result, ptr %a, ptr %b, ptr %c)
  %put.at = getelementptr i64, ptr %k.entry, i64 5
  %put = load ptr, ptr %put.at
  call void %put(ptr %d, ptr %result, ptr %mask, ptr %d)"""


def _text(name: str, *, masked: bool) -> str:
    text = _RUN.replace("NAME", name)
    text = text.replace("OTHERS", _OTHERS if masked else "")
    text = text.replace("%CHECKED", "%check.others" if masked else "%check.done")
    text = text.replace("MASK", _MASK if masked else "")
    text = text.replace("FIRST", "1" if masked else "0")
    text = text.replace("KEEP", "-1" if masked else "0")
    all_ = "call void %function(ptr %d, ptr %a, ptr %b, ptr %c)"
    text = text.replace("  DO\n", f"  {_SOME if masked else all_}\n")
    words = {
        "DATA": objects.DATA, "LIST": objects.LIST_ITEMS, "TYPE": objects.TYPE,
        "FLAGS": objects.FLAGS, "DESCRIPTION": objects.DESCRIPTION, "SIZES": objects.SIZES,
        "RANK": objects.RANK, "OWNED": objects.OWNED,
        "READ": READ, "WRITTEN": WRITTEN, "CALLS": CALLS,
    }  # fmt: skip
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text
