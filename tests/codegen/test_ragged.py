"""Kernels whose trip counts and addresses are data: text, and what they do in the emulator."""

from __future__ import annotations

import pytest
import torch

from schedgen.driver.emulating import compiled, emulate
from schedgen.driver.inputs import compared, default_extents, outputs, random_inputs
from schedgen.driver.proved import QUICK
from schedgen.driver.selecting import compiled_emission
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.machine_file import read_machine
from schedgen.reference.evaluate import evaluate
from schedgen.spec.reader import read_spec
from tests.codegen.examples import ARCHITECTURES, SPECS, room_for, solved, text_of

GROUPED = SPECS / "grouped.yaml"
EXTENTS = {"m": 140, "n": 40, "k": 72}
BROKEN = (
    (-5, 40, 40, 10**6, 300, 225),
    (2**31 - 1, -(2**31), 0, 0, 0, 7),
    (0, 0, 0, 0, 0, 2**31 - 1),
)
"""Contents that decrease, begin before the tensor or end behind it."""


def test_text() -> None:
    text = text_of(GROUPED, "h200")
    assert "begin_m, m = segment_of(of_offsets, at_group, total)" in text
    assert "if at_m * 128 < m:" in text
    # Each role asks that, so each finds out where its tiles lie.
    assert text.count("begin_m, m = segment_of(") == text.count("if at_m * 128 < m:")
    assert "= in_bands(" not in text
    assert "ragged_map(cute.make_tensor(a.iterator, cute.select(a.layout, [0, 1])), 0)" in text
    assert "cute.make_tensor(b.iterator, cute.select(b.layout, [1, 2, 0]))," in text
    assert '("offsets", ("bounds",), "i32"),' in text
    assert '("a", ("total", "k"), "bf16"),' in text
    assert "if n_group >= n_bounds:" in text


def test_tiles_of_equal_sizes_are_computed_without_asking() -> None:
    text = text_of(SPECS / "product_norm.yaml", "h200")
    assert "segment_of" not in text
    assert "opaque" not in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_products_of_groups(target: str) -> None:
    _, kernel = solved(GROUPED, target)
    text, arch = text_of(GROUPED, target), ARCHITECTURES[target]
    outcome = emulate(text, kernel, arch, extents=EXTENTS, policy=Adversarial(1))
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_contents_that_break_the_bounds_are_contained(target: str) -> None:
    """The emulator ends where anything outside of a tensor is touched; nothing is stored outside of
    what the limited sizes leave.
    """
    _, kernel = solved(GROUPED, target)
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 0)
    with compiled(text_of(GROUPED, target), kernel, ARCHITECTURES[target]) as made:
        for contents in BROKEN:
            inputs["offsets"] = torch.tensor(contents, dtype=torch.int32)
            results = outputs(kernel, sizes)
            made.execute({**inputs, **results})
            numbers = {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}
            expected = evaluate(kernel, numbers, sizes)
            for result in compared(kernel, results, expected).values():
                assert result.matches, contents


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("spec", ["attention_varlen"])
@pytest.mark.parametrize("causal", ["false", "true"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("policy", [RoundRobin, lambda: Adversarial(2)], ids=["turns", "adverse"])
def test_attention_of_lengths(
    target: str, spec: str, causal: str, heads: int, policy: type[Policy]
) -> None:
    """Lengths of 0, 1, 127, 129 and more; also with keys that several heads share."""
    _, kernel = solved(spec, target, causal=causal)
    text, arch = text_of(spec, target, causal=causal), ARCHITECTURES[target]
    extents = {"seq_q": 260, "seq_k": 200, "heads": heads}
    outcome = emulate(text, kernel, arch, extents=extents, policy=policy())
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize(
    ("spec", "causal"),
    [("delta", ""), ("kv", "false"), ("kv", "true"), ("q", "false"), ("q", "true")],
)
def test_gradients_of_lengths(target: str, spec: str, causal: str) -> None:
    """The same lengths, with keys that two heads share."""
    settings = {"head_dim": "64", "causal": causal} if causal else {}
    of_lengths(f"attention_varlen_bwd_{spec}", target, causal, settings)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("ordered", ["false", "true"])
@pytest.mark.parametrize("causal", ["false", "true"])
def test_gradients_of_lengths_in_one_walk(target: str, ordered: str, causal: str) -> None:
    """Tiles of keys of a sequence add to gradients of its queries, and to no other's."""
    settings = {"head_dim": "64", "causal": causal, "ordered": ordered}
    of_lengths("attention_varlen_bwd", target, causal, settings)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nobody_waits_for_ever_whatever_arrays_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences longer than there is room for, and ones that overlap, which have more tiles than
    there are CTAs; two of these have room at a time. The emulator finds that nobody moves, and
    that something outside of a tensor is touched.
    """
    room_for(2, monkeypatch)
    settings = {"head_dim": "64", "causal": "true", "ordered": "true"}
    _, kernel = solved("attention_varlen_bwd", "h200", **settings)
    sizes = default_extents(kernel, {"seq_q": 130, "seq_k": 300, "heads": 2, "heads_k": 1})
    inputs = random_inputs(kernel, sizes, 0)
    with compiled(text_of("attention_varlen_bwd", "h200", **settings), kernel, "sm_90a") as made:
        overlapping = (0, 565, 0, 565, 0, 565)
        for contents in ((0, 265, 265, 200, 265, 300), overlapping, *BROKEN):
            for name in ("cu_seqlens_q", "cu_seqlens_k"):
                inputs[name] = torch.tensor(contents, dtype=torch.int32)
            zeros = {"turns": torch.zeros(sizes["n_turns"], dtype=torch.int32)}
            made.execute({**inputs, **outputs(kernel, sizes, inputs), **zeros}, Adversarial(1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("causal", ["false", "true"])
@pytest.mark.parametrize("dim", ["64", "128"])
@pytest.mark.parametrize("name", ["_bwd_kv", "_bwd_q", "_bwd"])
def test_the_compiler_accepts_gradients_of_lengths(name: str, dim: str, causal: str) -> None:
    """Those that functions make are shipped nowhere, so that nothing else compiles them: it raises
    if registers do not suffice.
    """
    spec, machine = read_spec(f"attention_varlen{name}"), read_machine("h200")
    ordered = {"ordered": "true"} if name == "_bwd" else {}
    made, _ = compiled_emission(
        spec, machine, {"head_dim": dim, "causal": causal, **ordered}, methods=QUICK
    )
    assert made.proven.program.arch == "sm_90a"


def of_lengths(name: str, target: str, causal: str, settings: dict[str, str]) -> None:
    """Executes a kernel of gradients for 0, 1, 127, 129 and 260 queries, or 200 keys."""
    _, kernel = solved(name, target, **settings)
    extents = {"seq_q": 260, "heads": 2} | ({"seq_k": 200, "heads_k": 1} if causal else {})
    text, policy = text_of(name, target, **settings), Adversarial(2)
    outcome = emulate(text, kernel, ARCHITECTURES[target], extents=extents, policy=policy)
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text
