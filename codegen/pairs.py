"""Formulas over two neighbouring elements at a time, where an instruction can take two.

Blackwell adds, multiplies and does both on two float32 at a time (PTX ISA, f32x2): as many results
per cycle, from half of the instructions. In generated files a pair is a tuple.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from schedgen.codegen.elements import Elements, Formulas
from schedgen.codegen.formulas import LOG2_E, code, library_functions
from schedgen.codegen.operands import Shape
from schedgen.expressions import Binary, Call, Expression, Name, Number, Unary, references
from schedgen.expressions.nodes import walk

_SUM, _DIFFERENCE, _PRODUCT, _BOTH = (
    f"cute.arch.{name}_packed_f32x2" for name in ("add", "sub", "mul", "fma")
)


_PAIRED = {"gelu", "sigmoid", "silu"}
"""Functions with a version for pairs in the library, beside exponentials."""
_ONE = Number(Fraction(1))


class Pairs:
    """Writes formulas over elements v and v + 1 of a thread's row."""

    def __init__(self, elements: Elements) -> None:
        self.elements, self.operands = elements, elements.operands

    def fit(self, formulas: Formulas, count: int) -> bool:
        """Whether ``count`` elements can be computed like that, and it saves instructions."""
        elements = self.elements
        if not elements.fragment.packed or count % 2 or elements.fresh:
            return False
        if elements.operation.when is not None and len(formulas) > 1:
            return False
        names = [name for _, formula in formulas for name in references(formula)]
        if any(name.name in ("row", "column") and name.name not in self.operands for name in names):
            return False
        if any(name.distance and self.operands[name.name].in_registers for name in names):
            return False
        if self._narrow_again(formulas):
            return False
        nodes = [node for _, formula in formulas for node in walk(formula) if self._varies(node)]
        saves = elements.polynomial > 0 or any(map(_saves, nodes))
        return saves and all(map(_is_packed, nodes))

    def _narrow_again(self, formulas: Formulas) -> bool:
        """Whether a formula reads what one before it has made, and has rounded."""
        made: set[str] = set()
        for output, formula in formulas:
            if made & {name.name for name in references(formula)}:
                return True
            made |= {output} if self.operands[output].dtype != "f32" else set()
        return False

    def write(self, formulas: Formulas, at: str) -> None:
        """Two elements of each output; ``at`` is the place of the first one in registers."""
        elements = self.elements
        elements.use_names(formulas)
        for output, given in formulas:
            operand = self.operands[output]
            formula, when = self._condition(output, given)
            made = f"new_{operand.parameter}"
            elements.source.add(f"{made} = {self._text(formula, at)}")
            for n, more in enumerate(("", " + 1")):
                text = f"{made}[{n}]"
                if when is not None:
                    elements.source.uses(*library_functions(when))
                    condition = code(when, partial(self._value, at=at, more=more))
                    kept = self._value(Name(output), at, more)
                    text = f"{text} if {condition} else Float32({kept})"
                target = elements.target(operand, rows=False, at=at + more, v="v" + more)
                elements.source.add(f"{target} = {text}")
            elements.made[operand.parameter] = made
        elements.made.clear()

    def _condition(self, output: str, formula: Expression) -> tuple[Expression, Expression | None]:
        """A formula with the condition under which it holds, if that cannot be put into it.

        Where an output is multiplied by a value of its row, the value can be 1 instead, which
        saves choosing between elements.
        """
        when = self.elements.operation.when
        if when is None or self._varies(when):
            return formula, when
        match formula:
            case Binary("*", Name(name) as kept, factor) | Binary("*", factor, Name(name) as kept):
                if name == output and not self._varies(factor):
                    return Binary("*", kept, Call("where", (when, factor, _ONE))), None
            case _:
                pass
        return formula, when

    def _value(self, name: Name, at: str, more: str = "") -> str:
        return self.elements.value_of(name, rows=False, at=at + more, v="v" + more)

    # -- expressions ---------------------------------------------------------------------------

    def _varies(self, node: Expression) -> bool:
        """Whether elements of a row differ in it."""
        found = [self.operands.get(name.name) for name in references(node)]
        return any(operand is not None and operand.shape is not Shape.ROWS for operand in found)

    def _text(self, node: Expression, at: str) -> str:
        """A pair."""
        uses = self.elements.source.uses
        if not self._varies(node):
            uses("twice", *library_functions(node))
            return f"twice({code(node, partial(self._value, at=at))})"

        def text(other: Expression) -> str:
            return self._text(other, at)

        match node:
            case Name():
                return self._name(node, at)
            case Unary("-", operand):
                uses("twice")
                return f"{_PRODUCT}({text(operand)}, twice(-1.0))"
            case Unary(_, operand):
                return text(operand)
            case Binary("+", Binary("*", a, b), c) | Binary("+", c, Binary("*", a, b)):
                return f"{_BOTH}({text(a)}, {text(b)}, {text(c)})"
            case Binary("-", Binary("*", a, b), c) if not self._varies(c):
                return f"{_BOTH}({text(a)}, {text(b)}, {text(Unary('-', c))})"
            case Binary("-", c, Binary("*", a, b)) if not self._varies(a):
                return f"{_BOTH}({text(Unary('-', a))}, {text(b)}, {text(c)})"
            case Binary("-", c, Binary("*", a, b)) if not self._varies(b):
                return f"{_BOTH}({text(a)}, {text(Unary('-', b))}, {text(c)})"
            case Binary(operator, left, right):
                function = {"+": _SUM, "-": _DIFFERENCE, "*": _PRODUCT}[operator]
                return f"{function}({text(left)}, {text(right)})"
            case Call("fma", arguments):
                return f"{_BOTH}({', '.join(map(text, arguments))})"
            case Call(function, (argument,)) if function in _PAIRED:
                uses(f"{function}_pair")
                return f"{function}_pair({text(argument)})"
            case Call(function, (argument,)):
                x = text(argument)
                uses("exp2_pair")
                if function == "exp":
                    uses("twice")
                    x = f"{_PRODUCT}({x}, twice({LOG2_E}))"
                return f"exp2_pair({', '.join([x, *self.elements.in_part])})"
            case _:
                raise AssertionError(node)

    def _name(self, name: Name, at: str) -> str:
        made = self.elements.made.get(self.operands[name.name].parameter)
        if made is not None:
            return made
        return f"({self._value(name, at)}, {self._value(name, at, ' + 1')})"


def _is_packed(node: Expression) -> bool:
    """Whether there is an instruction, or a function of the library, for pairs."""
    match node:
        case Name() | Unary("+" | "-", _) | Binary("+" | "-" | "*", _, _):
            return True
        case Call(function):
            return function in ("exp2", "exp", "fma") or function in _PAIRED
        case _:
            return False


def _saves(node: Expression) -> bool:
    if isinstance(node, Call):
        return node.function == "fma" or node.function in _PAIRED
    return isinstance(node, Binary)
