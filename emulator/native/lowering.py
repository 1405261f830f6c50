"""Which body computes an elementwise instruction, if one does.

What is not known here, down to the last modifier, is left to numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedgen.emulator.machine.elementwise import Elementwise
from schedgen.emulator.machine.lanes import LANES, Lanes
from schedgen.emulator.ptx.tree import Immediate, Instruction, Register, Vector

_KEPT: Mapping[type[np.generic], str] = {
    np.bool_: "i8",
    np.uint8: "i8",
    np.uint16: "i16",
    np.uint32: "i32",
    np.uint64: "i64",
}
"""Type in which a register is kept -> LLVM type of its lanes."""


@dataclass(frozen=True)
class Call:
    """A body, which target it writes, and its sources: numbers of the instruction's, or lanes."""

    body: str
    target: int
    sources: tuple[int | Lanes, ...]


Calls = tuple[Call, ...] | None


def lowered(where: Instruction, step: Elementwise) -> Calls:
    """The calls that do what a step does; None: numpy has to.

    Args:
        where: an instruction like that of the step but for its registers.
    """
    if any(source.constant is None and not _plain(source.kept, source.seen) for source in
           step.sources):  # fmt: skip
        return None
    known = _OPCODES.get(where.opcode)
    return None if known is None else known(_Case(where, step))


def _plain(kept: type[np.generic], seen: type[np.generic] | None) -> bool:
    """Whether a register has as many bytes as its instruction sees."""
    return seen is None or np.dtype(kept).itemsize == np.dtype(seen).itemsize


class _Case:
    """An instruction: its modifiers, and what it reads and writes."""

    def __init__(self, where: Instruction, step: Elementwise) -> None:
        self.where = where
        self.words = where.modifiers
        self.step = step
        self.kept = [_KEPT[target.kept] for target in step.targets]

    def call(self, body: str) -> Calls:
        """One call with all sources."""
        return (Call(body, 0, tuple(range(len(self.step.sources)))),)

    def matches(self, *words: str) -> bool:
        return self.words == words

    def amount(self) -> Lanes | None:
        """The literal by which is shifted."""
        operand = self.where.operands[2]
        if not isinstance(operand, Immediate) or isinstance(operand.value, float):
            return None
        amount = np.full(LANES, operand.value & 0xFFFFFFFF, np.uint32)
        amount.flags.writeable = False
        return amount


_INTEGERS = {f"{sign}{bits}" for sign in "us" for bits in (16, 32, 64)}
_BITS = {"pred": "i8", "b16": "i16", "b32": "i32", "b64": "i64"}


def _arithmetic(case: _Case) -> Calls:
    opcode, words = case.where.opcode, case.words
    if len(words) == 1 and words[0] in _INTEGERS:
        return case.call(f"{opcode}.i{words[0][1:]}")
    if words in (("f32",), ("rn", "f32"), ("rn", "f32x2"), ("f32x2",)):
        return case.call(f"{opcode}.{words[-1]}")
    return None


def _product(case: _Case) -> Calls:
    words = case.words
    if len(words) == 2 and words[1] in _INTEGERS:
        if words[0] == "lo":
            return case.call(f"mul.i{words[1][1:]}")
        if words[1][1:] != "64":
            return case.call(f"{'high' if words[0] == 'hi' else words[0]}.{words[1]}")
    return _arithmetic(case) if words[-1] in ("f32", "f32x2") else None


def _sum_of_product(case: _Case) -> Calls:
    words = case.words
    if len(words) == 2 and words[0] == "lo" and words[1] in _INTEGERS:
        return case.call(f"mad.i{words[1][1:]}")
    return _fused(case)


def _fused(case: _Case) -> Calls:
    if case.words in (("rn", "f32"), ("rn", "f32x2")):
        return case.call(f"fma.{case.words[-1]}")
    return None


def _extreme(case: _Case) -> Calls:
    opcode, words = case.where.opcode, case.words
    if len(words) == 1 and words[0] in _INTEGERS:
        return case.call(f"{opcode}.{words[0]}")
    if words in (("f32",), ("NaN", "f32")) and len(case.step.sources) == 2:
        return case.call(".".join((opcode, *words)))
    return None


def _bitwise(case: _Case) -> Calls:
    type_ = _BITS.get(case.words[0]) if len(case.words) == 1 else None
    if type_ is None:
        return None
    if case.where.opcode == "not" and case.words[0] == "pred":
        return case.call("not.pred")
    return case.call(f"{case.where.opcode}.{type_}")


def _shift(case: _Case) -> Calls:
    if len(case.words) != 1:
        return None
    type_ = case.words[0]
    word = case.where.opcode
    if word == "shr":
        word += "s" if type_[0] == "s" else "u"
    name = f"{word}.i{type_[1:]}"
    if len(case.step.sources) == 2:
        return case.call(name)
    amount = case.amount()
    return None if amount is None else (Call(name, 0, (0, amount)),)


def _sign(case: _Case) -> Calls:
    words = case.words
    if words == ("f32",):
        return case.call(f"{case.where.opcode}.f32")
    if case.where.opcode == "neg" and len(words) == 1 and words[0] in _INTEGERS:
        return case.call(f"neg.i{words[0][1:]}")
    return None


_FLOAT_COMPARE: Mapping[str, str] = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
_UNSIGNED_COMPARE = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _compared(case: _Case) -> Calls:
    if len(case.words) != 2:
        return None
    operator, type_ = case.words
    if type_ == "f32":
        return case.call(f"{_FLOAT_COMPARE[operator]}.f32")
    if type_ not in _INTEGERS and type_ not in _BITS:
        return None
    if operator in ("eq", "ne"):
        return case.call(f"{operator}.i{type_[1:]}")
    if operator in _UNSIGNED_COMPARE:
        return case.call(f"{_UNSIGNED_COMPARE[operator]}.u{type_[1:]}")
    return case.call(f"{operator}.{type_}")


def _chosen(case: _Case) -> Calls:
    return case.call(f"selp.{case.kept[0]}") if len(case.words) == 1 else None


def _three(case: _Case) -> Calls:
    table = case.where.operands[4]
    if case.words != ("b32",) or not isinstance(table, Immediate):
        return None
    return (Call(f"lop3.{int(table.value)}", 0, (0, 1, 2)),)


def _permuted(case: _Case) -> Calls:
    selector = case.where.operands[3]
    if case.words != ("b32",) or not isinstance(selector, Immediate):
        return None
    if isinstance(selector.value, float):
        return None
    return (Call(f"prmt.{selector.value & 0xFFFF}", 0, (0, 1)),)


def _moved(case: _Case) -> Calls:
    to, source = case.where.operands
    if case.step.compute is None:
        return case.call(f"copy.{case.kept[0]}")
    if len(case.words) != 1:
        return None
    halves = {"b32": "i16", "b64": "i32"}.get(case.words[0])
    if halves is None:
        return None
    if isinstance(source, Vector):
        return case.call(f"pack.{halves}") if len(source.items) == 2 else None
    if not isinstance(to, Vector) or len(to.items) != 2:
        return None
    whole = "i32" if halves == "i16" else "i64"
    bodies = (f"trunc.{whole}.{halves}", f"upper.{whole}")
    used = [at for at, one in enumerate(to.items) if one != Register("_")]
    return tuple(Call(bodies[at], number, (0,)) for number, at in enumerate(used))


def _exponential(case: _Case) -> Calls:
    if case.words == ("approx", "ftz", "f32"):
        return case.call("exp2.result")
    return case.call("exp2") if case.words == ("approx", "f32") else None


def _function(case: _Case) -> Calls:
    word = {"lg2": "log2"}.get(case.where.opcode, case.where.opcode)
    if case.words == ("approx", "ftz", "f32"):
        return case.call(f"{word}.flush")
    return case.call(word) if case.words == ("approx", "f32") else None


def _quotient(case: _Case) -> Calls:
    return case.call("div.f32") if case.words in (("rn", "f32"), ("full", "f32")) else None


def _converted(case: _Case) -> Calls:
    words = case.words
    if words in (("rn", "bf16x2", "f32"), ("rn", "f16x2", "f32"), ("rn", "bf16", "f32"),
                 ("rn", "f16", "f32")):  # fmt: skip
        return case.call(words[1])
    if words in (("f32", "bf16"), ("f32", "f16")):
        return case.call(f"float.{words[1]}")
    if len(words) == 3 and words[:2] == ("rn", "f32") and words[2] in ("u32", "s32"):
        return case.call(f"float.{words[2]}")
    if len(words) == 2 and _INTEGERS.issuperset(words):
        return _between(case, *words)
    return None


def _between(case: _Case, to: str, source: str) -> Calls:
    wide, narrow = int(to[1:]), int(source[1:])
    if wide == narrow:
        return case.call(f"copy.i{wide}")
    if wide < narrow:
        return case.call(f"trunc.i{narrow}.i{wide}")
    return case.call(f"{'sext' if source[0] == 's' else 'zext'}.i{narrow}.i{wide}")


_OPCODES: Mapping[str, Callable[[_Case], Calls]] = {
    "add": _arithmetic, "sub": _arithmetic, "mul": _product, "mad": _sum_of_product, "fma": _fused,
    "min": _extreme, "max": _extreme, "and": _bitwise, "or": _bitwise, "xor": _bitwise,
    "not": _bitwise, "shl": _shift, "shr": _shift, "abs": _sign, "neg": _sign, "setp": _compared,
    "selp": _chosen, "lop3": _three, "prmt": _permuted, "mov": _moved, "ex2": _exponential,
    "rcp": _function, "sqrt": _function, "rsqrt": _function, "lg2": _function, "sin": _function,
    "cos": _function, "tanh": _function, "div": _quotient, "cvt": _converted,
}  # fmt: skip


def needs_half(calls: Sequence[Call]) -> bool:
    """Whether bodies convert float16, which not all processors do by themselves."""
    return any("f16" in call.body.replace("bf16", "") for call in calls)
