"""`schedgen emulate`: schedules, limits, exit status."""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app
from schedgen.codegen import emit
from schedgen.codegen.errors import EmitError
from schedgen.driver import selecting
from schedgen.emulator.machine.launch import LIMIT, STALL
from schedgen.kernel import Kernel
from schedgen.kernels.library import named
from schedgen.proof.prove import ProvenProgram
from tests.schedgen.driver.test_emulating import SETTINGS, SMALL

COMMAND = (
    *("emulate", "gemm", "--target=h200"),
    *(f"--set={name}={value}" for name, value in SETTINGS.items()),
    *(f"--extent={name}={value}" for name, value in SMALL.items()),
)
LOOP = "    while tile < tiles:\n"
"""Over output tiles, in each role."""


def run(*options: str) -> Result:
    return CliRunner().invoke(app, [*COMMAND, *options])


def instead(patch: pytest.MonkeyPatch, old: str, new: str, times: int = -1) -> None:
    """Kernels that are emitted have ``new`` instead of ``old``."""
    plain = emit.emit

    def changed(proven: ProvenProgram, kernel: Kernel, **others: Any) -> str:
        text = plain(proven, kernel, **others)
        assert old in text
        return text.replace(old, new, times)

    patch.setattr(emit, "emit", changed)


@pytest.mark.medium
def test_command() -> None:
    result = run("--json", "--schedule=adversarial", "--seeds=2")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    runs = found["runs"]
    assert [run["schedule"] for run in runs] == ["adversarial, seed 0", "adversarial, seed 1"]
    assert all(run["correct"] and run["findings"] == 0 for run in runs)
    assert found["limits"] == {"limit": None, "stall": None, "seconds": None}
    assert "banks" not in found


@pytest.mark.medium
def test_bank_conflicts() -> None:
    """Results of 16 bits are stored by matrices in swizzled rows: no two lanes meet in a bank."""
    result = run("--banks")
    assert result.exit_code == 0, result.output
    assert "bank conflicts: none in " in result.stdout
    found = json.loads(run("--banks", "--json", "--no-races").stdout)["banks"]
    assert found["passes"] == found["least"] > 0
    assert {one["instruction"][:8] for one in found["accesses"]} == {"ldmatrix", "stmatrix"}


@pytest.mark.parametrize(
    ("options", "asked"), [((), [True]), (("--compile",), [True]), (("--no-compile",), [])]
)
def test_executes_what_the_compiler_accepts(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], asked: list[bool]
) -> None:
    """The schedule that 'emit --compile' selects, unless told otherwise."""
    found: list[bool] = []

    def compiled(*_: object, **__: object) -> None:
        found.append(True)
        raise EmitError("selected by compiling")

    def first(*_: object, **__: object) -> None:
        raise EmitError("the best one")

    monkeypatch.setattr(selecting, "compiled_emission", compiled)
    monkeypatch.setattr(selecting, "emission", first)
    result = run("--no-cache", *options)
    assert result.exit_code != 0
    assert found == asked
    assert ("selected by compiling" if asked else "the best one") in result.output


def test_refuses_other_schedules() -> None:
    assert run("--schedule=fast").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--limit=20000", "executed more than 20000 warp instructions"),
        ("--seconds=0.5", "not come to its end in 0.5 s"),
    ],
)
def test_a_kernel_that_loops_forever_ends(
    monkeypatch: pytest.MonkeyPatch, option: str, says: str
) -> None:
    """All roles compute the first tile again and again."""
    instead(monkeypatch, "tile += cute.arch.grid_dim()[0]", "tile += 0 * cute.arch.grid_dim()[0]")
    begin = perf_counter()
    result = run(option, "--no-races")
    assert result.exit_code == 1
    assert "round-robin: FAILED" in result.output
    assert says in result.output
    assert "it may loop forever" in result.output
    assert perf_counter() - begin < 60


@pytest.mark.slow
def test_a_kernel_that_spins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One role does nothing, for ever."""
    instead(monkeypatch, LOOP, f"{LOOP}        cute.arch.sync_warp()\n{LOOP}", 1)
    result = run("--stall=0.5", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["limits"] == {"limit": None, "stall": 0.5, "seconds": None}
    assert "executed for 0.5 s without an arrival" in found["runs"][0]["failure"]
    assert 0.5 < found["runs"][0]["seconds"] < 60


@pytest.mark.slow
def test_limits_hold_for_each_execution() -> None:
    """What one takes is not counted for the next."""
    count = json.loads(run("--json").stdout)["runs"][0]["warp_instructions"]
    many = [f"--limit={2 * count}", "--schedule=random", "--seeds=4"]
    assert run(*many).exit_code == 0
    assert run(f"--limit={count // 2}").exit_code == 1


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--limit=0", "--limit 0: write a number of warp instructions above 0"),
        ("--stall=-1", "--stall -1: write a number of seconds above 0"),
        ("--seconds=0", "--seconds 0: write a number of seconds above 0"),
        ("--seconds=nan", "--seconds nan: write a number of seconds above 0"),
        ("--seconds=inf", "--seconds inf: write a number of seconds above 0"),
        ("--stall=long", "Invalid value for '--stall'"),
    ],
)
def test_bad_limits(option: str, says: str) -> None:
    result = run(option)
    assert result.exit_code == 2
    assert says in result.output


def test_help_says_what_the_limits_are() -> None:
    words = " ".join(CliRunner().invoke(app, ["emulate", "--help"]).output.split())
    assert f"Default: {LIMIT}." in words
    assert f"Default: {STALL:g}." in words


def test_options_complete() -> None:
    words = {"_SCHEDGEN_COMPLETE": "complete_bash", "COMP_WORDS": "schedgen emulate gemm --s"}
    result = CliRunner().invoke(
        app, env={**os.environ, **words, "COMP_CWORD": "3"}, prog_name="schedgen"
    )
    assert {"--stall", "--seconds"} <= set(result.output.split())


# -- generated files ------------------------------------------------------------------------------

SHIPPED = "gemm_sm_90a_bf16_tile_m64_consumers1_tile_n64_tile_k128.py"


def of_file(path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["emulate", str(path), "--extent=k=136", *options])


@pytest.mark.medium
def test_a_generated_file_as_it_is(tmp_path: Path) -> None:
    result = of_file(named(SHIPPED), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"][0]["extents"]["k"] == 136
    fence = '        cute.arch.fence_proxy("async.shared", space="cta")\n'
    text = named(SHIPPED).read_text("utf-8")
    assert fence in text
    changed = tmp_path / SHIPPED
    changed.write_text(text.replace(fence, "", 1), encoding="utf-8")
    result = of_file(changed)
    assert result.exit_code == 1
    assert "RACES" in result.output
    assert "needs  fence.proxy.async" in result.output


@pytest.mark.slow
def test_a_file_of_another_name(tmp_path: Path) -> None:
    """It says itself which settings it was made with, and where a triangle is stored twice depends
    on the size of tiles.
    """
    name = "gemm_symmetric_sm_90a_bf16_tile_m64_consumers1_tile_n128.py"
    copy = tmp_path / "mine.py"
    copy.write_text(named(name).read_text("utf-8"), encoding="utf-8")
    result = of_file(copy)
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_a_file_with_an_extent_that_has_another_name_there() -> None:
    """`n_factors` looks like a name that is made in such files, so there it is `x_n_factors`."""
    path = named("gemm_fp8_blocks_sm_90a_e4m3_blocks.py")
    result = CliRunner().invoke(app, ["emulate", str(path), "--extent=k=256", "--extent=m=72"])
    assert result.exit_code == 0, result.output


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    result = of_file(named(SHIPPED), "--set=dtype=fp16")
    assert result.exit_code == 2
    assert "argument 'a' is" in result.output
    assert "fix: --set what it was emitted with" in result.output
    other = tmp_path / "other.py"
    other.write_text("print(1)\n", encoding="utf-8")
    assert "there is no KERNEL; give a file written by" in of_file(other).output
    assert of_file(tmp_path / "none.py").exit_code == 2
