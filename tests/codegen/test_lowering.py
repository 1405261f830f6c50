"""Kernels of small specs that were emitted wrong once: right and clean in the emulator, or refused
with the place in the spec, the rule and a fix.
"""

from __future__ import annotations

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.driver.emulating import Outcome, emulate
from schedgen.driver.found import Infeasible
from tests.codegen.examples import ARCHITECTURES, SPECS, solved


def emulated(spec: str, target: str, **settings: str) -> Outcome:
    proven, kernel = solved(SPECS / f"{spec}.yaml", target, **settings)
    return emulate(emit(proven, kernel), kernel, ARCHITECTURES[target])


def refused(spec: str, target: str, **settings: str) -> str:
    """The message that a spec is refused with."""
    proven, kernel = solved(SPECS / f"{spec}.yaml", target, **settings)
    with pytest.raises(EmitError) as caught:
        emit(proven, kernel)
    return str(caught.value)


SIXES = {"columns": "48", "count": "6"}
"""Six factors of 48 columns: 24 bytes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "target", "settings"),
    [
        ("column_slices", "b200", {"slices": "4"}),  # 64 bytes of a row
        ("column_slices", "b200", {"slices": "32"}),  # 8 bytes
        ("column_slices", "h200", {"slices": "4"}),
        ("map_in_bands", "h200", {"brows": "128"}),
        ("map_in_bands", "b200", {"brows": "256"}),
        ("any_width", "b200", {"tile_n": "96"}),
        ("any_width", "b200", {"tile_n": "48"}),
        ("any_width", "h200", {"tile_n": "96"}),
        ("any_width", "h200", {"tile_n": "40"}),
        ("one_value", "b200", {}),
        ("one_value", "h200", {}),
        ("one_value", "h200", {"count": "2"}),
        ("row_of_matrix", "b200", {}),
        ("row_of_matrix", "h200", {}),
        ("sums", "b200", {}),
        ("sums", "h200", {}),
    ],
)
def test_right_and_clean(spec: str, target: str, settings: dict[str, str]) -> None:
    outcome = emulated(spec, target, **settings)
    assert outcome.correct
    assert outcome.clean


@pytest.mark.medium
@pytest.mark.parametrize("spec", ["recurrence", "moved_operand"])
def test_registers_of_products(spec: str) -> None:
    """Values that threads make for products, and that the compiler moved behind their fences."""
    outcome = emulated(spec, "h200")
    assert outcome.correct
    assert outcome.clean


@pytest.mark.parametrize(
    ("spec", "target", "settings", "line", "rule", "fix"),
    [
        ("one_value", "h200", SIXES, 30, "bytes-of-copy", "make 'sS' a multiple of 4 elements"),
        ("one_value", "b200", SIXES, 30, "bytes-of-copy", "make 'sS' a multiple of 4 elements"),
        ("stored_slices", "b200", {}, 31, "copy-of-part", "multiples of 64 columns"),
        ("map_in_bands", "b200", {"brows": "64"}, 27, "rows-of-threads", "a multiple of 128"),
        ("any_width", "b200", {"tile_n": "40"}, 28, "columns-of-product", "multiple of 16 up to"),
        ("any_width", "h200", {"tile_k": "24"}, 28, "depth-of-product", "multiple of 16"),
        ("any_width", "h200", {"dtype": "tf32"}, 17, "no-emitter-for-dtype", "use bf16, fp16"),
        ("any_width", "b200", {"dtype": "tf32"}, 17, "no-emitter-for-dtype", "use bf16, fp16"),
    ],
)
def test_refused(
    spec: str, target: str, settings: dict[str, str], line: int, rule: str, fix: str
) -> None:
    text = refused(spec, target, **settings)
    assert f"{spec}.yaml:{line}:" in text
    assert f"error[{rule}]: " in text
    assert fix in text.split("\n  fix: ", 1)[1]


def test_all_refusals_at_once() -> None:
    assert refused("any_width", "h200", dtype="tf32").count("error[no-emitter-for-dtype]") == 3


@pytest.mark.parametrize(
    ("target", "needed", "fix"),
    [
        ("h200", 288, "--set n=128 instead of 256 has a schedule; or cut what is outside"),
        ("b200", 536, "cut what is outside of the main loop into slices"),
    ],
)
def test_registers_outside_of_the_loop(target: str, needed: int, fix: str) -> None:
    """A role that holds more around the main loop than a thread has; on Hopper it is one of the
    loop, on Blackwell the solver had accepted what the proof refutes.
    """
    with pytest.raises(
        Infeasible, match=rf"registers-capacity\].* {needed} registers.*has 248"
    ) as e:
        solved(SPECS / "live_tiles.yaml", target, n="256")
    assert f"fix: {fix}" in str(e.value)


def test_ring_of_registers_is_one_role() -> None:
    """And counts once: 64 registers for a tile, 24 beside it."""
    proven, _ = solved(SPECS / "register_ring.yaml", "b200")
    wide = [role for role in proven.program.roles if role.warps == 4]
    assert [role.registers for role in wide] == [88]
