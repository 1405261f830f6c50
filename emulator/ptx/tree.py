"""What a PTX file says: modules, kernels and typed instructions, as `parse` makes them.

Everything here is immutable and carries the line it came from. Names follow the PTX ISA; the
grammar of statements is that of its chapter 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the CuTe DSL source, from a `.loc` directive.

    Lines are told apart, not what is in one. ``caller`` is the call that was inlined, as far as the
    PTX says so.
    """

    file: str
    line: int
    column: int = field(default=0, compare=False)
    caller: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Register:
    """``%r12`` or a special register as ``%tid.x``; ``name`` has the percent sign.

    A register declared without a percent sign, as inline assembly does, has none here either.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. ``value`` is an int, or a float for ``0f…``, ``0d…`` and decimal literals."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter, label or function, with a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``: a register or a symbol (None for an absolute address), offset in bytes.

    ``coordinates`` are the second part of a tensor-map operand, ``[map, {x, y}]``.
    """

    base: Register | Symbol | None
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, …}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two destinations, as in ``elect.sync r|p``, or of ``setp.… p|q``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p`` as a source operand."""

    operand: Register


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Negated
"""``_``, the destination that nobody reads, is ``Register("_")``."""


def registers_of(operand: Operand) -> Iterator[str]:
    """The registers that an operand consists of, in order; not those of an address."""
    match operand:
        case Register(name):
            yield name
        case Vector(items):
            for item in items:
                yield from registers_of(item)
        case Pair(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case _:
            return


def touched(operand: Operand) -> Iterator[str]:
    """All registers that an operand has, those of addresses, too."""
    match operand:
        case Address(Register(name), _, ()):  # most are like this
            yield name
        case Address(base, _, coordinates):
            for part in (base, *coordinates):
                if part is not None:
                    yield from touched(part)
        case Negated(register):
            yield register.name
        case _:
            yield from registers_of(operand)


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """``opcode`` is the text before the first dot, ``modifiers`` what the dots separate.

    ``mbarrier.try_wait.parity.shared::cta.b64 p, [r], q`` has the opcode ``mbarrier`` and the
    modifiers ``("try_wait", "parity", "shared::cta", "b64")``.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    guard: Guard | None = None
    location: Location | None = None

    @property
    def name(self) -> str:
        """Opcode and modifiers as written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: ``size`` bytes at ``offset`` of the parameter space."""

    name: str
    type: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space. ``size`` is 0 for ``extern .shared`` arrays without a length."""

    name: str
    space: str
    type: str
    size: int
    align: int
    line: int
    data: bytes = b""
    """Initial bytes of a constant or global variable, shorter than ``size`` where zero follows."""


@dataclass(frozen=True)
class Kernel:
    """One ``.entry``. ``labels`` map to the index in ``body`` of what follows them.

    What is declared within inner braces is called ``name#n`` here, with n the number of the braces
    in the kernel; ``#`` is in no name of PTX.
    """

    name: str
    parameters: tuple[Parameter, ...]
    registers: dict[str, str]
    """Name as in `Register` -> type without dot (``b32``, ``pred``, …), ranges expanded."""
    variables: tuple[Variable, ...]
    body: tuple[Instruction, ...]
    labels: dict[str, int]
    line: int
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Performance directives as ``maxntid`` -> (384, 1, 1), ``reqnctapercluster`` -> (2, 1, 1)."""
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """``.branchtargets`` and ``.calltargets`` lists: name -> labels or functions."""


@dataclass(frozen=True)
class Function:
    """A ``.func``; ``body`` is None for a prototype, as for functions that the driver provides."""

    name: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    line: int
    body: Kernel | None


@dataclass(frozen=True)
class Module:
    version: tuple[int, int]
    target: str
    """As written first in ``.target``: ``sm_100a``."""
    address_size: int
    kernels: dict[str, Kernel]
    variables: tuple[Variable, ...]
    lines: tuple[str, ...]
    """The text, for messages that quote it."""
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
