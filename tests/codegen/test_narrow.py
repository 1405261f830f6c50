"""Outputs of fewer bits that a later formula of their operation reads."""

import re

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.driver.emitting import emission
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec


def test_they_are_read_as_they_are_stored() -> None:
    settings = {"factor": "e8m0"}
    text = emission(read_spec("gemm_quantized"), read_machine("b200"), settings).text
    (body,) = re.findall(r"def FACTOR\(.*?\n\n\n", text, re.DOTALL)
    assert re.search(
        r"new_power = Float32\(\s*Float32\(.*\)\.to\(\s*Float8E8M0FNU\s*\)", body, re.DOTALL
    )
    assert "rcp_approx(new_power)" in body


def test_hopper_converts_nothing_to_factors() -> None:
    with pytest.raises(EmitError, match="'power' is e8m0") as error:
        emission(read_spec("gemm_quantized"), read_machine("h200"), {"factor": "e8m0"})
    assert "fix: make it f32, or choose a target for sm_100a" in str(error.value)
