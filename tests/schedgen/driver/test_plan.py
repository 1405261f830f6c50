"""Plans with numbers, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.driver.plan import bind_plan
from schedgen.driver.plan_model import BoundPlan
from schedgen.errors import SchedgenError, SpecError
from schedgen.machine_file import read_machine
from schedgen.spec.plan import read_plan

MLP = Path(__file__).parents[3] / "docs" / "examples" / "mlp.yaml"
H200 = read_machine("h200")


def bound(name: str | Path, **settings: str) -> BoundPlan:
    return bind_plan(read_plan(str(name)), H200, settings)


def test_kernels_of_the_same_file() -> None:
    found = bound(MLP, tile_n="128")
    first, second = found.calls
    assert first.spec == second.spec == f"{MLP}#product"
    assert dict(first.settings) == {"dtype": "bf16", "tile_n": "128", "relu": "true"}
    assert dict(second.settings) == {"dtype": "bf16", "tile_n": "128"}
    assert first.tensors == (("a", "x"), ("b", "up"))
    assert first.results == (("d", "h"),)
    assert second.tensors == (("a", "h"), ("b", "down"))
    assert [one.name for one in found.inputs] == ["x", "up", "down"]
    assert [one.name for one in found.results] == ["y"]


@pytest.mark.parametrize("ordered", ["true", "false"])
def test_shipped_kernels(ordered: str) -> None:
    """A number times a factor; what is added up in turns needs words that nobody passes."""
    found = bound("attention_gradients", head_dim="128", ordered=ordered)
    assert [call.spec for call in found.calls] == [
        "attention_bwd_delta",
        "attention_bwd",
        "attention_bwd_convert",
    ]
    (_, five, last) = found.calls
    ((name, number),) = five.numbers
    assert (name, str(number)) == ("scale", "scale * 1.4427")
    assert str(dict(last.numbers)["scale"]) == "scale"
    assert ("lse", "lse2") in five.tensors
    assert [one.name for one in found.inputs] == ["q", "k", "v", "o", "lse", "do", "scale"]
    assert [one.name for one in found.results] == ["dq", "dk", "dv"]


PARTS = """\
schedgen: 1
plan: split
targets: [h200]
parameters:
  parts: {default: 4}
arguments:
  a: {shape: [batch, m, k], dtype: bf16}
  b: {shape: [batch, n, k], dtype: bf16}
  c: {shape: [batch, m, n], dtype: bf16}
  alpha: {shape: [], dtype: f32}
  beta: {shape: [], dtype: f32}
  d: {shape: [batch, m, n], dtype: bf16}
calls:
  - {call: gemm_parts, set: {tile_n: 128}, with: {part: parts, d: p}}
  - {call: gemm_sum}
"""


def test_extents_that_only_results_have(tmp_path: Path) -> None:
    """A product in parts of k: how many is a parameter, or an extent of what is taken."""
    path = tmp_path / "split.yaml"
    path.write_text(PARTS, "utf-8")
    assert bound(path, parts="3").calls[0].sizes == (("part", 3),)
    path.write_text(PARTS.replace("part: parts", "part: k"), "utf-8")
    assert bound(path).calls[0].sizes == (("part", "k"),)
    for text, rule in (("d", "unknown-extent"), ("0", "out-of-range"), ("1 / 2", "not-an-integer")):
        path.write_text(PARTS.replace("part: parts", f"part: {text}"), "utf-8")
        with pytest.raises(SpecError) as caught:
            bound(path)
        assert [one.rule for one in caught.value.diagnostics] == [rule]


FIRST = "call: product, set: {dtype: dtype, tile_n: tile_n, relu: true}"
X = "x: {shape: [tokens, width], dtype: dtype}"
CHANGES = {
    "unknown-kernel": (FIRST, "call: prod, set: {relu: true}"),
    "bad-call": ("relu: true}", "relo: true}"),
    "unknown-argument": ("{a: x, b: up", "{aa: x, b: up"),
    "unknown-tensor": ("{a: h,", "{a: hh,"),
    "read-before-computed": ("{a: x, b: up, d: h}", "{a: y, b: up, d: h}"),
    "computed-twice": ("b: up, d: h}", "b: up, d: y}"),
    "unused-argument": ("b: down", "b: up"),
    "plan-without-result": ("d: y}", "d: z}"),
    "types-differ": (X, X.replace("dtype: dtype", "dtype: f32")),
    "shapes-differ": ("down: {shape: [width, hidden]", "down: {shape: [hidden, width]"),
    "choice-in-plan": ("tile_n: {default: 256,", "tile_n: {choose: [128, 256],"),
    "unknown-type": (X, X.replace("dtype: dtype", "dtype: half")),
    "not-a-condition": (FIRST, f"only: 3, {FIRST}"),
    "unknown-key": ("with: {a: x", "width: {a: x"),
}


@pytest.mark.parametrize("rule", CHANGES)
def test_mistakes_are_named(rule: str, tmp_path: Path) -> None:
    """With their line; those that follow from others may be named, too."""
    old, new = CHANGES[rule]
    text = MLP.read_text("utf-8")
    assert text.count(old) == 1, old
    path = tmp_path / "mlp.yaml"
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert rule in {one.rule for one in caught.value.diagnostics}
    for one in caught.value.diagnostics:
        assert one.file == str(path)
        assert one.location is not None
        assert one.fix


NUMBERS = {
    "scale * 2": None,
    "scale": None,
    "-scale / 4": None,
    "scale + 1": "bad-number",
    "scale * scale": "bad-number",
    "max(scale, 0)": "bad-number",
    "3 / 4": None,
    "scales": "unknown-number",
    "scale / 0": "bad-number",
    "q": "unknown-number",
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers(text: str, tmp_path: Path) -> None:
    """One of the plan's, times a value of parameters: no other is told from call to call."""
    shipped = Path(__file__).parents[3] / "specs" / "plans" / "attention_gradients.yaml"
    path = tmp_path / "plan.yaml"
    old = "scale: scale * 1.4426950408889634"
    path.write_text(shipped.read_text("utf-8").replace(old, f"scale: '{text}'"), "utf-8")
    rule = NUMBERS[text]
    if rule is None:
        bound(path)
        return
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert [one.rule for one in caught.value.diagnostics] == [rule]


def test_settings_and_targets() -> None:
    with pytest.raises(SchedgenError, match="mlp has no parameter 'tile_m'"):
        bound(MLP, tile_m="64")
    with pytest.raises(SchedgenError, match="plan attention_gradients has no target 'b200'"):
        bind_plan(read_plan("attention_gradients"), read_machine("b200"), {})


SEEDS = """\
schedgen: 1
plan: seeds
targets: [h200]
arguments:
  x: {shape: [m, n], dtype: bf16}
  p: {shape: [], dtype: f32}
  scale: {shape: [], dtype: f32}
  low: {shape: [], dtype: i32}
  d: {shape: [m, n], dtype: bf16}
calls:
  - {call: dropout, with: {seed_low: low, seed_high: 7}}
"""


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("seed_low: low * 2, seed_high: 7", "bad-number"),
        ("seed_low: low, seed_high: 3 / 4", "bad-number"),
        ("seed_low: low, seed_high: 4294967296", "bad-number"),
        ("seed_low: p, seed_high: 7", "types-differ"),
        ("seed_low: low, seed_high: 7, d: 5", "bad-name"),
        ("seed_low: low, seed_high: 7, d: x", "read-before-computed"),
    ],
)
def test_whole_numbers_and_names(text: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "seeds.yaml"
    path.write_text(SEEDS, "utf-8")
    assert dict(bound(path).calls[0].numbers)["seed_high"].factor == 7
    path.write_text(SEEDS.replace("seed_low: low, seed_high: 7", text), "utf-8")
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert rule in {one.rule for one in caught.value.diagnostics}


DECLARED = """\
schedgen: 1
plan: split
targets: [h200]
arguments:
  a: {{shape: [batch, m, k], dtype: bf16}}
  b: {{shape: [batch, n, k], dtype: bf16}}
  d: {{shape: {shape}, dtype: f32}}
calls:
  - {{call: gemm_parts, set: {{tile_n: 128}}, with: {{part: {part}}}}}
"""


@pytest.mark.parametrize(
    ("shape", "part", "right"),
    [
        ("[batch, parts, m, n]", "4", True),
        ("[batch, k, m, n]", "k", True),
        ("[batch, k, m, n]", "4", False),
        ("[batch, k, m, n]", "m", False),
        ("[batch, m, m, n]", "4", False),
    ],
)
def test_extents_that_are_given_to_results_are_theirs(
    shape: str, part: str, right: bool, tmp_path: Path
) -> None:
    """What the plan declares of a result has to be what the call makes it."""
    path = tmp_path / "split.yaml"
    path.write_text(DECLARED.format(shape=shape, part=part), "utf-8")
    if right:
        bound(path)
        return
    with pytest.raises(SpecError) as caught:
        bound(path)
    assert {one.rule for one in caught.value.diagnostics} == {"shapes-differ"}


def test_large_factors(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[3] / "specs" / "plans" / "attention_gradients.yaml"
    path = tmp_path / "plan.yaml"
    times = " * 1000000000" * 40
    text = shipped.read_text("utf-8").replace("scale * 1.4426950408889634", f"scale{times}")
    path.write_text(text, "utf-8")
    with pytest.raises(SpecError, match="bad-number"):
        bound(path)
