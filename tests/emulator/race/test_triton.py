"""Programs with kernels in Triton, where Triton is installed."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.emulator.race.programs import Ended, script
from schedgen.emulator.race.running import Options, checked, listed
from schedgen.emulator.race.session import Session

triton = pytest.importorskip("triton")

PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "race_programs" / "triton_kernels.py"
WRONG = Path(__file__).parent / "triton_wrong.py"
BOTH = ("sm_90a", "sm_100a")


@pytest.fixture(autouse=True)
def fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton warns if nothing is said


def ran(path: Path, name: str, arch: str, schedule: str = "round-robin") -> tuple[Session, Ended]:
    return checked(script(str(path), (name,)), Options(arch, schedule))


@pytest.mark.parametrize("arch", BOTH)
@pytest.mark.parametrize(
    "name", ["add", "softmax", "matmul_persistent", "matmul_described", "matmul_split", "norm"]
)
def test_right_results(name: str, arch: str) -> None:
    session, ended = ran(PROGRAMS, name, arch)
    assert ended == Ended()
    assert all(one.ended for one in session.launches)
    assert {one.rule for one in session.errors} <= {"X6"}  # docs/race.md


@pytest.mark.slow
@pytest.mark.parametrize("arch", BOTH)
@pytest.mark.parametrize("name", ["matmul", "attention", "attention_causal"])
def test_right_results_of_products(name: str, arch: str) -> None:
    test_right_results(name, arch)


def test_an_autotuner_takes_its_first_configuration() -> None:
    session, ended = ran(PROGRAMS, "matmul", "sm_100a")
    assert ended == Ended()
    assert [ran.grid for ran in session.launches] == [(2, 2, 1)]


@pytest.mark.parametrize(
    ("name", "rule", "lines"),
    [
        ("beyond", "stopped", ["tl.store(b + at, tl.load(a + at))  # no mask"]),
        (
            "sum_parts",
            "K1",
            ["tl.store(total + at, before + part)  # every program, and no atomic"],
        ),
        ("sum_locked", "K1", ["tl.store(total + at, tl.load(total + at) + part)"]),
    ],
)
def test_wrong_programs(name: str, rule: str, lines: list[str]) -> None:
    session, _ = ran(WRONG, name, "sm_90a", "adversarial")
    assert session.errors
    assert {one.rule for one in session.errors} == {rule}
    found = {place.text for one in session.errors for place in one.places}
    assert set(lines) <= found
    assert all(Path(place.file) == WRONG for one in session.errors for place in one.places)


def test_nothing_is_left_behind() -> None:
    from triton.runtime.driver import driver

    before = driver._active
    unsupported, kernels, _ = listed(script(str(PROGRAMS), ("add",)), Options("sm_90a"))
    assert (unsupported, kernels) == ((), 1)
    assert driver._active is before
