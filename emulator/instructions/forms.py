"""An instruction that works on registers alone, while it is decoded.

A builder takes the modifiers that it knows from a `Form` and ends with `Form.finish`, or with
`Form.unary` and its like, which call it: a modifier that nobody took is an error, never ignored.

Opcodes as ``add`` exist for many types. `typed` registers one builder per opcode and type::

    @typed("add sub", "f16 bf16")
    def _add_half(form: Form) -> Step: …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from schedgen.emulator.instructions.table import Environment, builds, unsupported
from schedgen.emulator.machine.elementwise import Compute, elementwise
from schedgen.emulator.machine.lanes import (
    NUMPY,
    Decoder,
    EmulationError,
    Lanes,
    Read,
    Step,
    Write,
    error,
)
from schedgen.emulator.ptx.tree import Instruction, Operand, Register, Vector

One = Callable[[Lanes], Lanes]
Two = Callable[[Lanes, Lanes], Lanes]
Three = Callable[[Lanes, Lanes, Lanes], Lanes]

BITS: Mapping[str, int] = {
    **{type_: 8 * np.dtype(seen).itemsize for type_, seen in NUMPY.items()},
    "pred": 1,
    "b128": 128,
}
"""PTX type -> width in a register."""


class Form:
    """Modifiers and operands of one instruction. ``type`` is the one it was dispatched by."""

    def __init__(
        self, where: Instruction, decoder: Decoder, environment: Environment, type_: str = ""
    ) -> None:
        self.where = where
        self.decoder = decoder
        self.environment = environment
        self.type = type_
        self.left = list(where.modifiers)
        if type_:
            self.left.reverse()  # the type is the last of its name, as the source of cvt.f32.f32
            self.left.remove(type_)
            self.left.reverse()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.where.operands

    def flag(self, name: str) -> bool:
        """Whether a modifier is there. It counts as understood from now on."""
        if name not in self.left:
            return False
        self.left.remove(name)
        return True

    def choose(self, *names: str, default: str | None = None) -> str:
        """The one of some modifiers that is there.

        Raises:
            EmulationError: none is, and there is no default.
        """
        for name in names:
            if self.flag(name):
                return name
        if default is None:
            raise self.error(f"one of {', '.join('.' + name for name in names)} is needed")
        return default

    def error(self, problem: str) -> EmulationError:
        return error(self.where, problem)

    def held(self, operand: Operand) -> str | None:
        """The type of a declared register, None for anything else."""
        if not isinstance(operand, Register) or operand.name not in self.decoder.slot:
            return None
        return self.decoder.types[self.decoder.slot[operand.name]]

    def source(self, operand: Operand, type_: str, *, wider: bool = False) -> Read:
        """Lanes of a source. ``wider`` allows registers wider than the type (PTX ISA 9.4.1)."""
        self._check_width(operand, type_, wider)
        return self.decoder.read(operand, type_, self.where)

    def target(self, operand: Operand, type_: str, *, wider: bool = False) -> Write:
        """Puts lanes into a destination of this type."""
        self._check_width(operand, type_, wider)
        return self.decoder.write(operand, self.where)

    def finish(self, *counts: int) -> None:
        """All modifiers must be understood now, and the number of operands be one of these.

        Raises:
            EmulationError: otherwise.
        """
        if self.left:
            raise unsupported(self.where, self.left)
        if len(self.operands) not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.error(f"{len(self.operands)} operands, {wanted} expected")

    def unary(self, compute: One, *types: str, wider: bool = False) -> Step:
        """The step that writes ``compute(a)`` to the first operand.

        ``types`` are those of the result and of the sources, or one for all, `type` by default.
        """
        write, (a,), each = self._operands(1, types, wider)
        return self.elementwise(lambda warp: write(warp, compute(a(warp))), compute, each)

    def binary(self, compute: Two, *types: str) -> Step:
        """As `unary`, with two sources."""
        write, (a, b), each = self._operands(2, types, False)
        return self.elementwise(lambda warp: write(warp, compute(a(warp), b(warp))), compute, each)

    def ternary(self, compute: Three, *types: str) -> Step:
        """As `unary`, with three sources."""
        write, (a, b, c), each = self._operands(3, types, False)
        return self.elementwise(
            lambda warp: write(warp, compute(a(warp), b(warp), c(warp))), compute, each
        )

    def elementwise(
        self,
        step: Step,
        compute: Compute | None,
        types: Sequence[str],
        targets: Sequence[Operand] = (),
        sources: Sequence[Operand] = (),
    ) -> Step:
        """The step of an instruction that computes each lane by itself from lanes of its sources.

        ``types`` are those of the sources. Without ``targets`` the first operand is the only one,
        without ``sources`` they are the operands behind it.
        """
        pairs = tuple(zip(sources or self.operands[1 : 1 + len(types)], types, strict=True))
        to = tuple(targets or self.operands[:1])
        return elementwise(self.where, self.decoder, step, compute, to, pairs)

    def _operands(
        self, sources: int, types: tuple[str, ...], wider: bool
    ) -> tuple[Write, Sequence[Read], Sequence[str]]:
        self.finish(1 + sources)
        each = types if len(types) > 1 else (types or (self.type,)) * (1 + sources)
        write = self.target(self.operands[0], each[0], wider=wider)
        pairs = zip(self.operands[1:], each[1:], strict=True)
        reads = [self.source(operand, type_, wider=wider) for operand, type_ in pairs]
        return write, reads, each[1:]

    def _check_width(self, operand: Operand, type_: str, wider: bool) -> None:
        if isinstance(operand, Vector):
            raise self.error(f"{operand} cannot be an operand of type {type_}")
        held = self.held(operand)
        if held is None:
            return
        fits = BITS[held] >= BITS[type_] if wider else BITS[held] == BITS[type_]
        if not fits or (held == "pred") != (type_ == "pred"):
            name = getattr(operand, "name", operand)
            raise self.error(f"{name} is .{held} and cannot be used as .{type_}")


Build = Callable[[Form], Step]
_typed: dict[str, dict[str, Build]] = {}


def typed(opcodes: str, types: str) -> Callable[[Build], Build]:
    """Registers a builder for opcodes and for the last type among the modifiers."""

    def register(build: Build) -> Build:
        for opcode in opcodes.split():
            if opcode not in _typed:
                _typed[opcode] = {}
                builds(opcode)(_dispatch)
            for type_ in types.split():
                if type_ in _typed[opcode]:
                    raise AssertionError(f"{opcode}.{type_} has two builders")
                _typed[opcode][type_] = build
        return build

    return register


def untyped(name: str) -> Callable[[Build], Build]:
    """Registers a builder of all instructions whose dotted name begins with this."""

    def register(build: Build) -> Build:
        def start(where: Instruction, decoder: Decoder, environment: Environment) -> Step:
            return build(Form(where, decoder, environment))

        builds(name)(start)
        return build

    return register


def _dispatch(where: Instruction, decoder: Decoder, environment: Environment) -> Step:
    builders = _typed[where.opcode]
    for modifier in reversed(where.modifiers):
        if modifier in builders:
            return builders[modifier](Form(where, decoder, environment, modifier))
    raise error(where, f"a type is needed: {', '.join('.' + type_ for type_ in builders)}")
