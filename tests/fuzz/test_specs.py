"""Small specs that the fuzzer found something in: right and clean, or refused by a known rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fuzz.fuzzer import SPECS, fuzzer

CASES: dict[str, dict[str, Any]] = json.loads((SPECS / "cases.json").read_text("utf-8"))


def test_every_spec_has_a_case() -> None:
    assert sorted(CASES) == sorted(path.stem for path in SPECS.glob("*.yaml"))


def _parameter(name: str) -> Any:
    """A case that is known to end otherwise, for the reason that its entry gives, has to."""
    known = CASES[name].get("known")
    return pytest.param(name, marks=[pytest.mark.xfail(reason=known, strict=True)] if known else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", [_parameter(name) for name in CASES])
def test_it_ends_as_it_should(name: str) -> None:
    case = fuzzer("fuzzing.cases").read_case(SPECS / f"{name}.yaml")
    ((_, outcome),) = fuzzer("fuzzing.pool").endings(iter([case]), 1, 120.0)
    wanted = CASES[name]
    assert [outcome.ending, outcome.stage, outcome.reason] == [
        wanted["ending"], wanted["stage"], wanted["reason"]
    ], outcome.detail  # fmt: skip
