"""From syntax to the tree: names are looked up, scopes are flattened.

Braces open a scope for registers, variables and labels (PTX ISA 4.3.1, 5.4.1), which CuTe DSL's
inline assembly uses all the time: every wait loop has a label ``LAB_WAIT`` of its own. The tree has
one name space per kernel, so what is declared in inner braces becomes ``name#n``.

A vector of registers (5.4.2) becomes its elements: ``%v.x`` is a register like others, and ``%v``
as an operand is the `Vector` of them.
"""

from __future__ import annotations

from functools import lru_cache

from schedgen.emulator.ptx import syntax
from schedgen.emulator.ptx.errors import Source
from schedgen.emulator.ptx.special import SPECIAL_VECTORS, WARP_SIZE
from schedgen.emulator.ptx.storage import lay_out, variable
from schedgen.emulator.ptx.tree import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Location,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)
from schedgen.errors import Diagnostic, DiagnosticSink

MAX_DEPTH = 100
"""Deepest nesting of braces; compilers need three levels, and Python's stack ends at 1000."""
_ELEMENTS = ("xyzw", "rgba")
"""The two names that each element of a vector has (5.4.2, 6.4.2)."""
_VECTOR_BITS = 128


class Scope:
    """Names declared between a pair of braces, and by what they are called in the tree."""

    def __init__(self, parent: Scope | None, suffix: str = "") -> None:
        self.parent = parent
        self.suffix = suffix
        self.depth: int = 0 if parent is None else parent.depth + 1
        self._own: dict[str, Register | Symbol] = {}
        self._vectors: dict[str, Vector | None] = {}
        """Of own names, and what `vector` found for others."""
        self._found: dict[str, Register | Symbol] = {}

    def declare(self, name: str, kind: type[Register] | type[Symbol]) -> str | None:
        """Return the name in the tree, or None where this scope has the name already."""
        if name in self._own:
            return None
        self._own[name] = kind(name + self.suffix)
        return name + self.suffix

    def declare_vector(self, name: str, count: int) -> list[str] | None:
        """Return the names of its elements in the tree, or None where the scope has the name."""
        if self.declare(name, Register) is None:
            return None
        elements: list[str] = []
        for position in range(count):
            registers = [Register(f"{name}.{names[position]}") for names in _ELEMENTS]
            first = Register(registers[0].name + self.suffix)
            self._own.update({register.name: first for register in registers})
            elements.append(first.name)
        self._vectors[name] = Vector(tuple(map(Register, elements)))
        return elements

    def vector(self, name: str) -> Vector | None:
        """Return the elements of a vector of registers, None where a name is none."""
        if name not in self._vectors:
            if name in self._own:
                found = None
            elif self.parent is not None:
                found = self.parent.vector(name)
            else:
                parts = SPECIAL_VECTORS.get(name)
                found = None if parts is None else Vector(tuple(map(Register, parts)))
            self._vectors[name] = found
        return self._vectors[name]

    def find(self, name: str) -> Register | Symbol:
        """Return what a name means here; `check` reports those that nothing declares."""
        if (found := self._found.get(name)) is None:
            found = self._found[name] = self._look_up(name)
        return found

    def _look_up(self, name: str) -> Register | Symbol:
        scope: Scope | None = self
        while scope is not None:
            if (found := scope._own.get(name)) is not None:
                return found
            scope = scope.parent
        return Register(name) if name == "_" or name[0] == "%" else Symbol(name)


class KernelBuilder:
    """Makes one `Kernel`.

    Args:
        routine: with a body.
        outer: the names of the module.
        files: paths by the index of their ``.file``.
        source: the text, for diagnostics.
        sink: takes what is wrong.
    """

    def __init__(
        self,
        routine: syntax.Routine,
        outer: Scope,
        files: dict[int, str],
        source: Source,
        sink: DiagnosticSink,
    ) -> None:
        self._routine = routine
        self._files = files
        self._source = source
        self._sink = sink
        self._scope = Scope(outer)
        self._scopes = 0
        self._location: Location | None = None
        self._calls: dict[tuple[str, int, int], Location] = {}
        self._registers: dict[str, str] = {}
        self._variables: list[Variable] = []
        self._body: list[Instruction] = []
        self._labels: dict[str, int] = {}
        self._tables: dict[str, tuple[str, ...]] = {}

    def build(self, body: syntax.Block) -> Kernel:
        """Return the kernel; it is whole only if nothing was reported."""
        for declared in (*self._routine.results, *self._routine.parameters):
            self._declare(self._scope, declared.name, Symbol, declared.line)
        self._block(body, self._scope)
        return Kernel(
            name=self._routine.name,
            parameters=lay_out(self._routine.parameters),
            registers=self._registers,
            variables=tuple(self._variables),
            body=tuple(self._body),
            labels=self._labels,
            line=self._routine.line,
            directives=self._routine.tuning,
            tables=self._tables,
        )

    def _block(self, block: syntax.Block, scope: Scope) -> None:
        # In inner braces is inline assembly, for whose every line compilers count one up, to lines
        # that have nothing to do with it: its place is the one in front of the braces.
        # All declarations first: a label may be used above the place where it stands.
        for part in block.statements:
            if not isinstance(part, syntax.Statement):
                self._declarations(part, scope)
        for part in block.statements:
            match part:
                case syntax.Statement():
                    self._body.append(self._instruction(part, scope))
                case syntax.Label(name):
                    self._labels[name + scope.suffix] = len(self._body)
                case syntax.Block():
                    self._inner_block(part, scope)
                case syntax.SourceLine() if scope is self._scope:
                    if part.line not in self._source.counted:
                        self._location = self._located(part)
                case syntax.Table(name, entries):
                    self._tables[name + scope.suffix] = tuple(
                        scope.find(entry).name for entry in entries
                    )
                case _:
                    pass

    def _located(self, part: syntax.SourceLine) -> Location:
        """Calls that were inlined into each other stand in ``.loc`` lines of their own before."""
        caller: Location | None = None
        if part.inlined is not None:
            file, *place = part.inlined
            known = _location(self._files.get(file, ""), *place, None)
            caller = self._calls.get((known.file, known.line, known.column), known)
        found = _location(self._files[part.file], part.number, part.column, caller)
        self._calls[found.file, found.line, found.column] = found
        return found

    def _inner_block(self, block: syntax.Block, scope: Scope) -> None:
        if scope.depth > MAX_DEPTH:
            message = f"braces are nested more than {MAX_DEPTH} levels deep"
            self._sink.error(self._source.diagnostic("ptx-nesting", message, block.line, "{"))
            return
        self._scopes += 1
        self._block(block, Scope(scope, f"#{self._scopes}"))

    def _declarations(self, part: syntax.Part, scope: Scope) -> None:
        match part:
            case syntax.Registers(vector=count) if count > 1:
                self._vector_registers(part, scope)
            case syntax.Registers(type_, _, names, line):
                for name in names:
                    if (unique := self._declare(scope, name, Register, line)) is not None:
                        self._registers[unique] = type_
            case syntax.Variables(declared):
                for one in declared:
                    if (unique := self._declare(scope, one.name, Symbol, one.line)) is not None:
                        self._variables.append(variable(one, unique, self._source, self._sink))
            case syntax.Label(name, line) | syntax.Table(name, _, line):
                self._declare(scope, name, Symbol, line)
            case syntax.SourceLine(file=file, line=line) if file not in self._files:
                message = f"no .file directive has the index {file}"
                self._sink.error(self._source.diagnostic("ptx-file", message, line, str(file)))
                self._files[file] = ""  # said once
            case _:
                pass

    def _vector_registers(self, part: syntax.Registers, scope: Scope) -> None:
        """``.reg .v4 .b32 %v;``."""
        bits = 0 if part.type == "pred" else part.vector * _bits(part.type)
        if not 0 < bits <= _VECTOR_BITS or part.vector > len(_ELEMENTS[0]):
            message = f"there are no registers of type .v{part.vector} .{part.type}"
            fix = f"vectors have 2 or 4 elements and up to {_VECTOR_BITS} bits; declare scalars"
            offending = f".v{part.vector}"
            self._sink.error(
                self._source.diagnostic("ptx-vector", message, part.line, offending, fix)
            )
        for name in part.names:
            elements = scope.declare_vector(name, min(part.vector, len(_ELEMENTS[0])))
            if elements is None:
                self._sink.error(duplicate_name(self._source, name, part.line))
            else:
                self._registers.update(dict.fromkeys(elements, part.type))

    def _declare(
        self, scope: Scope, name: str, kind: type[Register] | type[Symbol], line: int
    ) -> str | None:
        if (unique := scope.declare(name, kind)) is None:
            self._sink.error(duplicate_name(self._source, name, line))
        return unique

    def _instruction(self, statement: syntax.Statement, scope: Scope) -> Instruction:
        opcode, modifiers = _split(statement.name)
        guard = statement.guard
        if guard is not None:
            guard = Guard(scope.find(guard.register).name, guard.negated)
        operands = tuple([_operand(operand, scope) for operand in statement.operands])
        return Instruction(opcode, modifiers, operands, statement.line, guard, self._location)


def duplicate_name(source: Source, name: str, line: int) -> Diagnostic:
    """Return the diagnostic for a name that is declared again in the same scope."""
    message = f"'{name}' is declared a second time in the same scope"
    fix = "rename one; inline assembly can put braces around its declarations"
    return source.diagnostic("ptx-duplicate", message, line, name, fix)


def _operand(operand: Operand, scope: Scope) -> Operand:
    if isinstance(operand, Symbol):
        if operand.name == "WARP_SZ":
            return Immediate(WARP_SIZE)
        vector = scope.vector(operand.name)
        if vector is not None and not operand.offset:
            return vector
        found = scope.find(operand.name)
        # An offset outside of brackets is for addresses of variables; `check` refuses registers.
        return Symbol(found.name, operand.offset) if operand.offset else found
    if isinstance(operand, Address):
        base = operand.base
        if isinstance(base, Symbol):
            base = scope.find(base.name)
        return Address(base, operand.offset, _operands(operand.coordinates, scope))
    if isinstance(operand, Vector):
        return Vector(_operands(operand.items, scope))
    if isinstance(operand, Pair):
        return Pair(_operand(operand.first, scope), _operand(operand.second, scope))
    if isinstance(operand, Negated):
        return Negated(Register(scope.find(operand.operand.name).name))
    return operand


def _operands(operands: tuple[Operand, ...], scope: Scope) -> tuple[Operand, ...]:
    return tuple([_operand(operand, scope) for operand in operands])


def _bits(type_: str) -> int:
    """Bits of a type of registers other than ``pred``."""
    return 32 if type_ == "f16x2" else int(type_.lstrip("bsuf"))


@lru_cache(maxsize=1024)
def _split(name: str) -> tuple[str, tuple[str, ...]]:
    opcode, *modifiers = name.split(".")
    return opcode, tuple(modifiers)


# The same few places come up in thousands of instructions.
_location = lru_cache(maxsize=4096)(Location)
