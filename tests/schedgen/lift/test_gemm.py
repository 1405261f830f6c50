"""A generated product, lifted from its PTX alone: its program comes out, mutants are refuted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.binding import bound
from schedgen.codegen.compiling import compile_file
from schedgen.codegen.plan import Plan
from schedgen.driver.solution import solve
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Immediate, Instruction, Kernel, Module, Register
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import shipped
from schedgen.lift.examine import NOT_LIFTED, PROVEN, REFUTED, Examined, data_of, examine, lines_of
from schedgen.program.model import Arrive, Program, RoleProgram, Run, Wait
from schedgen.program.sequence import sequence
from schedgen.synchronize.synthesize import synthesize

pytestmark = pytest.mark.medium

NAME = "gemm_sm_90a_bf16.py"
WORD = 8
TRIPS = (3, 1, 5)


@dataclass(frozen=True)
class Compiled:
    """The kernel, and the program that it was made from."""

    module: Module
    plan: Plan

    @property
    def code(self) -> Kernel:
        (code,) = self.module.kernels.values()
        return code

    def examine(
        self, code: Kernel | None = None, methods: tuple[str, ...] = ("graph",)
    ) -> Examined:
        code = code or self.code
        module = replace(self.module, kernels={code.name: code})
        return examine(module, code, methods)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    one = next(one for one in shipped() if one.name == NAME)
    built = compile_file(named(one.name), tmp_path_factory.mktemp("lift"), sms=132)
    problem = solve(read_spec(one.spec), read_machine(one.target), settings=dict(one.settings))
    kernel = problem.problem.kernel
    program = synthesize(kernel, problem.schedule, problem.problem.machine)
    return Compiled(parse(built.ptx.read_text("utf-8")), Plan(program, bound(kernel)))


@pytest.fixture(scope="module")
def proven(compiled: Compiled) -> Examined:
    return compiled.examine(methods=("graph", "z3", "execution"))


@pytest.mark.slow
def test_it_is_proven_by_all_methods(proven: Examined) -> None:
    assert proven.status == PROVEN, list(lines_of(proven))
    assert len(proven.programs) == 2, "with what is added to the product, and without"
    assert data_of(proven)["status"] == PROVEN


Phase = tuple[str, int, int, int, int]
"""What is done, byte of the mbarrier, phase, arrivals, bytes."""


def synchronizing(
    program: Program, role: RoleProgram, byte: Callable[[str], int | None]
) -> Iterator[Phase]:
    """What a role does with mbarriers in memory, for some tiles."""
    for instance in sequence(role, TRIPS):
        action = instance.step.action
        match action:
            case Wait(name, number):
                what, count, size = "wait", 0, 0
            case Arrive(name, number, count, size):
                what = "arrive"
            case Run(_, str() as name, number, size) if number is not None:
                what, count = "copy", 0
            case _:
                continue
        at, slots = byte(name), program.barrier[name].slots
        if at is not None:
            phase, slot = divmod(instance.number(number), slots)
            yield what, at + WORD * slot, phase, count, size


def test_it_is_the_program_that_was_proven_before_emission(
    compiled: Compiled, proven: Examined
) -> None:
    lifted, plan = proven.programs[0].program, compiled.plan
    original = plan.program

    def byte(name: str) -> int | None:
        return int(name.split()[1]) if name.startswith("mbarrier") else None

    by_warp = {
        int(role.name.removeprefix("warps").removeprefix("warp")): role for role in lifted.roles
    }
    assert sorted(by_warp) == sorted(plan.first_warp.values())
    for role in original.roles:
        mine = by_warp[plan.first_warp[role.name]]
        wanted = synchronizing(original, role, lambda name: WORD * plan.mbarriers[name])
        assert list(synchronizing(lifted, mine, byte)) == list(wanted), role.name
        assert mine.warps == role.warps
    ours = sorted(
        (b.slots, b.arrivals, b.bytes) for b in lifted.barriers if byte(b.name) is not None
    )
    assert ours == sorted((b.slots, b.arrivals, b.bytes) for b in original.barriers)


def places(code: Kernel, name: str) -> list[int]:
    return [at for at, one in enumerate(code.body) if one.name.startswith(name)]


def without(code: Kernel, at: int) -> Kernel:
    gone = Instruction("nop", (), (), code.body[at].line)
    return with_(code, at, gone)


def with_(code: Kernel, at: int, one: Instruction) -> Kernel:
    return replace(code, body=(*code.body[:at], one, *code.body[at + 1 :]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mbarrier.arrive.shared", "fence.proxy.async"])
def test_one_without_it_is_refuted(compiled: Compiled, name: str) -> None:
    for at in places(compiled.code, name)[:2]:
        found = compiled.examine(without(compiled.code, at))
        assert found.status == REFUTED, (at, found.reason)
        assert any(place.ptx for finding in found.findings for place in finding.places)


@pytest.mark.slow
def test_products_that_are_not_awaited_are_refuted(compiled: Compiled) -> None:
    at = places(compiled.code, "wgmma.wait_group")[0]
    found = compiled.examine(without(compiled.code, at))
    assert found.status == REFUTED
    assert any("reads" in finding.text for finding in found.findings)


def test_a_wait_that_is_left_out_is_refuted(compiled: Compiled) -> None:
    """Its loop ends at once."""
    code = compiled.code
    for at in places(code, "mbarrier.try_wait")[:3]:
        test = code.body[at]
        passed = Instruction("mov", ("pred",), (test.operands[0], Immediate(1)), test.line)
        found = compiled.examine(with_(code, at, passed))
        assert found.status == REFUTED, (test.line, found.reason)


def test_a_wait_with_the_other_parity_is_refuted(compiled: Compiled) -> None:
    code = compiled.code
    for at in places(code, "mbarrier.try_wait")[:3]:
        test = code.body[at]
        flipped = Register("%flipped")
        parity = test.operands[2]
        xor = Instruction("xor", ("b32",), (flipped, parity, Immediate(1)), test.line)
        changed = replace(test, operands=(*test.operands[:2], flipped, *test.operands[3:]))
        found = compiled.examine(inserted(with_(code, at, changed), at, xor))
        assert found.status == REFUTED, (test.line, found.reason)


def inserted(code: Kernel, at: int, one: Instruction) -> Kernel:
    labels = {name: to + (to > at) for name, to in code.labels.items()}
    return replace(code, body=(*code.body[:at], one, *code.body[at:]), labels=labels)


def test_a_ring_of_another_size_is_refuted(compiled: Compiled) -> None:
    """The copies' slot begins again one slot early: it is compared with 2, not 3, and 2 less."""
    code = compiled.code
    load = places(code, "cp.async.bulk.tensor")[1]
    compare = next(at for at in range(load, load + 9) if Immediate(3) in code.body[at].operands)
    back = next(at for at in range(load, load + 9) if Immediate(-3) in code.body[at].operands)
    for at, old, new in ((compare, 3, 2), (back, -3, -2)):
        one = code.body[at]
        operands = tuple(Immediate(new) if o == Immediate(old) else o for o in one.operands)
        code = with_(code, at, replace(one, operands=operands))
    found = compiled.examine(code)
    assert found.status == REFUTED, found.reason


def test_what_is_not_known_is_not_lifted_with_its_line(compiled: Compiled) -> None:
    code = compiled.code
    at = places(code, "mbarrier.arrive.shared")[0]
    odd = replace(code.body[at], modifiers=("arrive", "noComplete", "shared", "b64"))
    found = compiled.examine(with_(code, at, odd))
    assert found.status == NOT_LIFTED
    assert found.places[0].ptx == odd.line


def test_a_parity_that_data_decides_is_not_lifted(compiled: Compiled) -> None:
    code = compiled.code
    at = places(code, "mbarrier.try_wait")[0]
    test = code.body[at]
    unknown = replace(test, operands=(*test.operands[:2], Register("%clock"), *test.operands[3:]))
    found = compiled.examine(with_(code, at, unknown))
    assert found.status == NOT_LIFTED
    assert found.reason


def test_the_file_of_a_kernel_is_enough(tmp_path: Path, compiled: Compiled) -> None:
    from typer.testing import CliRunner

    from schedgen.cli.app import app

    path = tmp_path / "kernel.ptx"
    path.write_text("\n".join(compiled.module.lines), "utf-8")
    found = CliRunner().invoke(app, ["lift", "--json", str(path)])
    assert found.exit_code == 0, found.output
    assert '"status": "proven"' in found.output
