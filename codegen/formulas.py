"""Formulas of a spec as Python expressions over float32 scalars of the DSL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedgen.codegen.errors import EmitError
from schedgen.expressions import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
)

Look = Callable[[Name], str]
"""What stands for a name of the formula."""

_SIMPLE = {
    "exp2": "cute.math.exp2({0}, fastmath=True)",
    "log2": "cute.math.log2({0}, fastmath=True)",
    "exp": "cute.math.exp({0}, fastmath=True)",
    "log": "cute.math.log({0}, fastmath=True)",
    "rcp": "cute.arch.rcp_approx({0})",
    "rsqrt": "cute.math.rsqrt({0}, fastmath=True)",
    "sqrt": "cute.math.sqrt({0}, fastmath=True)",
    "tanh": "cute.math.tanh({0}, fastmath=True)",
    "sigmoid": "sigmoid({0})",
    "silu": "({0} * sigmoid({0}))",
    "gelu": "gelu({0})",
    "abs": "cute.arch.fmax({0}, -({0}))",
    "relu": "cute.arch.fmax({0}, Float32(0.0))",
}


LOG2_E = 1.4426950408889634


def code(expression: Expression, look: Look, functions: Mapping[str, str] | None = None) -> str:
    """A Python expression; sub-expressions are in parentheses unless they are atoms.

    ``functions`` has what is written for calls of some functions instead of the usual.
    """

    def again(part: Expression) -> str:
        return code(part, look, functions)

    known = {**_SIMPLE, **(functions or {})}
    match expression:
        case Number(value):
            return repr(float(value))
        case Boolean(value):
            return repr(value)
        case Name():
            return look(expression)
        case Unary("not", operand):
            return f"(not {again(operand)})"
        case Unary(operator, operand):
            return f"({operator}{again(operand)})"
        case Binary(operator, left, right) if operator in "+-*/":
            return f"({again(left)} {operator} {again(right)})"
        case Compare(operator, left, right):
            return f"({again(left)} {operator} {again(right)})"
        case Logical(operator, left, right):
            return f"({again(left)} {operator} {again(right)})"
        case Call("where", (condition, left, right)):
            then = again(left)
            return f"(Float32({then}) if {again(condition)} else Float32({again(right)}))"
        case Call("min" | "max" as function, arguments):
            first, *rest = (f"Float32({again(argument)})" for argument in arguments)
            for other in rest:
                first = f"cute.arch.f{function}({first}, {other})"
            return first
        case Call(function, (argument,)) if function in known:
            return known[function].format(again(argument))
        case _:
            raise EmitError(f"no emitter for '{expression}' in a formula")


def integer(expression: Expression, names: dict[str, str] | None = None) -> str:
    """An expression over extents, in integers."""
    match expression:
        case Call("ceil", (Binary("/", left, right),)):
            return f"cute.ceil_div({integer(left, names)}, {integer(right, names)})"
        case Call("floor", (Binary("/", left, right),)) | Binary("//", left, right):
            return f"({integer(left, names)} // {integer(right, names)})"
        case Number(value) if value.denominator == 1:
            return str(int(value))
        case Name(name):
            return (names or {}).get(name, name)
        case Binary("+" | "-" | "*" | "%" as operator, left, right):
            return f"({integer(left, names)} {operator} {integer(right, names)})"
        case Unary("+" | "-" as operator, operand):
            return f"({operator}{integer(operand, names)})"
        case _:
            raise EmitError(f"no emitter for the number '{expression}'")
