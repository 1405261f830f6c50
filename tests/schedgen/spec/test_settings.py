"""Settings, choices and targets; and what a small spec becomes when it is varied."""

import pytest

from schedgen.errors import SchedgenError, SpecError
from schedgen.kernel import Kernel, Read
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec


def attention(target: str, **settings: str) -> tuple[Kernel, ...]:
    spec = read_spec("attention_fwd")
    return bind(spec.source, spec.file, target, settings)


# -- choices and settings ----------------------------------------------------------------------


def test_choices() -> None:
    shares = [dict(kernel.choices)["exp2_polynomial"] for kernel in attention("b200")]
    assert shares == ["0", "1/8", "3/16", "1/4"]
    (fixed,) = attention("b200", exp2_polynomial="3/32")
    assert fixed.choices == (("exp2_polynomial", "3/32"),)
    assert dict(fixed.parameters)["exp2_polynomial"] == "3/32"


def test_a_target_settles_a_choice() -> None:
    (kernel,) = attention("h200")
    assert dict(kernel.choices)["exp2_polynomial"] == "0"
    (other,) = attention("h200", exp2_polynomial="1/4")
    assert dict(other.choices)["exp2_polynomial"] == "1/4"


def test_a_target_settles_on_a_candidate() -> None:
    text = read_spec("attention_fwd").source.text.replace("on: {h200: 0}", "on: {h200: 1/3}")
    spec = parse_spec(text, "attention.yaml")
    with pytest.raises(SpecError, match="'1/3' is not among the values allowed"):
        bind(spec.source, spec.file, "h200", {})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dims": "64"}, r"no parameter 'head_dims'; did you mean 'head_dim'\?"),
        ({"zzz": "64"}, "no parameter 'zzz'; it has head_dim, head_dim_v, dtype, "),
        ({"head_dim": "48"}, "head_dim=48: allowed values are 32, 64, 96, .*, 224, 256$"),
        ({"head_dim": "true"}, "allowed values are 32, 64, 96, .*, 224, 256$"),
        ({"keys": ""}, "--set keys=: "),
        ({"keys": "64 *"}, r"--set keys=64 \*: the expression ends after"),
        ({"keys": "rows * 2"}, "not an expression over 'rows'; use 'derive'"),
    ],
)
def test_wrong_settings(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SchedgenError, match=message) as caught:
        attention("b200", **settings)
    assert not isinstance(caught.value, SpecError)


def test_settings_that_the_file_cannot_bear() -> None:
    with pytest.raises(SpecError) as caught:
        attention("b200", split="1/3")
    (first, *_) = caught.value.diagnostics
    assert first.rule == "not-an-integer"
    assert first.message == "'keys * split' = 128/3 is not a whole number"


def test_unknown_target() -> None:
    with pytest.raises(SchedgenError, match=r"no target 'h20'; did you mean 'h200'\?"):
        attention("h20")
    with pytest.raises(SchedgenError, match="no target 'mi300'; it is written for b200, h200"):
        attention("mi300")


# -- one small spec, varied --------------------------------------------------------------------

MINIMAL = """\
schedgen: 1
kernel: minimal
targets: [b200]
parameters:
  n: {default: 64}
arguments:
  x: {shape: [m, n], dtype: f32}
  y: {shape: [m, n], dtype: f32}
buffers:
  sX: {space: smem, shape: [64, n]}
  r: {space: registers, shape: [64], lives: tile, initial: 0}
  sY: {space: smem, shape: [64, n]}
loops: {trips: 1}
operations:
  body:
    - {id: LX, kind: load, from: x, to: sX}
    - {id: SUM, kind: reduce, op: sum, from: sX, carry: r@1, to: r}
    - {id: OUT, kind: map, to: {sY: sX * r}}
    - {id: ST, kind: store, from: sY, to: y}
"""


def test_parameters_keep_the_order_of_the_file() -> None:
    text = MINIMAL.replace("  n: {default: 64}", "  m: {derive: n * 2}\n  n: {default: 64}")
    spec = parse_spec(text)
    for settings, expected in (({}, "128"), ({"m": "32"}, "32")):
        (kernel,) = bind(spec.source, spec.file, "b200", settings)
        assert kernel.parameters == (("m", expected), ("n", "64"))


def varied(*changes: tuple[str, str]) -> Kernel:
    text = MINIMAL
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    spec = parse_spec(text)
    (kernel,) = bind(spec.source, spec.file, "b200")
    return kernel


@pytest.mark.parametrize(
    ("written", "kept"),
    [("0", "0"), ("-inf", "-inf"), ("+inf", "inf"), ("n / 128", "1/2"), ("-1.5", "-3/2")],
)
def test_initial_values(written: str, kept: str) -> None:
    assert varied(("initial: 0", f"initial: {written}")).region["r"].initial == kept


def test_then_needs_no_carry() -> None:
    """The result of a reduction is known to 'then', whether or not 'carry' names it."""
    kernel = varied(
        (", initial: 0", ""),
        ("carry: r@1, to: r}", "to: r, then: {q: exp2(r)}}"),
        ("sX * r", "sX * r + q"),
        ("  sY: {", "  q: {space: registers, shape: [64]}\n  sY: {"),
    )
    assert kernel.operation["SUM"].reads == (Read("sX"),)
    assert kernel.operation["SUM"].writes == ("r", "q")
    assert kernel.operation["SUM"].work.row_steps == 1


def test_coordinates_cost_what_their_shape_says() -> None:
    column = varied(("sX * r", "sX * r + column * 2")).operation["OUT"].work
    plain = varied(("sX * r", "sX * r")).operation["OUT"].work
    assert column.fma > plain.fma


def test_condition_that_left_nothing() -> None:
    with pytest.raises(SpecError, match="unused-buffer"):
        varied(("{id: ST, kind: store,", "{id: ST, only: n == 0, kind: store,"))


@pytest.mark.medium
def test_many_instances() -> None:
    kernel = varied(
        ("arguments:", "dimensions:\n  many: {count: 250}\narguments:"),
        ("sX: {space: smem, shape: [64, n]", "sX: {space: smem, per: [many], shape: [64, n]"),
        ("sY: {space: smem, shape: [64, n]", "sY: {space: smem, per: [many], shape: [64, n]"),
        ("r: {space: registers,", "r: {space: registers, per: [many],"),
        ("{id: LX,", "{id: LX, over: [many],"),
        ("{id: SUM,", "{id: SUM, over: [many],"),
        ("{id: OUT,", "{id: OUT, over: [many],"),
        ("{id: ST,", "{id: ST, over: [many],"),
    )
    assert len(kernel.operations) == 1000
    assert kernel.operations[4].name == "LX[1]"
