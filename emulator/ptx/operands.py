"""The grammar's callbacks for operands and literals; see `build` for those of everything else."""

# lark annotates its trees and tokens only in part.
# pyright: reportUnknownMemberType=false, reportMissingTypeArgument=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from typing import Any, cast

from lark import Token, Transformer

from schedgen.emulator.ptx.literals import parse_integer, parse_number
from schedgen.emulator.ptx.tree import (
    Address,
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

Children = list[Any]
"""What lark hands to a callback: tokens and results of callbacks, in the order of the text."""


class BadLiteral(Exception):
    """A literal that the terminals admit and that makes no sense, as ``09``."""

    def __init__(self, token: Token, message: str, fix: str) -> None:
        super().__init__(token, message, fix)
        self.message = message
        self.fix = fix
        self.start: int = token.start_pos or 0
        self.length = len(token)


class OperandBuilder(Transformer):
    """Every name becomes a ``Symbol`` here; what it names is found out later, by `names`."""

    def word(self, children: Children) -> Symbol:
        return Symbol(str(children[0]))

    def word_offset(self, children: Children) -> Symbol:
        return Symbol(str(children[0]), integer(children[1]))

    def number(self, children: Children) -> Immediate:
        return Immediate(_number(children[0]))

    def negated(self, children: Children) -> Negated:
        return Negated(Register(str(children[1])))

    def pair(self, children: Children) -> Pair:
        return Pair(Symbol(str(children[0])), Symbol(str(children[2])))

    def vector(self, children: Children) -> Vector:
        return Vector(tuple(cast(list[Operand], children[1])))

    group = vector

    def empty_group(self, _: Children) -> Vector:
        return Vector(())

    def address(self, children: Children) -> Address:
        return Address(Symbol(str(children[1])))

    def address_offset(self, children: Children) -> Address:
        return Address(Symbol(str(children[1])), integer(children[2]))

    def address_absolute(self, children: Children) -> Address:
        return Address(None, integer(children[1]))

    def address_coordinates(self, children: Children) -> Address:
        return Address(Symbol(str(children[1])), 0, children[3].items)

    def address_offset_coordinates(self, children: Children) -> Address:
        return Address(Symbol(str(children[1])), integer(children[2]), children[4].items)


def integer(token: Token) -> int:
    """Return the value of an INTEGER or OFFSET."""
    try:
        return parse_integer(token)
    except ValueError:
        raise _no_number(token) from None


def _number(token: Token) -> int | float:
    try:
        return parse_number(token)
    except ValueError:
        raise _no_number(token) from None


def _no_number(token: Token) -> BadLiteral:
    fix = "an octal literal, which starts with 0, has the digits 0 to 7"
    return BadLiteral(token, f"'{token}' is no number of PTX", fix)
