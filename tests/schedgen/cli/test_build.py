"""`schedgen build`: what is compiled, what is said of it, and that it goes on where it was."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from schedgen.cli.app import app
from schedgen.codegen.compiling import CompileError
from schedgen.codegen.errors import EmitError
from schedgen.kernels import cache, library, of_spec
from schedgen.kernels.of_spec import SpecKernel, function_of

RUN = CliRunner()
FILE = library.EXAMPLES / "gemm_sm_90a_bf16.py"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Nothing is compiled; what would be, with the number of SMs."""
    asked: list[tuple[str, int]] = []

    def compile_(path: Path, sms: int) -> bytes:
        asked.append((path.stem, sms))
        if "gemm_chain_sm_100a_fp16" in path.stem:
            raise CompileError("out of registers")
        return b"object"

    monkeypatch.setattr(cache, "_compile", compile_)
    return asked


def test_all_of_a_target(compiled: list[tuple[str, int]]) -> None:
    run = RUN.invoke(app, ["build", "gemm_chain", "--target", "h200"])
    assert run.exit_code == 0
    names = ["gemm_chain_sm_90a_bf16", "gemm_chain_sm_90a_fp16"]
    assert sorted(compiled) == [(name, 132) for name in names]
    assert [name for name in names if f"{name}: 6 bytes, " not in run.stdout] == []
    assert "2/2 " in run.stdout
    assert run.stdout.splitlines()[-1].startswith("2 kernels in ")


@pytest.mark.medium
def test_it_goes_on_where_it_was(compiled: list[tuple[str, int]]) -> None:
    assert RUN.invoke(app, ["build", "gemm_chain_sm_90a_bf16"]).exit_code == 0
    run = RUN.invoke(app, ["build", "gemm_chain", "--target", "h200", "--json", "--jobs", "1"])
    assert len(compiled) == 2
    found = {one["name"]: one for one in json.loads(run.stdout)["kernels"]}
    assert found["gemm_chain_sm_90a_bf16"]["kept"]
    assert not found["gemm_chain_sm_90a_fp16"]["kept"]


@pytest.mark.medium
def test_one_that_does_not_compile_stops_no_other(compiled: list[tuple[str, int]]) -> None:
    run = RUN.invoke(app, ["build", "gemm_chain", "--sms", "100"])
    assert run.exit_code == 1
    assert {sms for _, sms in compiled} == {100}
    assert len(compiled) == 4
    assert "gemm_chain_sm_100a_fp16: out of registers" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("3 kernels in ")


def test_mistakes(compiled: list[tuple[str, int]]) -> None:
    for arguments, text in (
        (["build", "--target", "abstract"], "'abstract' has no shipped kernels; use h200, b200"),
        (["build", "nothing"], "no shipped kernel begins with nothing; fix: "),
        (["build", "--set", "rows=8"], "--set rows=8 is a parameter of no spec; fix: give one"),
        (["build", "gemm", "--spec", "gemm"], "'gemm' is the name of shipped kernels; fix: leave"),
        (["build", "--spec", "gemm", "--jobs", "2"], "one by one; fix: leave --jobs 2 away"),
        (["build", "--spec", "gem"], "'gem' is neither a shipped spec nor a file"),
    ):
        run = RUN.invoke(app, arguments)
        assert run.exit_code == 2
        assert text in run.stderr
    assert compiled == []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Kernels of specs are shipped files; what is asked for. On b200 registers are too few."""
    asked: list[dict[str, Any]] = []

    def kernel(spec: str, settings: dict[str, str], target: str) -> SpecKernel:
        asked.append({"spec": spec, "target": target, **settings})
        logging.getLogger("schedgen.kernels").warning("making it")
        if target == "b200":
            raise EmitError("registers do not suffice")
        return function_of(FILE)

    monkeypatch.setattr(of_spec, "spec_kernel", kernel)
    return asked


def test_kernels_of_a_spec(
    compiled: list[tuple[str, int]], made: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """For all GPUs that it is written for; one that is refused stops no other."""
    run = RUN.invoke(app, ["build", "--spec", "attention_varlen", "--set", "head_dim=64"])
    assert run.exit_code == 1
    assert [one.pop("target") for one in made] == ["b200", "h200"]
    assert made == [{"spec": "attention_varlen", "head_dim": "64"}] * 2
    assert "1/2 attention_varlen for b200: registers do not suffice" in run.stdout
    assert f"2/2 {FILE.stem}: 6 bytes, " in run.stdout
    assert run.stdout.splitlines()[-1].startswith("1 kernels in ")
    assert compiled == [(FILE.stem, 132)]
    assert not caplog.records


def test_kernels_of_a_spec_for_one_gpu(
    compiled: list[tuple[str, int]], made: list[dict[str, Any]]
) -> None:
    arguments = ["build", "--spec", "attention_varlen", "-t", "h200", "--sms", "78", "--json"]
    for kept in (False, True):
        run = RUN.invoke(app, arguments)
        assert run.exit_code == 0
        (found,) = json.loads(run.stdout)["kernels"]
        assert (found["name"], found["kept"]) == (FILE.stem, kept)
    assert compiled == [(FILE.stem, 78)]
    assert len(made) == 2


def test_every_shipped_kernel_is_built() -> None:
    assert len(library.shipped(list(library.SMS))) == 635


@pytest.mark.slow
def test_an_object_comes_of_it(folder: Path) -> None:
    run = RUN.invoke(app, ["build", "gemm_chain_sm_90a_bf16"])
    assert run.exit_code == 0
    (entry,) = folder.glob("gemm_chain_sm_90a_bf16-*.o")
    assert b"ELF" in entry.read_bytes()[:8]
