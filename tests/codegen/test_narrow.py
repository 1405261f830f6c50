"""Elements of 8 bits: how threads load and convert those that formulas read, where not, and how
formulas read what others have made of them.
"""

from __future__ import annotations

import re

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.driver.emitting import emission
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec

TEXT = read_spec("gemm_mixed").source.text


def written(target: str, weights: str, text: str = TEXT) -> str:
    return emission(parse_spec(text), read_machine(target), {"weights": weights}).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "weights", "functions"),
    [
        ("h200", "e4m3", ("load_bytes(sW, in_sW, thread)", "as_dtype(in_sW, Float32)")),
        ("h200", "i8", ("load_bytes(sW, in_sW, thread)", "of_bytes(in_sW)")),
        ("h200", "i4x2", ("load_halves(sW, in_sW, thread)", "of_halves(in_sW)")),
        ("b200", "i4x2", ("load_tile(sW, in_sW, thread, 16 * piece)", "of_halves(in_sW)")),
    ],
)
def test_whole_pieces_are_converted(target: str, weights: str, functions: tuple[str, ...]) -> None:
    """Not element by element: instructions convert two neighbours."""
    text = written(target, weights)
    assert all(function in text for function in functions)


@pytest.mark.medium
def test_pairs_in_registers_are_not_read() -> None:
    buffer = "  rW: {space: registers"
    rows = "shape: [tile_n, tile_k / numbers], dtype: weights, split: {rows: band, columns: part}"
    operation = next(one for one in TEXT.splitlines() if "to: {rW: sW}" in one)
    role = operation[operation.index("over:") : operation.index("only:")]
    copy = f"    - {{id: GET, kind: copy, {role}from: sW, to: r4}}\n"
    text = TEXT.replace(buffer, f"  r4: {{space: registers, {rows}}}\n{buffer}")
    text = text.replace(operation, copy + operation.replace("{rW: sW}", "{rW: r4}"))
    with pytest.raises(EmitError, match="space-of-pairs") as caught:
        written("h200", "i4x2", text)
    found = str(caught.value)
    assert "'r4' is in registers, and its elements are 2 numbers each" in found
    assert "fix: read it where it is in smem" in found


@pytest.mark.slow
def test_they_are_read_as_they_are_stored() -> None:
    settings = {"factor": "e8m0"}
    text = emission(read_spec("gemm_quantized"), read_machine("b200"), settings).text
    (body,) = re.findall(r"def FACTOR\(.*?\n\n\n", text, re.DOTALL)
    assert re.search(
        r"new_power = Float32\(\s*Float32\(.*\)\.to\(\s*Float8E8M0FNU\s*\)", body, re.DOTALL
    )
    assert "rcp_approx(new_power)" in body


@pytest.mark.slow
def test_hopper_converts_nothing_to_factors() -> None:
    with pytest.raises(EmitError, match="'power' is e8m0") as error:
        emission(read_spec("gemm_quantized"), read_machine("h200"), {"factor": "e8m0"})
    assert "fix: make it f32, or choose a target for sm_100a" in str(error.value)
