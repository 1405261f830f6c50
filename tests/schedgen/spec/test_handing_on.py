"""Instances of an operation that write the same pieces: each takes what the one before it left."""

from __future__ import annotations

import pytest

from schedgen.errors import SpecError
from schedgen.expressions import references
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec


def bound(text: str) -> Kernel:
    spec, machine = parse_spec(text), read_machine("h200")
    return bind(spec.source, spec.file, "h200", {}, accumulators=machine.accumulators)[0]


def ages(kernel: Kernel, operation: str, buffer: str) -> set[int]:
    """How many iterations old the values of a buffer are that an operation reads."""
    one = next(o for o in kernel.operations if o.name == operation)
    pieces = {read.distance for read in one.reads if kernel.piece[read.piece].region == buffer}
    named = {n.distance for _, f in one.formulas for n in references(f) if n.name in buffer}
    assert named == pieces
    return pieces


def test_a_sum_goes_from_one_to_the_next() -> None:
    kernel = bound(read_spec("gemm_fp8_blocks").source.text)
    for band in (0, 1):
        assert ages(kernel, f"ADD[0,{band}]", f"total[{band}]") == {1}
        assert ages(kernel, f"ADD[1,{band}]", f"total[{band}]") == {0}


def test_instances_with_sums_of_their_own_do_not() -> None:
    text = read_spec("gemm_fp8_blocks").source.text.replace(
        "on: {h200: 2}, about: products of an", "about: of an"
    )
    kernel = bound(text)
    for band in (0, 1):
        assert ages(kernel, f"ADD[0,{band}]", f"total[{band}]") == {1}


@pytest.mark.parametrize(
    "formulas",
    [
        '{total: "total@1 + S * (sFA * sFB)", S: total@1 - total}',
        '{total: "total@1 + S * (sFA * sFB)", S: total@1}',
        '{total: "total + total@1 + S * (sFA * sFB)"}',
    ],
)
def test_what_was_handed_on_is_not_called_like_what_became_of_it(formulas: str) -> None:
    """Else `exp(m@1 - m)` behind a new m would be 1 in all instances but the first one."""
    text = read_spec("gemm_fp8_blocks").source.text
    old = "{total: total@1 + S * (sFA * sFB)}"
    assert old in text
    with pytest.raises(SpecError, match="bad-formula"):
        bound(text.replace(old, formulas))
