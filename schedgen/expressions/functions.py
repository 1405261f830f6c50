"""The functions of the language, and what the element-wise ones cost on a GPU.

Costs are instructions per element on the three pipes that a tile formula can saturate:

    FMA   fp32 add, multiply and fused multiply-add
    ALU   compare, select, minimum, maximum, conversions
    MUFU  the approximations ex2, lg2, rcp, rsqrt, sqrt and tanh, one instruction each

They assume ``.approx.ftz`` instructions: IEEE-rounded or denormal-preserving versions cost more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schedgen.expressions.errors import ExpressionError, suggest
from schedgen.expressions.nodes import Call

UNIFORM = "uniform"
"""The function of whole numbers (`schedgen.expressions.counters`)."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its arity and its cost in instructions per element.

    A ``variadic`` function takes ``arity`` or more arguments; it is evaluated pairwise, so its
    counts are per pair of arguments. One with ``most`` takes up to that many, at one cost.
    ``description`` states the formula that was counted.
    """

    name: str
    arity: int
    fma: int
    alu: int
    mufu: int
    description: str
    variadic: bool = False
    most: int = 0


def _table(*functions: Function) -> Mapping[str, Function]:
    return MappingProxyType({function.name: function for function in functions})


ELEMENTWISE: Mapping[str, Function] = _table(
    Function("exp2", 1, 0, 0, 1, "2^x: ex2(x)"),
    Function("log2", 1, 0, 0, 1, "base-2 logarithm: lg2(x)"),
    Function("exp", 1, 1, 0, 1, "e^x: ex2(x * log2(e))"),
    Function("log", 1, 1, 0, 1, "natural logarithm: lg2(x) * ln(2)"),
    Function("rcp", 1, 0, 0, 1, "1 / x: rcp(x)"),
    Function("rsqrt", 1, 0, 0, 1, "1 / square root: rsqrt(x)"),
    Function("sqrt", 1, 0, 0, 1, "square root: sqrt(x), a single MUFU.SQRT"),
    Function("tanh", 1, 0, 0, 1, "hyperbolic tangent: tanh(x)"),
    Function("sigmoid", 1, 2, 0, 2, "1 / (1 + e^-x): rcp(1 + ex2(x * -log2(e)))"),
    Function("abs", 1, 0, 1, 0, "|x|: sign bit masked (FFMA has no |x| modifier to hide it in)"),
    Function("floor", 1, 0, 0, 1, "largest integer that is not above x: a conversion, as MUFU's"),
    Function("min", 2, 0, 1, 0, "smallest argument: min(x, y) per pair", variadic=True),
    Function("max", 2, 0, 1, 0, "largest argument: max(x, y) per pair", variadic=True),
    Function("where", 3, 0, 1, 0, "select(c, x, y); the comparison in c is counted by itself"),
    Function("fma", 3, 1, 0, 0, "x * y + z, rounded once; no compiler takes it apart or joins it"),
    Function("relu", 1, 0, 1, 0, "max(x, 0)"),
    Function(
        "gelu",
        1,
        5,
        0,
        1,
        "tanh approximation: h*t + h with h = 0.5*x, t = tanh(x * (c1*(x*x) + c0)), "
        "c0 = sqrt(2/pi), c1 = 0.044715*c0",
    ),
    Function("silu", 1, 3, 0, 2, "x * sigmoid(x): x * rcp(1 + ex2(x * -log2(e)))"),
    Function(
        UNIFORM,
        3,
        12,
        8,
        0,
        "random number from 0 to below 1 by Philox4x32-7, of which columns in pairs share an "
        "evaluation: 5.3 products of 32 bits at half the rate of FMA, 6.7 LOP3, 1 LEA.HI, 1 FADD",
        most=6,
    ),
)
"""Functions for tile formulas, by name."""

_ROUNDING = _table(
    Function("ceil", 1, 0, 0, 0, "smallest integer that is not below x (specs only)"),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({**ELEMENTWISE, **_ROUNDING})
"""Every function of the language, by name."""

_HABITS = {
    "cdiv": "write ceil(a / b)",
    "ceil_div": "write ceil(a / b)",
    "ceildiv": "write ceil(a / b)",
    "int": "write floor(x) or ceil(x)",
    "pow": "write repeated multiplication, e.g. x * x",
    "round": "write floor(x + 0.5)",
    "select": "write where(condition, a, b)",
}


def check_call(call: Call) -> None:
    """Raise ExpressionError unless ``call`` names a function and has its number of arguments."""
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise ExpressionError(
            f"unknown function '{call.function}'",
            call.offset,
            len(call.function),
            _HABITS.get(call.function) or suggest(call.function, FUNCTIONS),
        )
    count = len(call.arguments)
    if function.arity <= count <= max(function.arity, function.most):
        return
    if function.variadic and count > function.arity:
        return
    bound = "at least " if function.variadic else ""
    takes = f"{function.arity} to {function.most}" if function.most else f"{bound}{function.arity}"
    plural = "" if function.arity == 1 else "s"
    raise ExpressionError(
        f"{call.function} takes {takes} argument{plural}, not {count}",
        call.offset,
        call.length,
    )
