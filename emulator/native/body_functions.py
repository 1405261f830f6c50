"""Functions of float32 values that are computed as float64, some of them by numpy's own loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedgen.emulator.native.body import NAN, canonical, vectors
from schedgen.emulator.native.engine import loop

LOOPS = {"exp2": np.exp2, "log2": np.log2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos}
"""Functions of float64 values that are numpy's."""
FUNCTIONS = ("rcp", "sqrt", "rsqrt", *LOOPS)
_TINY = "0x3810000000000000"
"""2^-126, the smallest normal float32, as LLVM writes it."""


def computed(name: str) -> str:
    """A function of float32 values, computed as float64 and rounded, as ``exp2.flush``: flushed
    before and after, or for ``exp2.result`` after alone."""
    word, _, flush = name.partition(".")
    x = ["%x0 = load <8 x float>, ptr %p0, align 1"]
    if flush == "flush":
        x = [
            "%f0 = load <8 x float>, ptr %p0, align 1",
            "%size0 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %f0)",
            f"%normal0 = fcmp oge <8 x float> %size0, splat (float {_TINY})",
            "%keep0 = uitofp <8 x i1> %normal0 to <8 x float>",
            "%x0 = fmul <8 x float> %f0, %keep0",
        ]
    last = ["%r = bitcast <8 x i32> %chosen to <8 x float>"]
    if flush:
        last = [
            "%u = bitcast <8 x i32> %chosen to <8 x float>",
            "%size = call <8 x float> @llvm.fabs.v8f32(<8 x float> %u)",
            f"%normal = fcmp oge <8 x float> %size, splat (float {_TINY})",
            "%keep = uitofp <8 x i1> %normal to <8 x float>",
            "%w = fmul <8 x float> %u, %keep",
        ]
    checked = [vectors(line) for line in canonical("float")[:-1]]
    if flush:  # a NaN times zero is one, perhaps another one
        again = [
            "%nan2 = fcmp uno <8 x float> %w, %w",
            "%bits2 = bitcast <8 x float> %w to <8 x i32>",
            f"%chosen2 = select <8 x i1> %nan2, <8 x i32> splat (i32 {NAN['float']}), "
            "<8 x i32> %bits2",
            "%r = bitcast <8 x i32> %chosen2 to <8 x float>",
        ]
        last += again
    return "\n".join([
        f'define void @"{name}"(ptr %d, ptr %s0, ptr %s1, ptr %s2) {{',
        "%in = alloca [32 x double], align 64", "%out = alloca [32 x double], align 64",
        "br label %first", "first:", "%i = phi i64 [0, %0], [%i.next, %first]",
        "%p0 = getelementptr float, ptr %s0, i64 %i", *x,
        "%wide = fpext <8 x float> %x0 to <8 x double>", *_inner(word),
        "%in.at = getelementptr double, ptr %in, i64 %i",
        "store <8 x double> %y, ptr %in.at, align 8",
        "%i.next = add i64 %i, 8", "%i.more = icmp ult i64 %i.next, 32",
        "br i1 %i.more, label %first, label %middle", "middle:", *_called(word),
        "br label %second", "second:", "%j = phi i64 [0, %middle], [%j.next, %second]",
        f"%from.at = getelementptr double, ptr %{'out' if word in LOOPS else 'in'}, i64 %j",
        "%value = load <8 x double>, ptr %from.at, align 8",
        "%v = fptrunc <8 x double> %value to <8 x float>", *checked, *last,
        "%to = getelementptr float, ptr %d, i64 %j", "store <8 x float> %r, ptr %to, align 1",
        "%j.next = add i64 %j, 8", "%j.more = icmp ult i64 %j.next, 32",
        "br i1 %j.more, label %second, label %end", "end:", "ret void", "}\n",
    ])  # fmt: skip


def addresses(name: str) -> dict[str, int]:
    """What stands for addresses in the text of a function."""
    word = name.partition(".")[0]
    if word not in LOOPS:
        return {}
    function, data = loop(LOOPS[word], "d->d")
    return {f"@loop_{word}": function, f"data_{word}": data}


def _inner(word: str) -> Sequence[str]:
    """Lines that give ``%y``, what is computed without numpy."""
    root = "%root = call <8 x double> @llvm.sqrt.v8f64(<8 x double> %wide)"
    one = "splat (double 1.0)"
    match word:
        case "rcp":
            return (f"%y = fdiv <8 x double> {one}, %wide",)
        case "sqrt":
            return (root.replace("%root", "%y"),)
        case "rsqrt":
            return (root, f"%y = fdiv <8 x double> {one}, %root")
        case _:
            return ("%y = fmul <8 x double> %wide, splat (double 1.0)",)


def _called(word: str) -> Sequence[str]:
    """Lines that call the loop of one of numpy's functions."""
    if word not in LOOPS:
        return ()
    return (
        "%arrays = alloca [2 x ptr]", "%counts = alloca [1 x i64]", "%steps = alloca [2 x i64]",
        "store ptr %in, ptr %arrays",
        "%second.at = getelementptr ptr, ptr %arrays, i64 1", "store ptr %out, ptr %second.at",
        "store i64 32, ptr %counts", "store i64 8, ptr %steps",
        "%step.at = getelementptr i64, ptr %steps, i64 1", "store i64 8, ptr %step.at",
        f"%data = inttoptr i64 data_{word} to ptr",
        f"call void @loop_{word}(ptr %arrays, ptr %counts, ptr %steps, ptr %data)",
    )  # fmt: skip
