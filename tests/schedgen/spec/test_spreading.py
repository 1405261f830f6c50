"""Specs that leave to the target where products accumulate, and which warpgroup has which rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import emulate
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.errors import SpecError
from schedgen.kernel import Kernel, Space
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "examples" / "tutorial" / "gemm3.yaml").read_text("utf-8")
SPECS = ROOT / "tests" / "data" / "specs"
SPACES = {"h200": Space.REGISTERS, "b200": Space.TMEM}

BY_HAND = {
    "buffers:\n": "dimensions:\n  warpgroup: {count: 2}\n\nbuffers:\n",
    "dtype: bf16, depth: auto}\n  sB": "dtype: bf16, depth: auto, split: {rows: warpgroup}}\n  sB",
    "space: accumulator, shape: [128, 128],": "space: registers, shape: [128, 128], "
    "split: {rows: warpgroup},",
    "sD: {space: smem,": "sD: {space: smem, split: {rows: warpgroup},",
    "kind: mma,": "kind: mma, over: [warpgroup],",
    "kind: map,": "kind: map, over: [warpgroup],",
}


def explicit() -> str:
    """The same for Hopper, written out."""
    text = TEXT
    for old, new in BY_HAND.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def kernel(text: str, target: str, **settings: str) -> Kernel:
    spec = parse_spec(text)
    return bind(spec.source, spec.file, target, settings, accumulators=SPACES[target])[0]


def shape(made: Kernel) -> tuple[object, ...]:
    """All of a kernel but what it is called and made from."""
    return made.regions, made.pieces, made.rings, made.operations, made.grid, made.orders


def test_hopper_as_somebody_would_write_it() -> None:
    found = kernel(TEXT, "h200")
    assert shape(found) == shape(kernel(explicit(), "h200"))
    assert [o.name for o in found.operations if o.base in ("MMA", "EPI")] == [
        *("MMA[0]", "MMA[1]", "EPI[0]", "EPI[1]")
    ]
    assert found.decided == (
        "acc is in 2 bands of 64 rows, each in the registers of one warpgroup",
    )


def test_bands_of_a_left_operand_along_m() -> None:
    """Its columns go with the rows of the result, also where it has as many rows as columns."""
    for depth in (64, 128):
        text = TEXT.replace("shape: [128, 64]", f"shape: [128, {depth}]")
        text = text.replace("a: {shape: [m, k]", "a: {shape: [k, m]")
        text = text.replace(
            f"sA: {{space: smem, shape: [128, {depth}]", f"sA: {{space: smem, shape: [{depth}, 128]"
        )
        text = text.replace("b: sB, ", "b: sB, transpose_a: true, ")
        found = kernel(text, "h200")
        spans = [(p.row1 - p.row0, p.byte0, p.byte1) for p in found.pieces if p.region == "sA"]
        assert spans == [(depth, 0, 128), (depth, 128, 256)]


def test_blackwell_as_somebody_would_write_it() -> None:
    found = kernel(TEXT, "b200")
    assert shape(found) == shape(kernel(TEXT.replace("accumulator", "tmem"), "b200"))
    assert found.decided == ("acc is in tensor memory",)


def left_open(name: str) -> str:
    """A spec that says for each target where products accumulate, without that."""
    text = re.sub(r"  accumulator: .*\n", "", (SPECS / f"{name}.yaml").read_text("utf-8"))
    return text.replace("rows: {default: 128, on: {h200: 64}", "rows: {default: 128")


def wide(rows: int) -> str:
    return (
        TEXT.replace("sA: {space: smem, shape: [128,", f"sA: {{space: smem, shape: [{rows},")
        .replace("accumulator, shape: [128,", f"accumulator, shape: [{rows},")
        .replace("sD: {space: smem, shape: [128,", f"sD: {{space: smem, shape: [{rows},")
    )


@pytest.mark.parametrize(
    ("rows", "target", "bands"),
    [(64, "h200", 1), (192, "h200", 3), (256, "h200", 4), (256, "b200", 2)],
)
def test_other_numbers_of_rows(rows: int, target: str, bands: int) -> None:
    found = kernel(wide(rows), target)
    assert sum(o.base == "MMA" for o in found.operations) == bands
    left = [p for p in found.pieces if p.region == "sA"]
    assert [p.row1 - p.row0 for p in left] == [rows // bands] * bands
    assert len([p for p in found.pieces if p.region == "sB"]) == 1


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (96, "h200", "'acc' has 96 rows, and a warpgroup holds 64.*make it a multiple of 64"),
        (192, "b200", "'acc' has 192 rows, and tensor memory has 128.*a multiple of 128"),
    ],
)
def test_rows_that_do_not_fit(rows: int, target: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.compile(message, re.DOTALL)):
        kernel(wide(rows), target)


def test_half_by_hand() -> None:
    text = explicit().replace("space: registers, shape: [128, 128]", "space: accumulator, "
                            "shape: [128, 128]")  # fmt: skip
    with pytest.raises(SpecError, match="the rows of 'acc' are split here"):
        kernel(text, "h200")


def test_nobody_says_what_the_target_has() -> None:
    spec = parse_spec(TEXT)
    with pytest.raises(SpecError, match="write 'tmem' or 'registers'"):
        bind(spec.source, spec.file, "h200", {})


def test_a_parameter_of_that_name_is_nothing_else() -> None:
    text = TEXT.replace(
        "\narguments:", "\nparameters: {accumulator: {default: tmem}}\n\narguments:"
    )
    found = kernel(text, "h200")
    assert found.region["acc"].space is Space.TMEM
    assert found.decided == ()


def test_roles_that_the_spec_names() -> None:
    """Each band has one of its own; else one warpgroup would hold all of them."""
    found = kernel(left_open("gated_attention"), "h200")
    assert {o.role for o in found.operations if o.role} == {"softmax0", "softmax1"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize("name", ["gemm3", "running_sums", "product_norm"])
def test_it_runs(name: str, target: str) -> None:
    text = TEXT if name == "gemm3" else left_open(name)
    solution = solve(parse_spec(text), read_machine(target))
    proven, made = prove_solution(solution).proven, solution.problem.kernel
    assert solution.schedule.proven_optimal
    outcome = emulate(emit(proven, made), made, proven.program.arch)
    assert outcome.correct, outcome.errors
    assert outcome.clean
