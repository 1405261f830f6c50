"""What is computed of the lanes of registers, as LLVM IR, eight lanes at a time.

Nothing here may round, or choose between zeros and NaNs, in another way than the numpy functions of
`emulator.instructions`: no flag lets LLVM do so.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = 32
AT_ONCE = 8
NAN = {"float": 0x7FFFFFFF, "double": 0x7FFFFFFFFFFFFFFF}
"""The canonical NaN."""
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@dataclass(frozen=True)
class Body:
    """What is computed of some lanes: ``%x0`` and up are sources, ``%r`` is the result.

    Attributes:
        result, sources: LLVM types of one lane.
        lines: the computation; ``T`` stands for a vector of the type T, as ``<i32>``.
        count: lanes; 64 for pairs.
    """

    result: str
    sources: tuple[str, ...]
    lines: tuple[str, ...]
    count: int = LANES


def binary(type_: str, operation: str) -> Body:
    return Body(type_, (type_, type_), (f"%r = {operation} <{type_}> %x0, %x1",))


def canonical(type_: str, value: str = "%v") -> tuple[str, ...]:
    """Lines that give `%r`, a value with canonical NaNs."""
    whole = f"i{BITS[type_]}"
    return (
        f"%nan = fcmp uno <{type_}> {value}, {value}",
        f"%bits = bitcast <{type_}> {value} to <{whole}>",
        f"%chosen = select <i1> %nan, <{whole}> splat ({whole} {NAN[type_]}), <{whole}> %bits",
        f"%r = bitcast <{whole}> %chosen to <{type_}>",
    )


def compared(type_: str, operator: str) -> Body:
    word = "fcmp" if type_ in NAN else "icmp"
    return Body(
        "i8",
        (type_, type_),
        (f"%holds = {word} {operator} <{type_}> %x0, %x1", "%r = zext <i1> %holds to <i8>"),
    )


def cast(to: str, source: str, word: str) -> Body:
    return Body(to, (source,), (f"%r = {word} <{source}> %x0 to <{to}>",))


def vectors(line: str) -> str:
    """A line with vectors in place of ``<i32>`` and its like."""
    for type_ in (*BITS, "half", "i1"):
        line = line.replace(f".<{type_}>", f".v{AT_ONCE}{_SHORT.get(type_, type_)}")
        line = line.replace(f"<{type_}>", f"<{AT_ONCE} x {type_}>")
    return line


_SHORT = {"float": "f32", "double": "f64"}


def function(name: str, found: Body) -> str:
    """The function of a body."""
    lines = [f'define void @"{name}"(ptr %d, ptr %s0, ptr %s1, ptr %s2) {{', "br label %loop"]
    lines += ["loop:", "%i = phi i64 [0, %0], [%next, %loop]"]
    for n, type_ in enumerate(found.sources):
        lines += [
            f"%p{n} = getelementptr {type_}, ptr %s{n}, i64 %i",
            f"%x{n} = load <{AT_ONCE} x {type_}>, ptr %p{n}, align 1",
        ]
    lines += map(vectors, found.lines)
    lines += [
        f"%to = getelementptr {found.result}, ptr %d, i64 %i",
        f"store <{AT_ONCE} x {found.result}> %r, ptr %to, align 1",
        f"%next = add i64 %i, {AT_ONCE}",
        f"%more = icmp ult i64 %next, {found.count}",
        "br i1 %more, label %loop, label %end",
        "end:", "ret void", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
