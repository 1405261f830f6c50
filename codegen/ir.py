"""What a generated file is made of before it is text: values and nodes.

A piece of ``Code`` is text with values between it: variables, functions of the library, iterations,
slots and phases of rings. Nodes are statements, and statements that have others inside. What a role
takes as arguments, which functions a file needs and which rings a loop carries along follow from
the values of its nodes; `schedgen.codegen.printing` turns nodes into lines, once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from schedgen.codegen.numbers import Affine, Number
from schedgen.codegen.running import Carried, Iteration, PipelineState, Running, carried
from schedgen.program.model import FenceKind

# -- values ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A variable; what is around it may have to hand it over."""

    text: str


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A function of the library."""

    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The slot of a ring that a running number means."""

    number: Running


@dataclass(frozen=True, slots=True)
class Phase:
    """The parity of the phase in which the barrier of that slot is."""

    number: Running


Value = Name | LibraryFunction | Iteration | Stage | Phase | Number


@dataclass(frozen=True, slots=True)
class Code:
    """An expression or a line: text, which means nothing here, with values."""

    parts: tuple[str | Value, ...]

    @property
    def values(self) -> Iterator[Value]:
        return (part for part in self.parts if not isinstance(part, str))

    def renamed(self, names: dict[str, str]) -> Code:
        """The same over other variables."""
        return Code(
            tuple(
                Name(names.get(part.text, part.text)) if isinstance(part, Name) else part
                for part in self.parts
            )
        )


Piece = str | int | Value | Code


def code(template: str, *values: Piece) -> Code:
    """``template`` with a value for each ``{}``."""
    parts: list[str | Value] = []
    texts = template.split("{}")
    if len(texts) != len(values) + 1:
        raise ValueError(f"{len(values)} values for '{template}'")
    for text, value in zip(texts, (*values, ""), strict=True):
        parts += [text, *_parts(value)]
    return Code(tuple(part for part in parts if part != ""))


def joined(separator: str, pieces: Iterable[Piece]) -> Code:
    """All of them, with ``separator`` between two."""
    found = list(pieces)
    return code(separator.join("{}" for _ in found), *found)


def plus(what: Piece, number: int) -> Code:
    """``what`` and a number more, which need not be written if it is 0."""
    return code("{}{}", what, Number(Affine(number), summand=True))


def called(function: str, *arguments: Piece) -> Code:
    """A call of a function of the library."""
    return code("{}({})", LibraryFunction(function), joined(", ", arguments))


def _parts(value: Piece) -> tuple[str | Value, ...]:
    match value:
        case Code(parts):
            return parts
        case str() | int():
            return (str(value),)
        case _:
            return (value,)


# -- nodes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A statement of one line; an empty one is an empty line."""

    code: Code


@dataclass(frozen=True, slots=True)
class Call:
    """A statement that may need several lines: ``head(arguments)end``."""

    head: Code
    arguments: tuple[Code, ...]
    end: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    words: Code


@dataclass(frozen=True, slots=True)
class Uses:
    """No statement: what lines of plain text around it use of the library."""

    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A head that ends in a colon, and what is inside."""

    head: Code
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Guarded:
    """What runs where all of ``terms`` hold."""

    terms: tuple[Code, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """The turns of a role's loop from ``first`` on, which carry rings along; ``last`` is what each
    ends with. They may be several loops, one behind the other: this one goes on at ``begin``, with
    the rings as they are there, and stops before ``end``.
    """

    first: int
    body: tuple[Node, ...]
    last: tuple[Node, ...]
    states: tuple[PipelineState, ...]
    begin: Name | None = None
    end: Name = Name("trips")


@dataclass(frozen=True, slots=True)
class Wait:
    """Until a phase of the barrier at ``address`` is complete; ``phase`` is its parity. ``prompt``:
    without a hint of how long that may take.
    """

    address: Code
    phase: Code
    prompt: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """An arrival of each thread, or of one of a warp; with ``bytes`` it expects so many."""

    address: Code
    elected: bool
    bytes: Code | None = None


@dataclass(frozen=True, slots=True)
class Numbered:
    """An arrival of all threads of a role at a numbered barrier of the hardware, which takes
    ``threads`` arrivals; ``waits``: they wait there for the others, too.
    """

    number: int
    threads: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """An arrival when the tensor queue has finished what was issued so far."""

    address: Code


Queue = Literal["bulk", "wgmma", "threads"]
"""Queues of a role whose operations are counted in groups; of copies each thread has its own."""


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """Ends a group."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Until no more than the last ``pending`` groups are unfinished."""

    queue: Queue
    pending: int


@dataclass(frozen=True, slots=True)
class Fence:
    """``code`` is how the architecture writes it."""

    kind: FenceKind
    code: Code


@dataclass(frozen=True, slots=True)
class Issue:
    """An operation: its name, what it is in words, and how it is done."""

    operation: str
    label: str
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file, with its types; ``decorator`` says where it runs."""

    decorator: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    body: tuple[Node, ...]


Node = (
    Line
    | Call
    | Comment
    | Uses
    | Block
    | Guarded
    | Loop
    | Wait
    | Arrive
    | Numbered
    | Commit
    | CommitGroup
    | WaitGroup
    | Fence
    | Issue
    | Function
)


# -- what nodes use --------------------------------------------------------------------------------


def inside(node: Node) -> tuple[Node, ...]:
    """The nodes of which it consists."""
    match node:
        case Block(body=body) | Guarded(body=body) | Issue(body=body) | Function(body=body):
            return body
        case Loop(body=body, last=last):
            return (*body, *last)
        case _:
            return ()


def own(node: Node) -> tuple[Code, ...]:
    """The code of a node beside that of the nodes inside."""
    match node:
        case Line(code=line) | Fence(code=line):
            return (line,)
        case Call(head=head, arguments=arguments):
            return (head, *arguments)
        case Block(head=head):
            return (head,)
        case Guarded(terms=terms):
            return terms
        case Loop(begin=begin, end=end):
            return (Code((end,)), *([] if begin is None else [Code((begin,))]))
        case Wait(address=address, phase=phase):
            return (address, phase)
        case Arrive(address=address, bytes=size):
            return (address,) if size is None else (address, size)
        case Commit(address=address):
            return (address,)
        case Comment() | Uses() | Numbered() | CommitGroup() | WaitGroup() | Issue() | Function():
            return ()


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """All nodes, each before what is inside."""
    for node in nodes:
        yield node
        yield from walk(inside(node))


def values(nodes: Iterable[Node]) -> Iterator[Value]:
    """All values, in order."""
    for node in walk(nodes):
        for each in own(node):
            yield from each.values


def names(nodes: Iterable[Node]) -> set[str]:
    """The variables that nodes use."""
    found: set[str] = set()
    for value in values(nodes):
        match value:
            case Name(text):
                found.add(text)
            case Iteration():
                found.update(value.names)
            case Stage(number) | Phase(number):
                found.update(number.names)
            case LibraryFunction() | Number():
                pass
    return found


def functions(nodes: Iterable[Node]) -> set[str]:
    """The functions of the library that nodes call."""
    return set(_functions(nodes, frozenset()))


def _functions(nodes: Iterable[Node], states: frozenset[Carried]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Uses(functions=found):
                yield from found
            case Loop(states=more) if more:
                states = frozenset(state.carried for state in more)
                yield from ("slot", "phase", "advance")
            case _:
                pass
        for value in (value for each in own(node) for value in each.values):
            match value:
                case LibraryFunction(text):
                    yield text
                case Stage(number) if carried(number, states) is None:
                    yield "slot"
                case Phase(number) if carried(number, states) is None:
                    yield "phase"
                case _:
                    pass
        yield from _functions(inside(node), states)


def rings(nodes: Iterable[Node]) -> Iterator[Running]:
    """Running numbers of which nodes use slots or phases, in order."""
    for value in values(nodes):
        if isinstance(value, Stage | Phase):
            yield value.number
