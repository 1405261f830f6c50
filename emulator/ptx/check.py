"""Whether the names of a module fit together: what a kernel uses is declared, and of that kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedgen.emulator.ptx.errors import Source
from schedgen.emulator.ptx.special import SPECIAL_REGISTERS
from schedgen.emulator.ptx.tree import (
    Address,
    Instruction,
    Kernel,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from schedgen.errors import DiagnosticSink, suggest


def check(module: Module, source: Source, sink: DiagnosticSink) -> None:
    """Report names that nothing declares, branches to anything but labels, and odd guards."""
    outer = {variable.name for variable in module.variables} | set(module.functions)
    outer |= set(module.kernels)
    for kernel in module.kernels.values():
        _KernelCheck(kernel, outer, source, sink).run()
    for function in module.functions.values():
        if function.body is not None:
            results = {result.name for result in function.results}
            _KernelCheck(function.body, outer | results, source, sink).run()


class _KernelCheck:
    def __init__(
        self, kernel: Kernel, outer: set[str], source: Source, sink: DiagnosticSink
    ) -> None:
        self._kernel = kernel
        self._source = source
        self._sink = sink
        self._registers = kernel.registers.keys() | SPECIAL_REGISTERS.keys() | {"_"}
        self._symbols = outer | kernel.labels.keys() | kernel.tables.keys()
        self._symbols |= {parameter.name for parameter in kernel.parameters}
        self._symbols |= {variable.name for variable in kernel.variables}
        self._reported: set[str] = set()  # one mistake can make a thousand uses

    def run(self) -> None:
        for instruction in self._kernel.body:
            if instruction.guard is not None:
                self._guard(instruction.guard.register, instruction)
            operands = instruction.operands
            if instruction.opcode in ("bra", "brx") and operands:
                self._target(operands[-1], instruction)
                operands = operands[:-1]
            for name in _names(operands):
                known = self._registers if isinstance(name, Register) else self._symbols
                if name.name not in known:
                    self._unknown(name.name, instruction)

    def _guard(self, name: str, instruction: Instruction) -> None:
        type_ = self._kernel.registers.get(name) or SPECIAL_REGISTERS.get(name)
        if type_ is None:
            self._unknown(name, instruction)
        elif type_ != "pred":
            message = f"the guard '{_written(name)}' is a register of type .{type_}"
            self._report("ptx-guard", message, name, instruction, "declare it as .pred")

    def _target(self, target: Operand, instruction: Instruction) -> None:
        kernel = self._kernel
        known, what = kernel.labels.keys(), "a label"
        if instruction.opcode == "brx":
            known, what = kernel.tables.keys(), "a list of .branchtargets"
        name = target.name if isinstance(target, Symbol | Register) else instruction.name
        if name not in known:
            message = f"{instruction.name} goes to '{_written(name)}', which is not {what}"
            self._report("ptx-label", message, name, instruction, self._fix(name, known))
            return
        for label in kernel.tables.get(name, ()):
            if label not in kernel.labels:
                message = f"the list '{_written(name)}' has '{_written(label)}', which is no label"
                self._report("ptx-label", message, name, instruction, None)

    def _unknown(self, name: str, instruction: Instruction) -> None:
        if name in self._registers:
            message = f"the register '{_written(name)}' has an offset outside of brackets"
            self._report("ptx-operand", message, name, instruction, "add it in an instruction")
            return
        register = name[0] == "%"
        what = "register" if register else "name"
        message = f"the {what} '{name}' is not declared"
        known = self._registers if register else self._symbols | self._registers
        self._report(f"ptx-{what}", message, name, instruction, self._fix(name, known))

    def _fix(self, name: str, known: Iterable[str]) -> str | None:
        elsewhere = any(other.startswith(f"{name}#") for other in known)
        if elsewhere:
            return "it is declared in other braces only: declare it in these, or around both"
        if name[0] == "%" and "." in name:
            return suggest(name, SPECIAL_REGISTERS)
        if name[0] == "%":
            return "declare it with .reg, or widen the range that should have it"
        return suggest(name, map(_written, known))

    def _report(
        self, rule: str, message: str, name: str, instruction: Instruction, fix: str | None
    ) -> None:
        if name not in self._reported:
            self._reported.add(name)
            where = self._source.diagnostic(rule, message, instruction.line, _written(name), fix)
            self._sink.error(where)


def _written(name: str) -> str:
    """A name of the tree as it stands in the text."""
    return name.partition("#")[0]


def _names(operands: Iterable[Operand]) -> Iterator[Register | Symbol]:
    for operand in operands:
        if isinstance(operand, Register | Symbol):
            yield operand
        elif isinstance(operand, Vector):
            yield from _names(operand.items)
        elif isinstance(operand, Address):
            if operand.base is not None:
                yield operand.base
            yield from _names(operand.coordinates)
        elif isinstance(operand, Pair):
            yield from _names((operand.first, operand.second))
        elif isinstance(operand, Negated):
            yield operand.operand
