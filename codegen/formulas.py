"""Formulas of a spec as Python expressions over float32 scalars of the DSL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedgen.codegen import ir
from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code
from schedgen.codegen.ir import code as piece
from schedgen.codegen.printing import expression as as_text
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
    render,
)
from schedgen.expressions.nodes import walk

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
    "floor": "cute.math.floor(Float32({0}))",
    "abs": "cute.arch.fmax({0}, -({0}))",
    "relu": "cute.arch.fmax({0}, Float32(0.0), nan=True)",
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
                first = f"cute.arch.f{function}({first}, {other}, nan=True)"
            return first
        case Call("fma", arguments):
            return f"cute.math.fma({', '.join(f'Float32({again(each)})' for each in arguments)})"
        case Call("uniform", (low, high, *others, last)):
            words = ", ".join(_counter(each, look) for each in (low, high, last, *reversed(others)))
            return f"uniform({words})"
        case Call(function, (argument,)) if function in known:
            return known[function].format(again(argument))
        case _:
            raise EmitError(
                f"there is no emitter for '{render(expression)}' in a formula",
                rule="no-emitter-for-formula",
                fix="write it with arithmetic, comparisons and the functions of docs/spec.md",
            )


def _counter(expression: Expression, look: Look) -> str:
    """A sum, difference or product of whole numbers, which are 32-bit integers: modulo 2^32."""
    match expression:
        case Number(value):
            return str(int(value))
        case Name():
            return look(expression)
        case Unary(sign, operand):
            return f"({sign}{_counter(operand, look)})"
        case Binary(operator, left, right):
            return f"({_counter(left, look)} {operator} {_counter(right, look)})"
        case _:
            raise AssertionError(expression)


def scalar(expression: Expression) -> Code:
    """The same over scalars of the kernel, as values."""
    found: list[Name] = []

    def look(name: Name) -> str:
        found.append(name)
        return "{}"

    text = code(expression, look)
    return piece(text, *(ir.Name(name.name) for name in found))


_LIBRARY = {"sigmoid": "sigmoid", "silu": "sigmoid", "gelu": "gelu", "uniform": "uniform"}


def library_functions(expression: Expression) -> tuple[str, ...]:
    """The functions of the library that `code` writes calls of."""
    nodes = (node for node in walk(expression) if isinstance(node, Call))
    found = (_LIBRARY.get(node.function, "") for node in nodes)
    return tuple(dict.fromkeys(filter(None, found)))


def integer(
    expression: Expression, names: Mapping[str, str] | None = None, *, extremes: bool = False
) -> str:
    """An expression over extents, in integers; arguments as of `whole`."""
    return as_text(whole(expression, names, extremes=extremes))


def whole(
    expression: Expression, names: Mapping[str, str] | None = None, *, extremes: bool = False
) -> Code:
    """The same with its variables as values; ``names`` has other variables for some of them.

    ``extremes``: it may have ``min`` and ``max``, because all of its variables are integers.
    """

    def again(part: Expression) -> Code:
        return whole(part, names, extremes=extremes)

    match expression:
        case Call("ceil", (Binary("/", left, right),)):
            return piece("cute.ceil_div({}, {})", again(left), again(right))
        case Call("floor", (Binary("/", left, right),)) | Binary("//", left, right):
            return piece("({} // {})", again(left), again(right))
        case Number(value) if value.denominator == 1:
            return piece(str(int(value)))
        case Name(name):
            return piece("{}", ir.Name((names or {}).get(name, name)))
        case Binary("+" | "-" | "*" | "%" as operator, left, right):
            return piece(f"({{}} {operator} {{}})", again(left), again(right))
        case Unary("+" | "-" as operator, operand):
            return piece(f"({operator}{{}})", again(operand))
        case Call("min" | "max" as function, (first, *rest)) if extremes:
            found = piece("Int32({})", again(first))
            for other in rest:
                found = piece(f"cutlass.{function}({{}}, Int32({{}}))", found, again(other))
            return found
        case _:
            raise EmitError(
                f"there is no emitter for the whole number '{render(expression)}'",
                rule="no-emitter-for-formula",
                fix="use +, -, * and % of whole numbers, parameters and extents",
            )


def integer_condition(
    expression: Expression, names: Mapping[str, str], *, extremes: bool = False
) -> Code:
    """A condition over whole numbers, as `whole` writes them; arguments as there."""

    def number(part: Expression) -> Code:
        return whole(part, names, extremes=extremes)

    def again(part: Expression) -> Code:
        return integer_condition(part, names, extremes=extremes)

    match expression:
        case Boolean(value):
            return piece(repr(value))
        case Unary("not", operand):
            return piece("(not {})", again(operand))
        case Compare(operator, left, right):
            return piece(f"({{}} {operator} {{}})", number(left), number(right))
        case Logical(operator, left, right):
            return piece("({})", ir.joined(f" {operator} ", (again(left), again(right))))
        case _:
            raise EmitError(
                f"there is no emitter for the condition '{render(expression)}'",
                rule="no-emitter-for-condition",
                fix="compare whole numbers, and combine comparisons with 'and', 'or' and 'not'",
            )
