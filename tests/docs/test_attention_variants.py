"""Variants of attention: each is an edit of a few lines of the shipped spec, with no code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import shapes
from schedgen.driver.selecting import compiled_emission
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import Spec, parse_spec

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "attention"
MOST_LINES = 10
"""That a variant changes."""

SETTINGS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "window": ({"causal": "true", "window": "150"}, {"window": "1"}),
    "prefix": ({"causal": "true", "prefix": "150"},),
    "soft_cap": ({"causal": "true"},),
    "alibi": ({"causal": "true"},),
    "sinks": ({"causal": "true"},),
    "document": ({},),
}
"""Such that the few keys that are emulated have iterations of all kinds."""

CASES = [
    pytest.param(name, target, settings, id=f"{name}-{target}-{number}")
    for name, several in SETTINGS.items()
    for target in ("h200", "b200")
    for number, settings in enumerate(several)
]


def hunks(patch: str) -> Iterator[tuple[str, str]]:
    """What each hunk of a unified diff replaces, and by what."""
    for hunk in patch.split("\n@@ ")[1:]:
        lines = hunk.splitlines()[1:]
        old = [line[1:] for line in lines if line[0] in " -"]
        new = [line[1:] for line in lines if line[0] in " +"]
        yield "\n".join(old) + "\n", "\n".join(new) + "\n"


def variant(name: str) -> Spec:
    """The shipped spec with a diff applied, as `patch` would."""
    text = (ROOT / "specs" / "attention_fwd.yaml").read_text("utf-8")
    for old, new in hunks((FOLDER / f"{name}.diff").read_text("utf-8")):
        assert text.count(old) == 1, f"{name}.diff does not fit specs/attention_fwd.yaml:\n{old}"
        text = text.replace(old, new)
    return parse_spec(text, f"{name}.yaml")


def test_all_are_tested_and_shown() -> None:
    page = (ROOT / "docs" / "attention.md").read_text("utf-8")
    assert sorted(SETTINGS) == sorted(path.stem for path in FOLDER.glob("*.diff"))
    for name in SETTINGS:
        assert f"examples/attention/{name}.diff" in page
        for line in (FOLDER / f"{name}.diff").read_text("utf-8").splitlines()[2:]:
            assert line[0] not in "+-" or line[1:7] == "kernel" or f"\n{line}\n" in page


@pytest.mark.parametrize("name", SETTINGS)
def test_few_lines_change(name: str) -> None:
    lines = (FOLDER / f"{name}.diff").read_text("utf-8").splitlines()[2:]
    assert 0 < sum(line[0] == "+" for line in lines) <= MOST_LINES
    assert sum(line[0] == "-" for line in lines) <= MOST_LINES


@pytest.mark.parametrize(("name", "target", "settings"), CASES)
def test_they_are_kernels(name: str, target: str, settings: Mapping[str, str]) -> None:
    spec = variant(name)
    assert bind(spec.source, spec.file, target, settings)[0].name == f"attention_{name}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "target", "settings"), CASES)
def test_they_are_correct_and_clean(name: str, target: str, settings: Mapping[str, str]) -> None:
    """Solved, proven, compiled to what is the program, and executed at all extents."""
    spec, machine = variant(name), read_machine(target)
    made, _ = compiled_emission(spec, machine, settings, conform=True)
    kernel = made.solution.problem.kernel
    assert made.solution.schedule.proven_optimal
    with compiled(made.text, kernel, machine.arch, sms=1) as gpu:
        for extents in shapes(kernel).values():
            policies: tuple[Policy, ...] = (RoundRobin(), Adversarial(0))
            for policy in policies:
                outcome = gpu.run(extents, policy)
                assert outcome.correct, (extents, outcome.errors, outcome.reservations)
                assert outcome.clean, outcome.report.text
