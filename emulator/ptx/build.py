"""The grammar's callbacks: from lark's productions to `syntax`.

Only this module, `operands` and `mistakes` know lark. A method is called with the children of its
production as soon as that is complete; the frequent productions keep all their tokens (``!`` in the
grammar), which is why the positions in ``children`` look the way they do.
"""

# lark annotates its trees and tokens only in part.
# pyright: reportUnknownMemberType=false, reportMissingTypeArgument=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from lark import Lark, Token

from schedgen.emulator.ptx.operands import BadLiteral, Children, OperandBuilder, integer
from schedgen.emulator.ptx.syntax import (
    Block,
    Declared,
    File,
    Header,
    Item,
    Label,
    Registers,
    Routine,
    SourceLine,
    Statement,
    Table,
    Value,
    Variables,
)
from schedgen.emulator.ptx.tree import Guard, Immediate, Symbol

MAX_RANGE = 1_000_000
"""Members of ``%r<n>``: a hundred times what compilers need, and a second to declare."""


class Extent(NamedTuple):
    """One pair of brackets in the declaration of an array."""

    length: int | None


class Tuning(NamedTuple):
    """A performance directive."""

    directive: str
    values: tuple[int, ...]


def parse_items(text: str) -> list[Item]:
    """Return what stands in a PTX text, outermost items first.

    Raises:
        UnexpectedInput: of lark, on a syntax error.
        BadLiteral: on a literal without a value.
    """
    return cast(list[Item], cast(object, _parser().parse(text)))


@cache
def _parser() -> Lark:
    return Lark(
        Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        transformer=Builder(),
        maybe_placeholders=False,
    )


class Builder(OperandBuilder):
    """Callbacks of the grammar; see there for what each production looks like."""

    # --- module ----------------------------------------------------------------------------------

    def start(self, children: Children) -> list[Item]:
        return [child for child in children if child is not None]

    def version(self, children: Children) -> Header:
        return Header(".version", str(children[0]), children[0].line)

    def target(self, children: Children) -> Header:
        return Header(".target", str(children[0]), children[0].line)

    def address_size(self, children: Children) -> Header:
        return Header(".address_size", str(integer(children[0])), children[0].line)

    def file(self, children: Children) -> File:
        return File(integer(children[0]), str(children[1])[1:-1])

    def section(self, _: Children) -> None:
        """Debug information of formats that the emulator has no use for."""

    def pragma(self, _: Children) -> None:
        """Advice to an optimizer."""

    def kernel(self, children: Children) -> Routine:
        return _routine(children, entry=True)

    def function(self, children: Children) -> Routine:
        return _routine(children, entry=False)

    prototype = function

    def tuning(self, children: Children) -> Tuning:
        return Tuning(str(children[0][1:]), tuple(integer(token) for token in children[1:]))

    def parameters(self, children: Children) -> list[Declared]:
        return children

    def parameter(self, children: Children) -> Declared:
        # What `.ptr` says of a pointer stands before the name; it is advice.
        at = next(i for i, child in enumerate(children) if _is(child, "NAME"))
        return _declared("param", children[1], children[0], children[at:])

    # --- declarations ----------------------------------------------------------------------------

    def linked(self, children: Children) -> Variables:
        linking, variables = children
        if linking == ".extern":
            return Variables([replace(one, external=True) for one in variables.declared])
        return variables

    def variable(self, children: Children) -> Variables:
        space, alignment, type_, *declarators = children
        return Variables(
            [
                _declared(space[1:], type_, alignment, one)
                for declarator in declarators
                for one in declarator
            ]
        )

    def declarator(self, children: Children) -> list[Children]:
        return [children]

    def ranged(self, children: Children) -> list[Children]:
        return [[token] for token in _expanded(children)]

    def alignment(self, children: Children) -> int | None:
        return integer(children[0]) if children else None

    def type(self, children: Children) -> tuple[str, int]:
        vector = int(children[0][2:]) if len(children) == 2 else 1
        return str(children[-1][1:]), vector

    def dimension(self, children: Children) -> Extent:
        return Extent(integer(children[0]) if children else None)

    def range(self, children: Children) -> int:
        return integer(children[0])

    def values(self, children: Children) -> list[Value]:
        return [_plain(child) for child in children]

    def address_value(self, children: Children) -> Symbol:
        return Symbol(str(children[0]))

    def generic_address_value(self, children: Children) -> Symbol:
        return Symbol(str(children[1]))

    def registers(self, children: Children) -> Registers:
        (type_, vector), *declared = children
        names = tuple(str(token) for register in declared for token in register)
        return Registers(type_, vector, names, declared[0][0].line)

    def register(self, children: Children) -> list[Token]:
        return _expanded(children) if len(children) == 2 else children

    # --- statements ------------------------------------------------------------------------------

    def one(self, children: Children) -> Children:
        return children

    def append(self, children: Children) -> Children:
        children[0].append(children[1])
        return children[0]

    def append_after_comma(self, children: Children) -> Children:
        children[0].append(children[2])
        return children[0]

    def block(self, children: Children) -> Block:
        return Block([part for part in children[1] if part is not None], children[0].line)

    def empty_block(self, children: Children) -> Block:
        return Block([], children[0].line)

    def bare(self, children: Children) -> Statement:
        return Statement(str(children[0]), [], children[0].line)

    def instruction(self, children: Children) -> Statement:
        return Statement(str(children[0]), children[1], children[0].line)

    def guarded_bare(self, children: Children) -> Statement:
        return Statement(str(children[1]), [], children[1].line, children[0])

    def guarded(self, children: Children) -> Statement:
        return Statement(str(children[1]), children[2], children[1].line, children[0])

    def guard(self, children: Children) -> Guard:
        return Guard(str(children[1]))

    def guard_not(self, children: Children) -> Guard:
        return Guard(str(children[2]), negated=True)

    def label(self, children: Children) -> Label:
        return Label(_label_name(children[0]), children[0].line)

    def location(self, children: Children) -> SourceLine:
        _, file, number, column, *more = children
        inlined = more[-1] if more else None
        return SourceLine(integer(file), integer(number), file.line, integer(column), inlined)

    def inlined(self, children: Children) -> tuple[int, int, int]:
        """Where an inlined function is called."""
        file, number, column = map(integer, children[-3:])
        return file, number, column

    def table(self, children: Children) -> Table:
        entries = tuple(str(token) for entry in children[2:] for token in entry)
        return Table(_label_name(children[0]), entries, children[0].line)

    def table_entry(self, children: Children) -> list[Token]:
        return _expanded(children) if len(children) == 2 else children


def _routine(children: Children, *, entry: bool) -> Routine:
    """From [LINKING], ENTRY or FUNC, [results], NAME, parameters, tuning and None, [body]."""
    at = next(i for i, child in enumerate(children) if _is(child, "NAME"))
    name, parameters, *rest = children[at:]
    return Routine(
        name=str(name),
        entry=entry,
        results=[] if entry else children[at - 1],
        parameters=parameters,
        tuning={child.directive: child.values for child in rest if isinstance(child, Tuning)},
        body=rest[-1] if rest and isinstance(rest[-1], Block) else None,
        line=name.line,
    )


def _declared(
    space: str, type_: tuple[str, int], alignment: int | None, declarator: Children
) -> Declared:
    """From NAME, extents and perhaps a value."""
    name, *rest = declarator
    shape = tuple(child.length for child in rest if isinstance(child, Extent))
    value = _plain(rest[-1]) if rest and not isinstance(rest[-1], Extent) else None
    return Declared(space, *type_, alignment, str(name), shape, value, False, name.line)


def _expanded(children: Children) -> list[Token]:
    """``%r<3>`` as ``%r0``, ``%r1``, ``%r2`` (PTX ISA 5.4.6)."""
    token, count = children
    if count > MAX_RANGE:
        message = f"'{token}' has {count} members; the emulator takes {MAX_RANGE}"
        raise BadLiteral(token, message, "declare fewer")
    return [token.update(value=f"{token}{i}") for i in range(count)]


def _plain(child: Immediate | Symbol | list[Value]) -> Value:
    return child.value if isinstance(child, Immediate) else child


def _is(child: Any, terminal: str) -> bool:
    return isinstance(child, Token) and child.type == terminal


def _label_name(token: Token) -> str:
    return token[:-1].rstrip()
