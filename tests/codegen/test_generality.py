"""Specs that the emitter was not written for: from YAML to kernels, without a line of Python.

What they compute is compared with torch here, in float64, not with the interpreter that reads the
same spec. `generality.py` has the problems; on a GPU they are in `test_generality_on_gpu.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from schedgen.codegen.facts import file_name
from schedgen.codegen.report import compile_report
from schedgen.driver.emulating import emulate
from schedgen.driver.inputs import random_inputs
from schedgen.driver.selecting import compiled_emission, selected
from schedgen.emulator.machine.policies import Adversarial, RoundRobin
from schedgen.interpret.sequential import run
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of
from tests.codegen.generality import PROBLEMS, SETTINGS, Problem

SMALL = [problem for problem in PROBLEMS if problem.small]


@pytest.mark.medium
@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_spec_means_what_it_should(problem: Problem) -> None:
    """The interpreted spec is what torch computes; it is the reference of the emulator."""
    _, kernel = solved(SPECS / f"{problem.spec}.yaml", "h200", **dict(problem.settings))
    inputs = random_inputs(kernel, problem.extents, 0)
    (found,) = run(kernel, inputs).values()
    wanted = problem.reference({name: _wide(x) for name, x in inputs.items()})
    assert (found.double() - wanted).norm() < 8e-3 * wanted.norm()


def _wide(x: torch.Tensor | float) -> torch.Tensor | float:
    return x.double() if isinstance(x, torch.Tensor) else x


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("problem", SMALL, ids=str)
@pytest.mark.parametrize("policy", [RoundRobin, lambda: Adversarial(1)], ids=["turns", "adverse"])
def test_emulated(problem: Problem, target: str, policy: type[RoundRobin]) -> None:
    """Right, and free of races."""
    spec, settings = SPECS / f"{problem.spec}.yaml", dict(problem.settings)
    _, kernel = solved(spec, target, **settings)
    text, arch = text_of(spec, target, **settings), ARCHITECTURES[target]
    outcome = emulate(text, kernel, arch, extents=problem.extents, policy=policy())
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize(("spec", "settings"), SETTINGS, ids=str)
def test_compiles(
    spec: str, settings: tuple[tuple[str, str], ...], target: str, tmp_path: Path
) -> None:
    """Without spills, within shared and tensor memory."""
    path = tmp_path / file_name(spec, ARCHITECTURES[target], dict(settings))
    path.write_text(text_of(SPECS / f"{spec}.yaml", target, **dict(settings)), encoding="utf-8")
    assert compile_report(path, tmp_path).problems == ()


OTHERS = {"biased_softmax": {"columns": "96"}, "product_norm": {}, "clashing_names": {}}
"""With all of the 128 columns that it may have, the first one takes 8 bytes more than registers."""


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("spec", ["biased_softmax", "product_norm"])
def test_other_mechanisms(spec: str, target: str) -> None:
    """Coordinates in formulas of rows, values per column, masks with two ends, two reductions."""
    _, kernel = solved(SPECS / f"{spec}.yaml", target)
    text = text_of(SPECS / f"{spec}.yaml", target)
    extents = {"m": 150, "n": 56, "k": 72}
    outcome = emulate(text, kernel, ARCHITECTURES[target], extents=extents)
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_statistics_of_output_tiles(target: str) -> None:
    """Two reductions over slices, stored for each of several tiles, as their program says."""
    spec, machine = read_spec(str(SPECS / "row_statistics.yaml")), read_machine(target)
    made, _ = compiled_emission(spec, machine, {}, conform=True)  # raises if one is missing
    kernel = made.solution.problem.kernel
    extents = {"m": 150, "n": 300, "k": 72, "n_tiles": 3}
    outcome = emulate(made.text, kernel, ARCHITECTURES[target], extents=extents)
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("spec", OTHERS)
def test_others_compile(spec: str, target: str, tmp_path: Path) -> None:
    """What `schedgen emit` selects: with more registers where the first schedule spills."""
    emitted, _ = selected(str(SPECS / f"{spec}.yaml"), target, OTHERS[spec])
    path = tmp_path / f"{spec}.py"
    path.write_text(emitted.text, encoding="utf-8")
    assert compile_report(path, tmp_path).problems == ()


def test_emitter_knows_neither() -> None:
    """No name of these specs, nor of a shipped one, is in the emitter."""
    folder = Path(__file__).parents[2] / "codegen"
    text = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    for name in ("gated", "product_softmax", "attention_fwd", "gemm_", "kernel.name =="):
        assert name not in text
