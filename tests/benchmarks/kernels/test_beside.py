"""Commands that time functions of ours beside their peers, without a GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.benchmarks import timing
from schedgen.benchmarks.timing import Run, Timed
from schedgen.driver import lock_file
from schedgen.kernels import grouped_gemm, scaled_gemm

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SCRIPTS = ("beside", "experts", "grouped", "low_precision", "report")


def in_turns(candidates: dict[str, Run]) -> dict[str, Timed]:
    """The first takes 2 ms, the next one 3, and so on."""
    return {name: Timed(2.0 + n, 1000.4) for n, name in enumerate(candidates)}


def eagerly(candidates: dict[str, Run]) -> dict[str, Timed]:
    return {name: Timed(4.0 - n, 1000.0) for n, name in enumerate(candidates)}


def in_graphs(candidates: dict[str, Run], times: dict[str, Timed]) -> dict[str, float]:
    """A millisecond less than without a graph; the last one cannot be captured."""
    return {name: times[name].milliseconds - 1 for name in list(candidates)[:-1]}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The commands as modules, with tensors on the CPU, small problems and times by hand."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    found: dict[str, Any] = {name: import_module(name) for name in SCRIPTS}
    monkeypatch.setattr(found["beside"], "RESULTS", tmp_path)
    for name in ("low_precision", "experts"):
        monkeypatch.setattr(found[name], "DEVICE", "cpu")
    for name, stand_in in (("in_turns", in_turns), ("eagerly", eagerly), ("in_graphs", in_graphs)):
        monkeypatch.setattr(timing, name, stand_in)
    monkeypatch.setattr(timing, "warm", lambda run, seconds: run())  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    yield found
    for name in SCRIPTS:
        sys.modules.pop(name, None)


def options(scripts: dict[str, Any], *words: str, **more: Any) -> Any:
    found = scripts["beside"].parser("a command", ["one", "two"]).parse_args(words)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def test_options(scripts: dict[str, Any]) -> None:
    found = options(scripts)
    assert (found.only, found.seconds, found.check, found.save) == (
        ["one", "two"],
        100,
        False,
        False,
    )
    found = options(scripts, "--only", "two", "--seconds", "3", "--check", "--save", "--kernels")
    assert (found.only, found.seconds, found.check, found.save) == (["two"], 3, True, True)
    assert found.kernels
    with pytest.raises(SystemExit):
        options(scripts, "--only", "three")


def problem(scripts: dict[str, Any], error: float = 1e-3) -> Any:
    def refuse() -> Tensor:
        raise NotImplementedError("not on this GPU")

    runs: dict[str, Any] = dict.fromkeys(
        ("schedgen", "schedgen bf16", "torch", "quack"), lambda: torch.ones(2)
    )
    errors = iter([error, 2e-3, 3e-3, 4e-3])
    return scripts["beside"].Problem(runs | {"DeepGEMM": refuse}, lambda found: next(errors), 8e9)  # pyright: ignore


def test_rows(scripts: dict[str, Any]) -> None:
    """Ours over the best peer, which another function of ours is not."""
    case = scripts["beside"].Case("one", {"m": 1}, lambda: problem(scripts))
    ours, bf16, torchs, quack, deep = scripts["beside"].of_case(case, check=True)
    # Candidates take 2, 3, 4 and 5 ms; eagerly 4, 3, 2 and 1; in graphs 1, 2 and 3.
    assert (ours["ms"], ours["eager ms"], ours["graph ms"]) == (2.0, 4.0, 1.0)
    assert (ours["of best peer"], ours["of best peer in a graph"]) == (2.0, 3.0)
    assert ours["of best peer eagerly"] == 0.25
    assert (ours["TFLOP/s"], ours["error"], ours["MHz"]) == (4.0, "1.00e-03", 1000)
    assert (ours["same bits"], ours["right"]) == (True, True)
    assert (bf16["candidate"], bf16["ms"], bf16["graph ms"]) == ("schedgen bf16", 3.0, 2.0)
    assert not [key for row in (bf16, torchs, quack) for key in row if key.startswith("of best")]
    assert "graph ms" not in quack
    assert deep == {"candidate": "DeepGEMM", "note": "NotImplementedError: not on this GPU"}


def test_what_is_checked(scripts: dict[str, Any]) -> None:
    beside, results = scripts["beside"], iter([torch.ones(2), torch.zeros(2)])
    same = lambda: torch.ones(2)  # noqa: E731
    assert beside._checked(same, 0.1) == {"same bits": True, "right": False}
    found = beside._checked(lambda: next(results), 1e-3)
    assert found == {"same bits": False, "right": False}


def test_run(scripts: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are kept, a case that fails is one of them, and what is wrong is an exit status."""
    beside = scripts["beside"]
    cases = [beside.Case("one", {"m": m}, lambda: problem(scripts)) for m in (1, 2)]
    assert beside.run("some", cases, options(scripts, "--save", "--check")) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kept = json.loads((tmp_path / "some.json").read_text("utf-8"))
    assert kept["environment"] == lines[0]
    assert kept["rows"] == lines[1:11]
    assert [line["mean"] for line in lines[11:]] == [2.0, 0.25, 3.0]
    assert [line["slower"] for line in lines[11:]] == [0, 2, 0]
    wrong = beside.Case("one", {"m": 3}, lambda: problem(scripts, error=0.1))
    assert beside.run("some", [wrong], options(scripts, "--check")) == 1
    assert beside.run("some", [wrong], options(scripts)) == 0
    fails = beside.Case("two", {"m": 4}, lambda: 1 / 0)
    capsys.readouterr()
    assert beside.run("some", [fails], options(scripts)) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert beside.run("some", [fails], options(scripts, "--seconds", "-1")) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["left out"]["m"] == 4


# -- products of 8 bits ---------------------------------------------------------------------------


@pytest.mark.parametrize(("high", "wide"), [(1, 40), (1, 16), (16, 16), (5, 40)])
def test_quantized(scripts: dict[str, Any], high: int, wide: int) -> None:
    """As far from the numbers as half the spacing of e4m3; the last blocks may be smaller."""
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    found = scripts["low_precision"].quantized(x, high, wide)
    assert found.factors.shape == (-(-5 // high), -(-40 // wide))
    assert found.data.float().abs().max() == 448
    assert timing.error(found.numbers(), x.double()) < 2**-4
    rows = torch.tensor([4, 0])
    assert torch.equal(found.numbers(rows), found.numbers()[rows])


@pytest.mark.parametrize("part", ["rows", "whole", "blocks"])
@pytest.mark.parametrize(("m", "n", "k"), [(200, 144, 272), (3, 16, 256)])
def test_products(
    scripts: dict[str, Any], launches: list[str], part: str, m: int, n: int, k: int
) -> None:
    """Results of ours, and of `gemm` beside them, are near the reference in float64."""
    script = scripts["low_precision"]
    found = script.problem(part, m, n, k, bf16=True)
    assert list(found.candidates)[:2] == ["schedgen", "torch"]
    assert ("torch fast" in found.candidates) == (part != "blocks")
    assert found.flops == 2 * m * n * k
    assert found.error(found.candidates["schedgen"]()) < 3e-3
    assert found.error(found.candidates["schedgen bf16"]()) < 5e-3
    assert found.error(torch.zeros(m, n)) == 1
    assert launches[0].startswith("gemm_fp8_blocks" if part == "blocks" else "gemm_fp8_sm")
    assert set(launches) <= {one.name for one in lock_file.every()}


def test_reference_of_blocks(scripts: dict[str, Any], launches: list[str]) -> None:
    """Against sums that are written out; torch's layouts of factors are taken as they are."""
    script = scripts["low_precision"]
    x, w = (
        torch.randn(rows, 256, generator=torch.Generator().manual_seed(rows)) for rows in (130, 144)
    )
    a, b = script.quantized(x, 1, 128), script.quantized(w, 128, 128)
    rows, wanted = script.reference(a, b)
    assert rows.tolist() == [*range(64), *range(66, 130)]
    summed = torch.zeros(130, 144).double()
    for n, part in enumerate((slice(0, 128), slice(128, 256))):
        product = a.data[:, part].double() @ b.data[:, part].double().mT
        of_b = b.factors[torch.arange(144) // 128, n]
        summed += product * a.factors[:, n, None].double() * of_b.double()
    assert torch.allclose(wanted, summed[rows], rtol=1e-12)
    assert a.factors.mT.contiguous().mT.stride() == (1, 130)
    found = scaled_gemm(a.data, b.data.mT, a.factors.mT.contiguous().mT, b.factors.mT)
    assert script.error(rows, wanted, found) < 3e-3
    assert launches == ["gemm_fp8_blocks_sm_90a_e4m3_blocks.py"]


def test_deep_gemm(scripts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes operands with their factors, and writes where it is told."""

    def deep(a: Any, b: Any, out: Tensor) -> None:
        assert [tuple(x.shape) for x in (*a, *b)] == [(3, 256), (3, 2), (144, 256), (2, 2)]
        out.fill_(7)

    def imported(module: str, name: str) -> Any:
        return deep if (module, name) == ("deep_gemm", "fp8_gemm_nt") else None

    monkeypatch.setattr(timing, "imported", imported)
    found = scripts["low_precision"].problem("blocks", 3, 144, 256, bf16=False)
    assert found.candidates["DeepGEMM"]().unique().tolist() == [7]


def test_cases_of_products(scripts: dict[str, Any]) -> None:
    script = scripts["low_precision"]
    found = [(case.part, *case.named.values()) for case in script.cases(script.PARTS)]
    assert len(found) == len(set(found)) == 4 + 12 + 4 + 18 + 4
    assert ("blocks", 64, 2112, 7168) in found
    assert all(k % 512 == 0 and n % 16 == 0 for _, _, n, k in found)  # as torch wants it


# -- products of experts --------------------------------------------------------------------------


def test_sampled_rows(scripts: dict[str, Any]) -> None:
    assert scripts["experts"].sampled([3, 0, 10, 8]) == [0, 1, 2, *range(3, 11), 12, *range(13, 21)]


@pytest.mark.parametrize("sizes", [[3, 0, 10, 8], [0, 0, 21, 0], [21, 0, 0, 0]])
def test_experts(scripts: dict[str, Any], launches: list[str], sizes: list[int]) -> None:
    script = scripts["experts"]
    found = script.problem(sizes, 48, 64, False)
    assert list(found.candidates) == ["schedgen", "torch"]
    assert found.flops == 2 * 21 * 48 * 64
    assert found.error(found.candidates["schedgen"]()) < 3e-3
    assert launches[0].startswith("gemm_grouped_sm_90a_bf16")


@pytest.mark.parametrize("sizes", [[3, 0, 10, 8], [0, 0, 21, 0]])
def test_gradients_of_experts(
    scripts: dict[str, Any], launches: list[str], sizes: list[int]
) -> None:
    found = scripts["experts"].gradients(sizes, 48, 64)
    assert list(found.candidates) == ["schedgen", "torch"]
    assert found.flops == 2 * 21 * 48 * 64
    for run in found.candidates.values():
        assert found.error(run()) < 3e-3
    assert launches[0].startswith("gemm_grouped_k_sm_90a_bf16")


def test_reference_of_experts(scripts: dict[str, Any], launches: list[str]) -> None:
    script = scripts["experts"]
    a, b = torch.randn(21, 64).bfloat16(), torch.randn(4, 48, 64).bfloat16().mT
    sizes, ends = [3, 0, 10, 8], torch.tensor([3, 3, 13, 21], dtype=torch.int32)
    pairs = enumerate(zip((3, 3, 13, 21), sizes, strict=True))
    whole = torch.cat(
        [a[end - size : end].double() @ b[group].double() for group, (end, size) in pairs]
    )
    rows = torch.tensor(script.sampled(sizes))
    assert torch.equal(script.reference(a, b, ends, rows), whole[rows])
    assert script.error(rows, whole[rows], grouped_gemm(a, b, ends)) < 3e-3
    assert len(launches) == 1


def test_quack(scripts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def quack(a: Tensor, b: Tensor, *, cu_seqlens_m: Tensor, tuned: bool) -> Tensor:
        assert cu_seqlens_m.tolist() == [0, 3, 3, 13, 21]
        assert tuned
        return a

    monkeypatch.setattr(timing, "imported", lambda module, name: quack)  # pyright: ignore
    found = scripts["experts"].problem([3, 0, 10, 8], 48, 64, True)
    assert found.candidates["quack"]().shape == (21, 64)


def test_cases_of_experts(scripts: dict[str, Any]) -> None:
    script = scripts["experts"]
    found = list(script.cases(list(script.PARTS), False))
    parts = ["experts"] * 6 + ["mixtral"] * 4 + ["gradients"] * 6
    parts += ["gathered"] * 2 + ["gathered, mixtral"] * 2
    assert [case.part for case in found] == parts
    for case in found:
        sizes, n, k, *_ = case.make.args
        assert (sum(sizes), len(sizes)) == (case.named["rows"], case.named["groups"])
        assert (n, k) == (case.named["n"], case.named["k"])


@pytest.mark.parametrize("name", ["low_precision", "experts"])
def test_kernels(
    scripts: dict[str, Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names of shipped kernels, without a GPU."""
    monkeypatch.setattr(sys, "argv", [name, "--kernels"])
    assert scripts[name].main() == 0
    found = capsys.readouterr().out.split()
    assert set(found) <= {one.name for one in lock_file.every() if one.lock.arch == "sm_90a"}
    assert len(found) == len(set(found)) > 1
    spec = {"low_precision": "gemm_fp8", "experts": "gemm_grouped"}[name]
    assert f"{spec}_sm_90a_{'e4m3' if spec == 'gemm_fp8' else 'bf16'}.py" in found
