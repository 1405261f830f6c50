"""Which settings are candidates."""

from __future__ import annotations

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.emit import misfit
from schedgen.driver.binding import kernels_of
from schedgen.errors import SchedgenError
from schedgen.tuning.basics import Deadline
from schedgen.tuning.candidates import Problem, possible
from schedgen.tuning.records import Dropped
from schedgen.tuning.space import Axis, axes, near, settings_of


def test_axes_follow_from_the_spec() -> None:
    found = {axis.name: axis for axis in axes(read_spec("gemm"), "h200", {}, {})}
    assert found["tile_n"].usual == "256"
    assert {"128", "192", "256"} <= set(found["tile_n"].values)
    assert found["consumers"].values == ("2", "1", "3")
    # What callers pass, and sizes of problems, are not free; nor is what is derived.
    assert not {"dtype", "b_layout", "k", "slices", "slice_n"} & set(found)
    attention = {axis.name: axis for axis in axes(read_spec("attention_fwd"), "b200", {}, {})}
    assert attention["exp2_polynomial"].values == ("0", "1/8", "3/16", "1/4")
    assert attention["exp2_polynomial"].usual is None  # the solver chooses
    assert attention["kv_lag"] == Axis("kv_lag", ("auto", "0", "1"), usual="auto")
    assert not {"head_dim", "seq_k", "causal", "dtype"} & set(attention)
    here = {axis.name for axis in axes(read_spec("attention_fwd"), "h200", {"keys": "160"}, {})}
    assert not {"exp2_polynomial", "keys"} & here  # one choice there, and set


def test_given_values() -> None:
    spec = read_spec("gemm")
    (axis,) = axes(spec, "h200", {}, {"tile_n": ["128", "256"]})
    assert axis == Axis("tile_n", ("256", "128"), numeric=True, usual="256")
    (word,) = axes(spec, "h200", {}, {"dtype": ["fp16", "bf16"]})
    assert (word.values, word.numeric) == (("bf16", "fp16"), False)
    for tries, message in (
        ({"tile": ["1"]}, "--try tile: gemm has no parameter 'tile'; fix: did you mean 'tile_"),
        ({"dtype": ["f64"]}, "--try dtype=f64: allowed values are bf16, fp16"),
        ({"tile_n": ["128", "128"]}, "a value is given twice"),
        ({"tile_n": ["1 +"]}, "--try tile_n=1 +: "),
        ({"tile_m": ["64"]}, "--try tile_m: it is set as well"),
        ({"@latencies": ["middle"]}, "--try @latencies=middle: allowed values are high, low"),
        ({"@registers": ["20"]}, "--try @registers=20: write a multiple of 8"),
        ({"@register": ["16"]}, "fix: did you mean '@registers'?"),
    ):
        with pytest.raises(SchedgenError) as caught:
            axes(spec, "h200", {"tile_m": "64"}, tries)
        assert message in str(caught.value)


def test_near() -> None:
    assert near(1) == (2,)
    assert near(3) == (2, 4)
    assert near(256) == (192, 320)
    assert near(192) == (160, 224)
    assert near(256, 1) == (224, 288)
    assert near(32, 5) == (24, 40)  # columns of a product come in eights


def test_settings_come_with_one_change_first_and_in_an_order_that_a_seed_says() -> None:
    space = [Axis("a", ("1", "2", "3"), usual="1"), Axis("b", ("x", "y"), usual="x")]
    space.append(Axis("c", ("p", "q")))
    found = list(settings_of(space, 0))
    assert len(found) == 12
    assert found[:2] == [{"c": "p"}, {"a": "2", "c": "p"}]
    assert {len([k for k in one if k != "c"]) for one in found[1:4]} == {1}
    assert found == list(settings_of(space, 0))
    other = list(settings_of(space, 1))
    assert found != other
    assert sorted(map(str, found)) == sorted(map(str, other))


def test_what_cannot_be_is_dropped_with_its_reason() -> None:
    problem = Problem(read_spec("gemm"), read_machine("h200"), {}, [{"m": 512.0}], 132)
    dropped: list[Dropped] = []
    settings = [
        {"tile_m": "96"},
        {"consumers": "3"},
        {"tile_n": "512"},
        {"tile_n": "192"},
        {},
        {"k": "512", "tile_n": "192"},
    ]
    found = possible(problem, settings, Deadline(100), dropped)
    assert [one.settings for one in found] == [{"tile_n": "192"}, {}, settings[-1]]
    reasons = {str(one.settings): (one.stage, one.reason) for one in dropped}
    assert reasons["{'tile_m': '96'}"] == ("emit", "wgmma multiplies 64 rows, not 48")
    assert reasons["{'consumers': '3'}"][0] == "bind"
    assert reasons["{'tile_n': '512'}"] == ("emit", "wgmma has no products with 512 columns")
    assert possible(problem, settings, Deadline(0), dropped) == []


def test_kernels_that_are_the_same_are_one() -> None:
    problem = Problem(read_spec("attention_fwd"), read_machine("h200"), {}, [{}], 132)
    dropped: list[Dropped] = []
    others: list[dict[str, str]] = [{"@latencies": "low"}, {"@pace": "TENSOR"}]
    found = possible(problem, [{}, {"p_storage": "own"}, *others], Deadline(100), dropped)
    assert [one.settings for one in found] == [{}, *others]
    assert dropped[0].reason == "the kernel is that of the spec's own"


def test_what_instructions_multiply_is_seen_in_a_kernel() -> None:
    def kernel(**settings: str) -> str | None:
        machine = read_machine("h200")
        return misfit(kernels_of(read_spec("gemm"), machine, settings)[0], machine.arch)

    assert kernel() is None
    assert kernel(tile_k="24") == "wgmma has no products that are 24 long"
    assert misfit(kernels_of(read_spec("gemm"), read_machine("h200"), {})[0], "sm_80") is None
