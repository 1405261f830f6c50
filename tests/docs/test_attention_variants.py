"""Variants of attention: each is an edit of a few lines of the shipped spec, with no code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import shapes
from schedgen.driver.selecting import compiled_emission
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.interpret.sequential import run
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import Spec, parse_spec
from tests.schedgen.interpret.problems import random

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


SMALL = {"rows": "16", "keys": "16", "head_dim": "64"}
SEQ_Q, SEQ_K = 60, 75
PLAIN: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "window": ({"window": "20"}, {"window": "1"}, {"causal": "true", "window": "37"}),
    "prefix": ({"causal": "true", "prefix": "30"}, {"causal": "true", "prefix": "70"}),
}
"""Settings with which a few small tiles have iterations of all kinds; others have the usual."""


def plainly(
    name: str, settings: Mapping[str, str], given: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """The result and the logarithms of sums [batch, heads, rows] in float64, without tiles."""
    q, k, v = (given[one].double().transpose(1, 2) for one in ("q", "k", "v"))
    row, column = torch.arange(SEQ_Q)[:, None] + SEQ_K - SEQ_Q, torch.arange(SEQ_K)[None, :]
    keep = (column <= row) | (settings.get("causal") != "true")
    scores = q @ k.transpose(2, 3)
    match name:
        case "window":
            keep &= row - column < int(settings["window"])
        case "prefix":
            keep |= column < int(settings["prefix"])
        case "soft_cap":
            scores = given["cap"] * torch.tanh(scores * given["inverse_cap"])
        case "alibi":
            scores += given["slope"].double()[:, None, None] * (column - row)
        case "document":
            keep = keep & (given["doc_q"][:, None, :, None] == given["doc_k"][:, None, None, :])
        case _:
            pass
    scores = (scores / 8).masked_fill(~keep, -torch.inf)
    sums = scores.logsumexp(3)
    if name == "sinks":
        sums = torch.logaddexp(sums, given["sink"].double()[:, None] * math.log(2))
    return ((scores - sums[..., None]).exp() @ v).transpose(1, 2), sums


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, one) for name in SETTINGS for one in PLAIN.get(name, SETTINGS[name])],
)
def test_they_mean_what_they_say(name: str, settings: Mapping[str, str]) -> None:
    """Beside a formula that knows neither spec nor tiles."""
    spec = variant(name)
    kernel = bind(spec.source, spec.file, "h200", {**SMALL, **settings})[0]
    documents = torch.arange(SEQ_K).float().expand(2, -1) // 20
    given = {
        **{one: random(2, SEQ_K, 2, 64, seed=n) for n, one in enumerate("kv")},
        **{"q": random(2, SEQ_Q, 2, 64, seed=2), "scale": torch.tensor(math.log2(math.e) / 8)},
        **{"cap": torch.tensor(15.0), "inverse_cap": torch.tensor(1 / 15.0)},
        **{"slope": torch.tensor([0.5, 0.25]), "sink": torch.tensor([1.5, -2.0])},
        **{"doc_q": documents[:, SEQ_K - SEQ_Q :].contiguous(), "doc_k": documents.contiguous()},
    }
    inputs = {a.name: given[a.name] for a in kernel.arguments if a.name in given}
    found = run(kernel, inputs)
    result, sums = plainly(name, settings, given)
    torch.testing.assert_close(found["o"].double(), result, rtol=2e-2, atol=1e-2)
    torch.testing.assert_close(found["lse"].double(), sums, rtol=1e-4, atol=1e-3)


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
