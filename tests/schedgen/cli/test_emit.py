"""`schedgen emit` and `schedgen compile`, as a user meets them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import schedgen
from schedgen import read_machine, read_spec
from schedgen.cli.app import app
from schedgen.codegen import report
from schedgen.codegen.compiling import Built
from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import Parameter, RoleFacts, file_name, read_facts
from schedgen.codegen.fenced import Unfenced
from schedgen.codegen.report import Report
from schedgen.conform.assembly import disassembler
from schedgen.driver import attempts, emitting, selecting
from schedgen.driver.found import Infeasible
from schedgen.kernel import Space
from schedgen.program.operations import Allocation
from tests.schedgen.program.examples import gemm

KERNEL = "gemm_chain_sm_90a_fp16.py"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `schedgen emit` made, with a kernel in it."""
    folder = tmp_path_factory.mktemp("emit") / "new"
    settings = "gemm_chain", "-t", "h200", "--set", "dtype=fp16"
    result = run("emit", *settings, "--no-compile", "-o", str(folder))
    assert result.exit_code == 0, result.output
    assert "compiled     no: spills and serialized products are not known" in result.stdout
    assert result.stdout.startswith(str(folder / KERNEL))
    assert "proven: graph, z3, execution" in result.stdout
    return folder


def test_file_says_what_callers_have_to_know(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == [KERNEL]
    facts = read_facts(folder / KERNEL)
    assert (facts.kernel, facts.target, facts.outputs) == ("gemm_chain", "sm_90a", ("d",))
    assert facts.parameters == (
        Parameter("a", ("batch", "m", "depth"), "fp16"),
        Parameter("b", ("batch", "n", "depth"), "fp16"),
        Parameter("c", ("batch", "n", "width"), "fp16"),
        Parameter("d", ("batch", "m", "width"), "fp16"),
    )
    assert RoleFacts("load", 1, 24) in facts.roles
    assert facts.tensor_columns == 0


@pytest.mark.medium
def test_orders_of_pace_are_in_the_file(folder: Path, tmp_path: Path) -> None:
    settings = "gemm_chain", "-t", "h200", "--set", "dtype=fp16", "--pace", "TENSOR"
    result = run("emit", *settings, "--no-compile", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.iterdir()
    assert file.name == KERNEL.replace(".py", "_pace_tensor.py")
    assert (read_facts(file).pace, read_facts(folder / KERNEL).pace) == (("TENSOR",), ())
    assert "cute.arch.barrier_arrive(" in file.read_text("utf-8")


def test_file_is_formatted(folder: Path) -> None:
    text = (folder / KERNEL).read_text("utf-8")
    assert emitting.formatted(text) == text


@pytest.mark.slow
def test_products_that_the_assembler_serializes(folder: Path, tmp_path: Path) -> None:
    """With the registers that the solver counts ptxas has each product wait for the one before; a
    schedule that leaves more of them takes 14 % less time on an H200.
    """
    result = run("compile", str(folder / KERNEL), "-t", "h200", "-o", str(tmp_path), "--json")
    assert result.exit_code == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert "serialized" in problem
    assert "emit --compile" in problem


@pytest.mark.slow
def test_what_attempts_have_beside_products(tmp_path: Path) -> None:
    """Without an order of products the assembler issues one between exponentials; in a block of
    its own it does not, but for a maximum. What takes fewer cycles by its machine code is taken.
    """
    if disassembler() is None:
        pytest.skip("there is no nvdisasm")
    setting = "--set", "product_order=auto"
    result = run("emit", "attention_fwd", "-t", "h200", *setting, "-o", str(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    attempts = json.loads(result.stdout)["compiled"]
    assert attempts[0]["style"] == []
    beside = attempts[0]["beside_products"]
    assert beside["planned_cycles"] > beside["lost_cycles"] > beside["planned_cycles"] / 4
    blocks = [a["beside_products"] for a in attempts if "blocks" in a["style"]]
    assert blocks
    assert all(one["lost_cycles"] < one["planned_cycles"] / 100 for one in blocks)
    (chosen,) = (attempt for attempt in attempts if attempt["chosen"])
    assert chosen["cycles"] <= min(attempt["cycles"] for attempt in attempts) * 1.01
    (file,) = tmp_path.glob("*.py")
    assert list(read_facts(file).style) == chosen["style"]
    result = run("compile", str(file), "-o", str(tmp_path / "built"), "--json")
    assert result.exit_code == 0, result.output
    compiled = json.loads(result.stdout)["conformance"]["cubin_order"]["beside_products"]
    assert compiled["lost_cycles"] == chosen["beside_products"]["lost_cycles"]


@pytest.mark.slow
def test_compile(tmp_path: Path) -> None:
    arguments = "gemm_chain", "-t", "h200", "--set", "dtype=fp16", "-o", str(tmp_path)
    result = run("emit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    attempts = json.loads(result.stdout)["compiled"]
    assert [bool(attempt["problems"]) for attempt in attempts] == [True, False]
    assert [attempt["conforms"] for attempt in attempts] == [None, True]
    folder = tmp_path
    for name in ("another.ptx", KERNEL.replace(".py", ".ptx")):  # of an earlier compilation
        (tmp_path / name).touch()
    result = run("compile", str(folder / KERNEL), "-t", "h200", "-o", str(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["local_bytes"], found["problems"], found["tensor_columns"]) == (0, [], 0)
    assert found["shared_bytes"] == read_facts(folder / KERNEL).shared_bytes <= 232448
    assert found["registers"] <= 65536 // 384
    assert max(role["registers"] for role in found["roles"]) in found["register_budgets"]
    assert ".target sm_90a" in Path(found["ptx"]).read_text("utf-8")
    assert Path(found["cubin"]).read_bytes().startswith(b"\x7fELF")
    assert Path(found["object"]).read_bytes().startswith(b"\x7fELF")


@pytest.mark.slow
def test_spill_makes_the_solver_leave_more_registers(tmp_path: Path) -> None:
    """A machine model that forgets what threads need beside tiles."""
    text = (Path(schedgen.__file__).parent / "machines" / "h200.yaml").read_text("utf-8")
    forgetful = tmp_path / "h200.yaml"
    forgetful.write_text(text.replace("warps: 4, registers: 24", "warps: 4, registers: 0"), "utf-8")
    result = run(
        *("emit", "attention_fwd", "-t", str(forgetful), "--compile", "--json"),
        *("-o", str(tmp_path)),
    )
    assert result.exit_code == 0, result.output
    attempts = json.loads(result.stdout)["compiled"]
    assert len(attempts) > 1
    assert attempts[0]["local_bytes"]
    fine = [not attempt["problems"] for attempt in attempts]
    assert fine == sorted(
        fine
    )  # what comes behind the first that is fine is another way to write it
    assert all(attempt["style"] for attempt in attempts[fine.index(True) + 1 :])
    budgets = [max(role["registers"] for role in attempt["roles"]) for attempt in attempts]
    assert budgets == sorted(budgets)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nope",), 2, "neither a shipped spec nor a file"),
        (("gemm_chain", "-t", "h2000"), 2, "h2000"),
        (("gemm_chain", "-t", "h200", "--set", "depth"), 2, "NAME=VALUE"),
        (("gemm_chain", "-t", "h200", "--set", "depth=4096"), 1, "shared memory"),
        (("fa4_unit", "-t", "abstract"), 1, "no emitter"),
        (("gemm_chain", "-t", "h200", "--pace", "tensor"), 2, "did you mean 'TENSOR'"),
        (("gemm_chain", "-t", "h200", "--pace", "TMA"), 1, "leave --pace TMA away"),
    ],
)
def test_emit_refuses(
    arguments: tuple[str, ...], status: int, message: str, tmp_path: Path
) -> None:
    result = run("emit", *arguments, "-o", str(tmp_path))
    assert result.exit_code == status
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("emit", "gemm_chain", "-t", "h200", "-o", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "file" in result.stderr


@pytest.mark.medium
def test_compile_refuses(folder: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other.py").write_text("x = 1\n")
    (broken := tmp_path / "broken.py").write_text("x = (\n")
    text = (folder / KERNEL).read_text("utf-8")
    (wrong := tmp_path / "wrong.py").write_text(text.replace("@cute.kernel", "@cute.colonel"))
    for arguments, status, message in (
        ((str(tmp_path / "none.py"),), 2, "No such file"),
        ((str(other),), 2, "written by 'schedgen emit'"),
        ((str(broken),), 2, "not Python"),
        ((str(folder / KERNEL), "-t", "b200"), 2, "emit it for b200"),
        ((str(wrong),), 1, "does not compile"),
    ):
        result = run("compile", *arguments)
        assert result.exit_code == status, result.output
        assert message in result.stderr


def test_file_names() -> None:
    assert file_name("gemm", "sm_90a", {}) == "gemm_sm_90a.py"
    settings = {"head_dim": "64", "dtype": "fp16", "causal": "true", "split": "3/4", "x": "false"}
    name = "attention_fwd_sm_90a_head_dim64_fp16_causal_split3_4_no_x.py"
    assert file_name("attention_fwd", "sm_90a", settings) == name


# -- the loop, with a compiler that spills as much as it is told to -----------------------------


class Compiler:
    """Reports these bytes of local memory, one after the other."""

    def __init__(self, folder: Path, *spilled: int, serialized: int = 0) -> None:
        self.facts = read_facts(folder / KERNEL)
        self.spilled = list(spilled)
        self.serialized = serialized
        program = gemm()
        vector = program.role["epilogue"]
        sums = Allocation("acc", Space.REGISTERS, 1, 128, 128, -1, 32)
        stored = program.operation["EPI"]
        held = replace(stored.accesses[0], allocation="acc")
        stored = replace(stored, accesses=(*stored.accesses, held))
        others = [o for o in program.operations if o.name != "EPI"]
        roles = (replace(vector, registers=200), *(r for r in program.roles if r != vector))
        self.program = replace(
            program,
            allocations=(*program.allocations, sums),
            operations=(stored, *others),
            roles=roles,
        )
        self.given: list[int] = []

    def emission(
        self, spec: Any, machine: Any, settings: Any, progress: Any, **others: Any
    ) -> emitting.Emission:
        del spec, settings, progress, others
        self.given.append(machine.role["vector"].registers)
        if self.given[-1] > 60:
            raise Infeasible("no registers")
        return self._emission()

    def again(self, *_: object, **__: object) -> emitting.Emission:
        """The same text: nothing else can be tried."""
        return self._emission()

    def _emission(self) -> emitting.Emission:
        even = SimpleNamespace(tile_range=(), walk=None)
        found = SimpleNamespace(problem=SimpleNamespace(kernel=even))
        proven = SimpleNamespace(program=self.program)
        return emitting.Emission("x.py", "", "", found, None, proven)  # type: ignore[arg-type]

    def overlap(self, _: Report) -> None:
        """There is no disassembler."""

    def cycles(self, _: Report, __: object) -> None:
        """Nor cycles without one."""

    def report(self, path: Path, folder: Path) -> Report:
        self.serialized -= 1
        built, budgets, spilled = Built(path, path, path), (24, 184), self.spilled.pop(0)
        return Report(self.facts, built, 168, budgets, spilled, serialized=self.serialized >= 0)

    def compiled(self, patch: pytest.MonkeyPatch, *, conform: bool = False) -> list[int]:
        """Registers beside tiles of the attempts."""
        patch.setattr(selecting, "emission", self.emission)
        patch.setattr(selecting, "written", self.again)
        patch.setattr(selecting, "restyled", self.again)
        patch.setattr(report, "compile_report", self.report)
        patch.setattr(attempts, "overlap_of", self.overlap)
        patch.setattr(attempts, "cycles_of", self.cycles)
        spec, machine = read_spec("gemm_chain"), read_machine("h200")
        made = selecting.compiled_emission(spec, machine, {}, conform=conform)[1]
        assert [attempt.chosen for attempt in made] == [*[False] * (len(made) - 1), True]
        return [attempt.variation.more_registers for attempt in made]


def test_no_spill_no_round(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(folder, 0)
    assert compiler.compiled(monkeypatch) == [0]
    assert compiler.given == [24]


def test_what_is_not_its_program_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what would be taken is compared, and only if that is wanted."""
    asked: list[Path] = []

    def differences(found: Report, _: emitting.Emission) -> tuple[str, ...]:
        asked.append(found.built.ptx)
        return ("load: loop[0] 'wait x': no instruction is left for it",)

    monkeypatch.setattr(attempts, "differences_of", differences)
    assert Compiler(folder, 0).compiled(monkeypatch) == [0]
    assert not asked
    with pytest.raises(EmitError, match=r"not its program(?s:.*)wait x(?s:.*)--no-conform"):
        Compiler(folder, 112, 0).compiled(monkeypatch, conform=True)
    assert len(asked) == 1


def test_rounds_leave_more_registers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(folder, 112, 16, 0)
    assert compiler.compiled(monkeypatch) == [0, 16, 32]
    assert compiler.given == [24, 40, 56]


def test_rounds_for_products_that_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Compiler(folder, 0, 0, serialized=1).compiled(monkeypatch) == [0, 16]
    with pytest.raises(EmitError, match=r"\(products are serialized, products are serialized with"):
        Compiler(folder, *8 * [0], serialized=8).compiled(monkeypatch)


def test_rounds_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmitError, match=r"112 bytes .*, 16 bytes .* with 16 more.*no registers"):
        Compiler(folder, *3 * [112, 16, 8]).compiled(monkeypatch)
    monkeypatch.setattr(selecting, "ROUNDS", 2)
    held = r"fix: give role epilogue less to hold .* of a thread \(acc 32\), or --no-compile"
    with pytest.raises(EmitError, match=held):
        Compiler(folder, *2 * [112, 16]).compiled(monkeypatch)


def test_report_finds_what_is_too_much(folder: Path) -> None:
    facts = read_facts(folder / KERNEL)
    path = folder / KERNEL
    good = Report(facts, Built(path, path, path), 168, (24, 184), 0)
    assert good.problems == ()
    assert "spilled to 8 bytes" in replace(good, local_bytes=8).problems[0]
    assert "serialized" in replace(good, serialized=True).problems[0]
    big = replace(facts, shared_bytes=232449, tensor_columns=513)
    shared, tensor = replace(good, facts=big).problems
    assert "232449 bytes" in shared
    assert "513 columns" in tensor
    assert "given 184, its code may use 168" in replace(good, budgets=()).problems[0]


def test_registers_behind_fences_are_not_accepted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by an assembler that spills nothing nor by more registers: another role helps."""
    compiler = Compiler(folder, *4 * [0])
    reported = compiler.report

    def moved(path: Path, where: Path) -> Report:
        return replace(reported(path, where), unfenced=(Unfenced("%r1", 12, 11),))

    monkeypatch.setattr(compiler, "report", moved)
    monkeypatch.setattr(selecting, "ROUNDS", 2)
    with pytest.raises(EmitError, match=r"registers of products .*\n  fix: .* a role of its own"):
        compiler.compiled(monkeypatch)
