"""In which iterations of an output tile masks keep whole tiles: those need no code of masks.

A comparison of sums of rows and columns keeps all of a tile where it does so in the corner in which
it is least likely to hold. Both move by the same in each iteration, so that it holds up to some
iteration, or from one on; where that is is a quotient that each role computes once for an output
tile. ``and`` leaves the iterations that both sides keep, ``or`` those that either does, if that is
one range for certain.

Where the main loop takes blocks of an array, nobody knows where those are, but another array says
how many of the first ones are full: masks and maps that ask for `PARTLY` have nothing to do there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import whole
from schedgen.codegen.ir import Code, code, plus
from schedgen.codegen.ir import Name as Variable
from schedgen.codegen.masks import ORDERED
from schedgen.codegen.plan import Plan
from schedgen.codegen.threads import start
from schedgen.codegen.transfers import atom
from schedgen.codegen.walks import WHOLE_BLOCKS
from schedgen.expressions import (
    Binary,
    Boolean,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    evaluate,
    references,
)
from schedgen.expressions.solving import OPPOSITE
from schedgen.kernel import Kind, Operation
from schedgen.program.added import is_added
from schedgen.program.model import RoleProgram, Run
from schedgen.tensors import PARTLY, Place

_ROW, _COLUMN = Name("row"), Name("column")
_ZERO, _NEVER = code("0"), code("Int32(0)")


@dataclass(frozen=True, slots=True)
class Side:
    """Rows or columns of a tile: ``size`` of them from ``start + step * i`` on in iteration i;
    ``start`` is a whole number that the output tile decides.
    """

    size: int
    step: int
    start: Code


@dataclass(frozen=True, slots=True)
class Range:
    """Iterations, or turns, from ``first`` on and before ``end``; None: no limit there."""

    first: Code | None = None
    end: Code | None = None

    def later(self, by: int) -> Range:
        """All of them ``by`` later."""
        return Range(*(None if at is None else plus(at, by) for at in (self.first, self.end)))


def whole_turns(plan: Plan, role: RoleProgram) -> Range | None:
    """Turns of a role's loop in which none of its masks has anything to do; None if there are no
    masks, if nobody knows, or if there never is anything.
    """
    found: Range | None = None
    for step in role.loop:
        if isinstance(step.action, Run) and not is_added(step.action.operation):
            operation = plan.operation(step.action.operation)
            if masks(operation):
                kept = _of_mask(plan, operation)
                if kept is None:
                    return None
                kept = kept.later(step.shift)
                found = kept if found is None else both(found, kept)
    return None if found == Range() else found


def full_until(plan: Plan, role: RoleProgram, turns: Range) -> bool:
    """Whether ``turns`` of a role, those of `whole_turns`, end where blocks are not full any more
    for all that asks for it.
    """
    steps = ((s.shift, s.action.operation) for s in role.loop if isinstance(s.action, Run))
    kernels = ((shift, name) for shift, name in steps if not is_added(name))
    shifts = {shift for shift, name in kernels if masks(plan.operation(name))}
    return {Range(end=code("{}", WHOLE_BLOCKS)).later(shift) for shift in shifts} == {turns}


def masks(operation: Operation) -> bool:
    """Whether an operation is a mask, or a map of blocks that are not full."""
    when = operation.when
    of_blocks = when is not None and _is_of_blocks(when)
    return operation.kind is Kind.MASK or (operation.kind is Kind.MAP and of_blocks)


def _of_mask(plan: Plan, operation: Operation) -> Range | None:
    """Iterations of an output tile, from its first one on."""
    if operation.kind is not Kind.MASK:
        assert operation.when is not None
        return _of_blocks(Unary("not", operation.when))
    rows, columns = (_side(plan, place) for place in operation.places)
    return whole_iterations(dict(operation.formulas)["keep"], rows, columns, plan.extents)


def _side(plan: Plan, place: Place) -> Side | None:
    """None where nobody knows how it moves: tiles that share iterations, or an element, and
    blocks that an array says.
    """
    if place.grouped or (place.step and (place.split_k or plan.kernel.walk)):
        return None
    at = start(replace(place, step=0), None, plan.kernel)
    if place.step and plan.kernel.tile_first is not None:
        at = code("{} * {} + {}", place.step, Variable("skipped"), at)
    return Side(place.size, place.step, at if at == _ZERO else code("Int32({})", at))


def whole_iterations(
    keep: Expression, rows: Side | None, columns: Side | None, extents: Collection[str]
) -> Range | None:
    """In which iterations ``keep`` holds for all of a tile; None if nobody knows.

    ``extents`` are names of whole numbers. Outside of the range it may hold, too.
    """
    match keep:
        case _ if _is_of_blocks(keep):
            return _of_blocks(keep)
        case Boolean(value):
            return Range() if value else Range(end=_NEVER)
        case Logical(operator, left, right):
            one = whole_iterations(left, rows, columns, extents)
            other = whole_iterations(right, rows, columns, extents)
            if one is None or other is None:
                return None if operator == "and" else one or other
            return both(one, other) if operator == "and" else _either(one, other)
        case Unary("not", Compare(operator, left, right)) if operator in ORDERED:
            return _compared(Compare(OPPOSITE[operator], left, right), rows, columns, extents)
        case Compare(operator) if operator in ORDERED:
            return _compared(keep, rows, columns, extents)
        case _:
            return None


def _is_of_blocks(condition: Expression) -> bool:
    """Whether it asks for nothing but whether a block is full."""
    return {name.name for name in references(condition)} == {PARTLY}


def _of_blocks(keep: Expression) -> Range:
    """Iterations in which such a condition holds: full ones come first."""
    full, others = (bool(evaluate(keep, {PARTLY: Fraction(partly)})) for partly in (0, 1))
    if full:
        return Range(end=None if others else code("{}", WHOLE_BLOCKS))
    return Range(first=code("{}", WHOLE_BLOCKS)) if others else Range(end=_NEVER)


def both(one: Range, other: Range) -> Range:
    """What is in both."""
    first, end = _extreme("max", one.first, other.first), _extreme("min", one.end, other.end)
    return Range(first or one.first or other.first, end or one.end or other.end)


def _either(one: Range, other: Range) -> Range | None:
    """What is in either, if that is a range: both have no limit at the same side."""
    if one.first is None and other.first is None:
        return Range(end=_extreme("max", one.end, other.end))
    if one.end is None and other.end is None:
        return Range(first=_extreme("min", one.first, other.first))
    return None


def _extreme(function: str, one: Code | None, other: Code | None) -> Code | None:
    if one is None or other is None:
        return None
    return one if one == other else code(f"cutlass.{function}({{}}, {{}})", one, other)


# -- one comparison -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sum:
    """``constant`` and multiples of whole numbers."""

    constant: int = 0
    terms: tuple[tuple[Expression, int], ...] = ()

    def plus(self, other: _Sum, times: int = 1) -> _Sum:
        found = dict(self.terms)
        for term, factor in other.terms:
            found[term] = found.get(term, 0) + times * factor
        kept = tuple((term, factor) for term, factor in found.items() if factor)
        return _Sum(self.constant + times * other.constant, kept)

    def factor(self, of: Expression) -> int:
        return dict(self.terms).get(of, 0)


def _compared(
    keep: Compare, rows: Side | None, columns: Side | None, extents: Collection[str]
) -> Range | None:
    """Of a comparison, which is that a sum is not negative."""
    left, right = _sum(keep.left, extents), _sum(keep.right, extents)
    if left is None or right is None:
        return None
    slack = right.plus(left, -1) if keep.operator in ("<", "<=") else left.plus(right, -1)
    constant = slack.constant - (keep.operator in ("<", ">"))
    step, others = 0, list[tuple[Code, int]]()
    for name, side in ((_ROW, rows), (_COLUMN, columns)):
        factor = slack.factor(name)
        if not factor:
            continue
        if side is None:
            return None
        constant += min(0, factor * (side.size - 1))
        step += factor * side.step
        others += [(side.start, factor)] if side.start != _ZERO else []
    others += [(whole(t), factor) for t, factor in slack.terms if t not in (_ROW, _COLUMN)]
    if not step:
        holds = code("{} >= 0", _written(others, constant))
        return Range(end=code("cutlass.select_({}, Int32(1 << 30), Int32(0))", holds))
    # behind the last i with i * -step <= rest; from the first one with i * step >= -rest on
    if step < 0:
        return Range(end=_quotient(others, constant - step, -step))
    return Range(first=_quotient([(t, -f) for t, f in others], step - 1 - constant, step))


def _quotient(others: Iterable[tuple[Code, int]], constant: int, by: int) -> Code:
    above = _written(others, constant)
    return above if by == 1 else code("{} // {}", atom(above), by)


def _written(others: Iterable[tuple[Code, int]], constant: int) -> Code:
    """A sum; what is added stands first."""
    found: Code | None = None
    for term, factor in sorted(others, key=lambda one: one[1] < 0):
        sign = "-" if factor < 0 else "+"
        times = term if abs(factor) == 1 else code("{} * {}", abs(factor), term)
        begin = code("-{}" if factor < 0 else "{}", times)
        found = begin if found is None else code(f"{{}} {sign} {{}}", found, times)
    return code("Int32({})", constant) if found is None else plus(found, constant)


def _sum(node: Expression, extents: Collection[str]) -> _Sum | None:
    """An expression as a sum over whole numbers; None if it is none."""
    match node:
        case Number(value):
            return _Sum(int(value)) if value.denominator == 1 else None
        case Unary("+" | "-" as operator, operand):
            inner = _sum(operand, extents)
            return None if inner is None else _Sum().plus(inner, 1 if operator == "+" else -1)
        case Binary("+" | "-" | "*" as operator, left, right):
            one, other = _sum(left, extents), _sum(right, extents)
            if one is None or other is None:
                return None
            if operator != "*":
                return one.plus(other, 1 if operator == "+" else -1)
            if one.terms and other.terms:
                return None
            return _Sum().plus(*((other, one.constant) if not one.terms else (one, other.constant)))
        case _ if node in (_ROW, _COLUMN):
            return _Sum(0, ((node, 1),))
        case _:
            return _atom(node, extents)


def _atom(node: Expression, extents: Collection[str]) -> _Sum | None:
    """A whole number that is no sum."""
    if not {name.name for name in references(node)} <= {*extents}:
        return None
    try:
        whole(node)
    except EmitError:  # it is none
        return None
    return _Sum(0, ((node, 1),))
