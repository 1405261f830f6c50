"""Sums along rows whose parts may stay apart in the threads that share a row.

A sum that the main loop only carries on, as in ``l = l@1 * alpha + sum(P)``, is of no use before
the loop is over: each thread may add up what it has of a row, and the sum over threads is taken
once, by what reads it behind the loop. That is right where the carried sum is linear in what it was
before, and begins with zero. What reads it in the loop adds up a copy for itself, which is as much
to do as if the sum were whole in each iteration, and rounds as the reader behind the loop does.
`Work.apart` and `Work.combined` say so, for prices and emitters; where a thread has whole rows it
makes no difference.
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.expressions import Binary, Expression, Name, Unary, references
from schedgen.kernel import Kernel, Kind, Operation, Phase, Space


def sums_apart(kernel: Kernel) -> Kernel:
    """The kernel with such sums, and what reads them, marked in their work."""
    readers = {sum_.name: found for sum_ in kernel.body if (found := _readers(kernel, sum_))}
    if not readers:
        return kernel
    work = {name: replace(kernel.operation[name].work, apart=1) for name in readers}
    for name in (name for names in readers.values() for name in names):
        one = work.get(name, kernel.operation[name].work)
        work[name] = replace(one, combined=one.combined + 1)
    marked = (replace(o, work=work.get(o.name, o.work)) for o in kernel.operations)
    return replace(kernel, operations=tuple(marked))


def _readers(kernel: Kernel, one: Operation) -> tuple[str, ...]:
    """The operations that read a sum, one of them behind the loop, if it may be kept apart."""
    formulas = dict(one.formulas)
    if one.kind is not Kind.REDUCE or one.reduction != "sum" or set(formulas) != {"carry"}:
        return ()
    regions = [kernel.region_of(piece) for piece in one.writes]
    if len(regions) != 1 or regions[0].space is not Space.REGISTERS:
        return ()
    if regions[0].initial != "0":
        return ()
    if one.operand_space("from") != Space.REGISTERS.value:
        return ()
    carried = _written(one) & _names(formulas["carry"])
    if len(carried) != 1 or not linear(formulas["carry"], carried.pop()):
        return ()
    reading = [
        other
        for other in kernel.operations
        if other.name != one.name and {read.piece for read in other.reads} & {*one.writes}
    ]
    in_loop = [other for other in reading if other.phase is Phase.BODY]
    if len(reading) - len(in_loop) != 1 or any(other.kind is not Kind.MAP for other in in_loop):
        return ()
    return tuple(other.name for other in reading)


def _written(one: Operation) -> set[str]:
    """Names in the formulas of an operation that stand for what it writes."""
    return {name for name, pieces in one.operands if {*pieces} & {*one.writes}}


def _names(formula: Expression) -> set[str]:
    return {name.name for name in references(formula)}


def linear(formula: Expression, name: str) -> bool:
    """Whether a formula is its variable ``name`` times something that does not depend on it."""
    match formula:
        case Name():
            return formula.name == name
        case Unary(operator="+" | "-"):
            return linear(formula.operand, name)
        case Binary(operator="*"):
            sides = (formula.left, formula.right), (formula.right, formula.left)
            return any(linear(a, name) and name not in _names(b) for a, b in sides)
        case Binary(operator="/"):
            return linear(formula.left, name) and name not in _names(formula.right)
        case _:
            return False
