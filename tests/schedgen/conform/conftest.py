"""Compiled kernels with their programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.compiling import compile_file
from schedgen.conform.check import Conformance, conform
from schedgen.driver.emitting import emission
from schedgen.driver.proved import QUICK
from schedgen.driver.solution import solve
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Instruction, Module
from schedgen.emulator.ptx.tree import Kernel as Code
from schedgen.kernel import Kernel
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import shipped
from schedgen.program.model import Program
from schedgen.synchronize.synthesize import synthesize
from tests.codegen.examples import SPECS as DATA
from tests.fuzz.fuzzer import SPECS


@dataclass(frozen=True)
class Compiled:
    """The PTX of a kernel, its program and its kernel."""

    module: Module
    program: Program
    kernel: Kernel

    @property
    def code(self) -> Code:
        (code,) = self.module.kernels.values()
        return code

    def changed(self, at: int, one: Instruction | None) -> Module:
        """With another instruction at a place, or with one that does nothing."""
        old, code = self.code.body[at], self.code
        one = one or Instruction("nop", (), (), old.line)
        body = (*code.body[:at], one, *code.body[at + 1 :])
        return replace(self.module, kernels={code.name: replace(code, body=body)})

    def conforms(self, module: Module | None = None, program: Program | None = None) -> Conformance:
        """The comparison, with another module or program if one is given."""
        return conform(module or self.module, program or self.program, self.kernel)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """Compiles a shipped kernel, given the name of its file without ``.py``."""
    folder: Path = tmp_path_factory.mktemp("conform")

    @cache
    def compile_(name: str) -> Compiled:
        one = next(one for one in shipped() if one.name == f"{name}.py")
        built = compile_file(named(one.name), folder, sms=132)
        machine = read_machine(one.target)
        found = solve(read_spec(one.spec), machine, settings=dict(one.settings))
        problem = found.problem
        program = synthesize(problem.kernel, found.schedule, problem.machine)
        return Compiled(parse(built.ptx.read_text("utf-8")), program, problem.kernel)

    return compile_


@pytest.fixture(scope="session")
def of_spec(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Compiled]:
    """Compiles a spec that the fuzzer's tests keep, or others, for its first target."""
    folder: Path = tmp_path_factory.mktemp("specs")

    @cache
    def compile_(name: str) -> Compiled:
        kept = SPECS / f"{name}.yaml"
        spec = read_spec(str(kept if kept.exists() else DATA / f"{name}.yaml"))
        emitted = emission(spec, read_machine(spec.file.targets[0]), {}, methods=QUICK)
        (folder / f"{name}.py").write_text(emitted.text, "utf-8")
        built = compile_file(folder / f"{name}.py", folder, sms=132)
        kernel = emitted.solution.problem.kernel
        return Compiled(parse(built.ptx.read_text("utf-8")), emitted.proven.program, kernel)

    return compile_
