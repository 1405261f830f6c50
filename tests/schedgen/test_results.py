"""Specs whose kernels were wrong while everything called them correct: right now, or refused."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from schedgen.cli.app import app
from schedgen.codegen.emit import emit
from schedgen.codegen.facts import read_facts
from schedgen.driver import emulating
from schedgen.driver.emulating import Outcome, compiled, emulate
from schedgen.driver.inputs import default_extents, outputs, random_inputs, shapes, wanted
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.emulator.launch.errors import LaunchError
from schedgen.errors import SchedgenError, SpecError
from schedgen.extents import covered
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.of_file import _covered
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import Spec, parse_spec, read_spec
from tests.schedgen.products import product

ARCH = {"h200": "sm_90a", "b200": "sm_100a"}
GATED = Path("tests/data/specs/gated_attention.yaml")
STATISTICS = GATED.with_name("row_statistics.yaml")
BOTH = pytest.mark.parametrize("target", ["h200", "b200"])


def kernel_of(spec: Spec, target: str = "h200") -> Kernel:
    return bind(spec.source, spec.file, target, {})[0]


def generated(spec: Spec, target: str) -> tuple[str, Kernel]:
    solution = solve(spec, read_machine(target))
    kernel = solution.problem.kernel
    return emit(prove_solution(solution).proven, kernel), kernel


def executed(spec: Spec, target: str, **extents: int) -> Outcome:
    text, kernel = generated(spec, target)
    return emulate(text, kernel, ARCH[target], extents=extents)


def is_right(outcome: Outcome) -> bool:
    assert outcome.correct, [r.text(name) for name, r in outcome.results.items()]
    assert outcome.clean, outcome.report.text
    return True


# -- comparison -----------------------------------------------------------------------------------


@lru_cache
def sums() -> tuple[str, Kernel]:
    """float32 results: parts of a product."""
    settings = {"tile_m": "64", "tile_n": "64", "slice_n": "32", "consumers": "1"}
    solution = solve(read_spec("gemm_parts"), read_machine("h200"), settings=settings)
    return emit(prove_solution(solution).proven, solution.problem.kernel), solution.problem.kernel


@pytest.mark.medium
def test_results_in_float32_have_the_bounds_of_float32() -> None:
    """An error of 2^-12 is small for bf16, and far too large for sums of exact products."""
    text, kernel = sums()
    sizes = {"m": 64, "n": 40, "k": 72}
    assert is_right(emulate(text, kernel, "sm_90a", extents=sizes))
    assert text.count("out_sD[v] = acc[v]") == 1
    changed = text.replace("= acc[v]", "= Float32(1.000244140625) * acc[v]")
    outcome = emulate(changed, kernel, "sm_90a", extents=sizes)
    assert not outcome.correct
    result = outcome.results["d"]
    assert result.differ > 0.9 * result.elements
    assert result.error < 2.0**-9


@pytest.mark.medium
def test_rows_without_numbers_are_reported(tmp_path: Path) -> None:
    """Rows that are masked as a whole: -inf - -inf, in the kernel and in the spec."""
    spec = product(
        """{id: EDGE, kind: mask, to: y, keep: column < row}
{id: MAX, kind: reduce, op: max, from: y, to: x}
{id: SUB, kind: map, to: {y: exp2(y - x)}}""",
        buffers="x: {space: registers, shape: [rows], lives: tile}",
    )
    path = tmp_path / "masked.yaml"
    path.write_text(spec.source.text, encoding="utf-8")
    extents = ("--extent=m=8", "--extent=n=8", "--extent=k=8")
    result = CliRunner().invoke(app, ["emulate", str(path), "--target=h200", *extents])
    assert result.exit_code == 1
    assert "AS THE SPEC SAYS, BUT, no races" in result.output
    assert "8 of 64 elements of 'd' are NaN in the reference, too" in result.output
    assert "correct" not in result.output


def test_inputs_are_positive_where_others_have_no_result() -> None:
    spec = product(
        "{id: LOG, kind: map, to: {y: y * log(sC)}}",
        buffers="sC: {space: smem, shape: [1, 64], dtype: bf16, lives: tile}",
        arguments="c: {shape: [n], dtype: bf16}",
    )
    text = spec.source.text.replace(
        "  body:", "  before:\n    - {id: LC, kind: load, from: c, to: sC}\n  body:"
    )
    kernel = kernel_of(parse_spec(text))
    found = wanted(kernel, default_extents(kernel, {}), 0)
    values = found.inputs["c"]
    assert isinstance(values, torch.Tensor)
    assert bool((values > 0).all())
    assert all(result.matches and result.defined for result in found.interpreted.values())


# -- extents --------------------------------------------------------------------------------------

INNER = """
schedgen: 1
kernel: inner
targets: [h200]
arguments:
  a: {shape: [m, inner], dtype: bf16}
  b: {shape: [n, inner], dtype: bf16}
  d: {shape: [m, n], dtype: bf16}
buffers:
  sA: {space: smem, shape: [64, 64], dtype: bf16, lives: tile}
  sB: {space: smem, shape: [64, 64], dtype: bf16, lives: tile}
  acc: {space: registers, shape: [64, 64], lives: tile, initial: 0}
  sD: {space: smem, shape: [64, 64], dtype: bf16, lives: tile}
loops: {trips: 1}
operations:
  before:
    - {id: LA, kind: load, from: a, to: sA}
    - {id: LB, kind: load, from: b, to: sB}
  body:
    - {id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}
  after:
    - {id: EPI, kind: map, to: {sD: acc}}
    - {id: STD, kind: store, from: sD, to: d}
"""


def test_extents_that_are_covered_as_a_whole() -> None:
    assert covered(kernel_of(parse_spec(INNER))) == {"inner": 64}
    assert covered(kernel_of(read_spec("gemm_chain"))) == {"depth": 128}
    assert covered(kernel_of(read_spec("attention_fwd"))) == {"head_dim": 128, "head_dim_v": 128}
    assert covered(kernel_of(read_spec("gemm"))) == {}
    assert covered(kernel_of(product(loops=", one_tile: [n]"))) == {"n": 64}


def test_a_main_loop_of_a_fixed_length() -> None:
    text = product().source.text.replace("ceil(k / 64)", "4").replace("  k: {default: 1024}\n", "")
    kernel = kernel_of(parse_spec(text))
    assert covered(kernel) == {"k": 256}
    assert all(extents["k"] <= 256 for extents in shapes(kernel).values())


@pytest.mark.medium
def test_larger_extents_are_refused_before_anything_runs(tmp_path: Path) -> None:
    kernel = kernel_of(parse_spec(INNER))
    with pytest.raises(SchedgenError, match=r"'inner' is 200, but inner covers 64 of it .* fix: "):
        default_extents(kernel, {"inner": 200})
    inputs = random_inputs(kernel, {"m": 8, "n": 8, "inner": 200}, 0)
    with pytest.raises(SchedgenError, match="'inner' is 200"):
        run(kernel, inputs)
    with pytest.raises(SchedgenError, match=r"'depth' is 200, .* covers 128"):
        default_extents(kernel_of(read_spec("gemm_chain")), {"depth": 200})
    with pytest.raises(
        SchedgenError, match=r"'width' is 256, but the kernel is for 128; fix: --set"
    ):
        default_extents(kernel_of(read_spec("gemm_chain")), {"width": 256})
    path = tmp_path / "inner.yaml"
    path.write_text(INNER, encoding="utf-8")
    assert CliRunner().invoke(app, ["emulate", str(path), "--extent=inner=200"]).exit_code == 2


@pytest.mark.medium
def test_launch_refuses_larger_extents(capfd: pytest.CaptureFixture[str]) -> None:
    text, kernel = generated(parse_spec(INNER), "h200")
    sizes = {"m": 8, "n": 8, "inner": 72}
    with compiled(text, kernel, "sm_90a") as made:
        assert is_right(made.run({**sizes, "inner": 40}))
        values = {**random_inputs(kernel, sizes, 0), **outputs(kernel, sizes)}
        with pytest.raises(LaunchError, match="grid dimension x is 0"):
            made._function(*emulating._passed(kernel, values), emulating._stream())
    said = capfd.readouterr().out
    assert "inner: inner is 72, at most 64 is covered; not launched" in said
    assert isinstance(values["d"], torch.Tensor)
    assert bool(values["d"].isnan().all())


@pytest.mark.slow
def test_launch_refuses_other_numbers_of_tiles(capfd: pytest.CaptureFixture[str]) -> None:
    text, kernel = generated(read_spec(str(STATISTICS)), "h200")
    sizes = default_extents(kernel, {"n": 200})
    assert sizes["n_tiles"] == 2
    with compiled(text, kernel, "sm_90a") as made:
        assert is_right(made.run(sizes))
        for tiles in (1, 3):
            wrong = {**sizes, "n_tiles": tiles}
            values = {**random_inputs(kernel, wrong, 0), **outputs(kernel, wrong)}
            with pytest.raises(LaunchError, match="grid dimension x is 0"):
                made._function(*emulating._passed(kernel, values), emulating._stream())
    said = capfd.readouterr().out
    assert "n_tiles is 3, but there are 2 output tiles along n; not launched" in said


def test_torch_functions_refuse_larger_extents(tmp_path: Path) -> None:
    text, _ = generated(parse_spec(INNER), "h200")
    path = tmp_path / "inner.py"
    path.write_text(text, encoding="utf-8")
    facts = read_facts(path)
    assert facts.covered == (("inner", 64),)
    _covered(facts, {"m": 8, "n": 8, "inner": 64})
    with pytest.raises(ArgumentValueError, match="a: its inner is 72; allowed: at most 64"):
        _covered(facts, {"m": 8, "n": 8, "inner": 72})


# -- names ----------------------------------------------------------------------------------------


def with_slopes() -> Spec:
    """Attention that adds to the scores of a block a row of a matrix, one for each head. Its extent
    has the name of the parameter by which the trip count divides.
    """
    text = GATED.read_text("utf-8")
    for old, new in (
        ("  scale: {shape", "  slope: {shape: [heads, keys], dtype: dtype}\n  scale: {shape"),
        (
            "  S: {space",
            "  sS: {space: smem, shape: [1, keys], dtype: dtype, lives: tile}\n  S: {space",
        ),
        ("  body:", "    - {id: LS, kind: load, from: slope, to: sS}\n  body:"),
        (
            "    - {id: MASK",
            "    - {id: ADD, kind: map, to: {rS: rS + sS}, role: softmax}\n    - {id: MASK",
        ),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse_spec(text)


def test_columns_of_the_main_loop_whatever_the_trip_count_divides_by() -> None:
    kernel = kernel_of(with_slopes())
    rows, columns = kernel.operation["MASK"].places
    assert (rows.extent, columns.extent, columns.step) == ("seq_q", "seq_k", 128)
    heads, keys = kernel.operation["LS"].places
    assert (heads.side, heads.along, keys.side, keys.size, keys.step) == (
        "",
        "heads",
        "columns",
        128,
        0,
    )
    assert covered(kernel)["keys"] == 128


def with_columns_of_the_result() -> Spec:
    """Attention that adds to its result by coordinates, in the main loop: the columns of O lie
    along head_dim, whatever the main loop walks.
    """
    text = GATED.read_text("utf-8")
    old = "to: {O: O@1 * alpha}"
    assert text.count(old) == 1
    new = 'to: {O: "O@1 * alpha + where(column < 20, 1, 0) + where(row < 70, 0, 2)"}'
    return parse_spec(text.replace(old, new))


def test_coordinates_are_those_of_what_is_computed() -> None:
    kernel = kernel_of(with_columns_of_the_result())
    rows, columns = kernel.operation["FIX"].places
    assert (rows.extent, rows.along, rows.block) == ("seq_q", "seq_q", 64)
    assert (columns.extent, columns.along, columns.block) == ("head_dim", "head_dim", 64)
    assert (columns.step, columns.split_k) == (0, "")
    assert kernel.operation["MASK"].places[1].extent == "seq_k"


@pytest.mark.slow
@BOTH
def test_coordinates_of_the_result_in_the_main_loop(target: str) -> None:
    assert is_right(executed(with_columns_of_the_result(), target, seq_k=200))


@pytest.mark.slow
@BOTH
def test_a_row_of_a_matrix(target: str) -> None:
    assert is_right(executed(with_slopes(), target, heads=2, seq_k=200))


# -- operations -----------------------------------------------------------------------------------


@pytest.mark.medium
@BOTH
def test_a_condition_reads_what_the_map_writes_over(target: str) -> None:
    """Asked before the map, not after: what is below 1 then may be above 1 now."""
    spec = product("{id: W, kind: map, when: y < 1, to: {y: y * 2 + 3}}")
    assert is_right(executed(spec, target))


@pytest.mark.medium
@BOTH
def test_a_map_with_a_condition_that_is_no_identity_where_it_is_false(target: str) -> None:
    """Some rows of a warp do it, others do not."""
    spec = product(
        """{id: MAX, kind: reduce, op: max, from: y, to: x}
{id: W, kind: map, when: x < 24, to: {acc: acc * 2 + x, y: y - x}}
{id: SUM, kind: map, to: {y: y + acc}}""",
        buffers="x: {space: registers, shape: [rows], lives: tile}",
    )
    assert is_right(executed(spec, target))


@pytest.mark.medium
@BOTH
def test_a_reduction_that_carries_its_own_result(target: str) -> None:
    spec = product(
        """{id: MAX, kind: reduce, op: max, from: y, to: x}
{id: SUM, kind: reduce, op: sum, from: y, carry: x, to: x}
{id: SUB, kind: map, to: {y: y - x}}""",
        buffers="x: {space: registers, shape: [rows], lives: tile}",
    )
    assert is_right(executed(spec, target))


@pytest.mark.medium
@BOTH
def test_a_copy_of_registers_that_are_written_over_later(target: str) -> None:
    spec = product(
        """{id: KEEP, kind: copy, from: y, to: z}
{id: TWICE, kind: map, to: {y: y * 2}}
{id: SUM, kind: map, to: {y: y + z * z}}""",
        buffers="z: {space: registers, shape: [rows, 64], lives: tile}",
    )
    assert is_right(executed(spec, target))


# -- stores ---------------------------------------------------------------------------------------

ROW_STATISTIC = {
    "after": """{id: MAX, kind: reduce, op: max, from: y, to: x}
{id: PUB, kind: copy, from: x, to: sX}
{id: STX, kind: store, from: sX, to: amax}""",
    "buffers": """x: {space: registers, shape: [rows], lives: tile}
sX: {space: smem, shape: [rows], lives: tile}""",
    "arguments": "amax: {shape: [heads, m], dtype: f32}",
}


def test_a_statistic_of_rows_needs_one_tile_or_a_condition() -> None:
    with pytest.raises(
        SpecError, match=r"bad-coverage.*by STX of tile \(0, 0\) and by STX of tile"
    ):
        kernel_of(product(**ROW_STATISTIC))
    kernel_of(product(**ROW_STATISTIC, loops=", one_tile: [n]"))
    once = ROW_STATISTIC["after"].replace("to: amax}", "to: amax, when: tile_column == 0}")
    kernel_of(product(**{**ROW_STATISTIC, "after": once}))


@pytest.mark.medium
@BOTH
def test_a_statistic_of_rows_of_one_tile(target: str) -> None:
    spec = product(**ROW_STATISTIC, loops=", one_tile: [n]")
    assert is_right(executed(spec, target, heads=2, n=40))
    with pytest.raises(SchedgenError, match="'n' is 72, but small covers 64"):
        default_extents(kernel_of(spec, target), {"n": 72})


def test_a_store_in_each_iteration() -> None:
    text = product().source.text
    text = text.replace("    - {id: EPI", "  zzz:\n    - {id: EPI")
    moved = """    - {id: EPI, kind: map, to: {sD: acc}}
    - {id: STD, kind: store, from: sD, to: d}
  after:
    - {id: BRING, kind: copy, from: acc, to: y}
    - {id: LAST, kind: map, to: {sD: y}}
"""
    text = text[: text.index("  after:")] + moved
    with pytest.raises(SpecError, match=r"STD of tile \(0, 0\) in iteration 0 and by STD of tile"):
        kernel_of(parse_spec(text))
