"""What a barrier is called in the source: the expression that the line which initialized it has.

An mbarrier is an address to the compiler. Its name is looked for in the text: in the line that
initializes it, and, where a helper did that, in the calls that lead there.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from schedgen.emulator.ptx.tree import Location

_DEPTH = 8
"""Variables and parameters that are followed."""
_PIPELINE = re.compile(r"Pipeline(?!Order|TmaStore)\w*\.create$")
"""CUTLASS's pipelines lay all barriers of their stages' fills before those of their releases."""
Node = TypeVar("Node", bound=ast.AST)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Name:
    """What is initialized. ``halves``: a pipeline, whose second half are the releases."""

    text: str
    halves: bool = False


def name_of(stack: Sequence[Location]) -> Name | None:
    """The name of the barriers that are initialized at a place.

    Args:
        stack: the place and the calls around it, innermost first.
    """
    if not stack:
        return None
    statement = _statement(stack[0])
    if statement is None:
        return None
    made = _made(stack)
    if made is not None:
        return made
    argument = _argument(statement)
    return None if argument is None else Name(ast.unparse(_resolved(argument, stack)))


def _made(stack: Sequence[Location]) -> Name | None:
    """The variable that what has the barriers is kept in, where a call made it; outside of
    functions that return it."""
    target: ast.expr | None = None
    halves = False
    for place in stack:
        match _statement(place):
            case ast.Return(value=ast.Call(func=called)):
                target = None
            case ast.Assign(targets=[one], value=ast.Call(func=called)):
                target = one
            case ast.AnnAssign(target=one, value=ast.Call(func=called)):
                target = one
            case _:
                break
        halves = halves or bool(_PIPELINE.search(ast.unparse(called)))
        if target is not None and not _returned(_function(place), target):
            break
    return None if target is None else Name(ast.unparse(target), halves)


def _returned(function: _Function | None, target: ast.expr) -> bool:
    text = ast.unparse(target)
    return function is not None and any(
        isinstance(one, ast.Return) and one.value is not None and ast.unparse(one.value) == text
        for one in ast.walk(function)
    )


def _argument(statement: ast.stmt) -> ast.expr | None:
    """The barrier of the call that initializes it: what is called so, or the first argument."""
    calls = [one for one in ast.walk(statement) if isinstance(one, ast.Call)]
    for call in calls:
        for keyword in call.keywords:
            if keyword.arg is not None and "bar" in keyword.arg:
                return keyword.value
    initializing = [one for one in calls if "init" in ast.unparse(one.func)]
    for call in initializing or calls:
        if call.args:
            return call.args[0]
    return None


def _resolved(expression: ast.expr, stack: Sequence[Location]) -> ast.expr:
    """The same, with variables and parameters replaced by what they stand for."""
    at = 0
    for _ in range(_DEPTH):
        base = _base(expression)
        function = _function(stack[at])
        if not isinstance(base, ast.Name) or function is None:
            return base
        assigned = _assigned(function, base.id, stack[at].line)
        if assigned is not None:
            if isinstance(assigned, ast.Constant):
                return base
            expression = assigned
            continue
        passed = None
        if at + 1 < len(stack):
            passed = _passed(function, base.id, _statement(stack[at + 1]))
        if passed is None:
            return base
        expression = passed
        at += 1
    return _base(expression)


def _base(expression: ast.expr) -> ast.expr:
    """``a.b`` of ``a.b.data_ptr() + i`` and the like."""
    while True:
        match expression:
            case ast.BinOp(left=left, op=ast.Add()):
                expression = left
            case ast.Subscript(value=value):
                expression = value
            case ast.Call(func=ast.Attribute(value=value), args=[]):
                expression = value
            case ast.Attribute(value=value, attr="iterator" | "ptr"):
                expression = value
            case _:
                return expression


def _assigned(function: _Function, name: str, line: int) -> ast.expr | None:
    """What a variable of a function was given last in front of a line."""
    found: ast.expr | None = None
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or node.lineno >= line:
            continue
        if any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            found = node.value
    return found


def _passed(function: _Function, name: str, caller: ast.stmt | None) -> ast.expr | None:
    """What a call gives for a parameter of the function."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if caller is None or name not in names:
        return None
    for call in (one for one in ast.walk(caller) if isinstance(one, ast.Call)):
        own = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if own != function.name:
            continue
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        bound = isinstance(call.func, ast.Attribute) and names[0] in ("self", "cls")
        at = names.index(name) - bound
        if 0 <= at < len(call.args):
            return call.args[at]
    return None


def _statement(place: Location) -> ast.stmt | None:
    """The innermost statement that a line belongs to."""
    return min(_around(place, ast.stmt), key=_length, default=None)


def _function(place: Location) -> _Function | None:
    found = [one for one in _around(place, ast.stmt) if isinstance(one, _Function)]
    return min(found, key=_length, default=None)


def _around(place: Location, kind: type[Node]) -> Iterator[Node]:
    for node in ast.walk(_tree(place.file)):
        if isinstance(node, kind) and _first(node) <= place.line <= _last(node):
            yield node


def _first(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _last(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", None) or 0)


def _length(node: ast.AST) -> int:
    return _last(node) - _first(node)


@lru_cache(maxsize=32)
def _tree(file: str) -> ast.Module:
    """The parsed file; an empty one for what is no Python, or not there."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])
