"""Compiled kernels with their programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.compiling import compile_file
from schedgen.conform.check import Conformance, conform
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel as Code
from schedgen.emulator.ptx.tree import Module
from schedgen.kernel import Kernel
from schedgen.kernels.regenerate import FOLDER, shipped
from schedgen.program.model import Program
from schedgen.program.synthesize import synthesize
from schedgen.solution import solve


@dataclass(frozen=True)
class Compiled:
    """A shipped kernel: its PTX, its program and its kernel."""

    module: Module
    program: Program
    kernel: Kernel

    @property
    def code(self) -> Code:
        (code,) = self.module.kernels.values()
        return code

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
        built = compile_file(FOLDER / one.name, folder, sms=132)
        machine = read_machine(one.target)
        found = solve(read_spec(one.spec), machine, settings=dict(one.settings))
        problem = found.problem
        program = synthesize(problem.kernel, found.schedule, problem.machine)
        return Compiled(parse(built.ptx.read_text("utf-8")), program, problem.kernel)

    return compile_
