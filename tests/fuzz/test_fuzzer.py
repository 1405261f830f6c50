"""The fuzzer itself: what it makes, what it does with crashes, and how it makes failures small."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from schedgen.errors import Diagnostic, SchedgenError, SpecError
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec
from tests.fuzz.fuzzer import fuzzer

NUMBERS = range(60)


def _case(number: int) -> Any:
    return fuzzer("fuzzing.grammar").case(5, number)


def _text(case: Any) -> str:
    return fuzzer("fuzzing.sketch").text_of(case.data)


def test_a_number_of_a_seed_is_always_the_same_spec() -> None:
    assert [_text(_case(n)) for n in NUMBERS] == [_text(_case(n)) for n in NUMBERS]


@pytest.mark.medium
def test_nearly_all_specs_are_well_formed_and_mistakes_have_a_fix() -> None:
    mistakes = [_mistakes(_case(number)) for number in NUMBERS]
    assert all(one.fix for found in mistakes for one in found)
    assert sum(not found for found in mistakes) > 0.8 * len(NUMBERS)


def _mistakes(case: Any) -> tuple[Diagnostic, ...]:
    try:
        spec = parse_spec(_text(case))
        bind(spec.source, spec.file, case.target, {})
    except SpecError as error:
        return error.diagnostics
    return ()


def test_all_families_on_both_targets_occur() -> None:
    found = {(case.family, case.target) for case in map(_case, NUMBERS)}
    assert len(found) == 2 * len(fuzzer("fuzzing.grammar").FAMILIES)


def _aborts(case: Any, told: Callable[[str], object]) -> None:
    told("compile")
    os.kill(os.getpid(), signal.SIGKILL)


def _hangs(case: Any, told: Callable[[str], object]) -> None:
    told("solve")
    time.sleep(60)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("judge", "ending", "stage"),
    [(_aborts, "the process ends", "compile"), (_hangs, "timeout", "solve")],
)
def test_a_process_that_aborts_or_hangs_is_an_outcome(
    judge: Callable[..., None], ending: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = fuzzer("fuzzing.pool")
    monkeypatch.setattr(pool, "judge", judge)
    ((_, outcome),) = pool.endings(iter([_case(0)]), 1, 2.0)
    assert (outcome.ending, outcome.stage) == (ending, stage)


def test_an_unexpected_exception_is_a_traceback_and_no_refusal() -> None:
    run = fuzzer("fuzzing.run")
    described: Callable[..., tuple[Any, str, str]] = run._described
    assert described(KeyError(96), "compile")[0] == "traceback"
    assert described(SchedgenError("no"), "emit")[0] == "refused without a fix"
    assert described(SchedgenError("no; fix: so"), "emit")[0] == "refused"
    assert described(SchedgenError("no; fix: so"), "compare")[0] == "traceback"


def test_failures_are_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails as long as an operation stands in the spec ends with little but that."""
    run, shrink = fuzzer("fuzzing.run"), fuzzer("fuzzing.shrink")
    case = next(c for c in map(_case, NUMBERS) if c.family == "chain")

    def judged(cases: Any, jobs: int, seconds: float) -> Any:
        for one in cases:
            kinds = [o["kind"] for o in one.data["operations"].get("body", [])]
            bad = "mma" in kinds and len(one.data["operations"].get("after", [])) > 0
            yield one, run.Outcome(run.Ending.WRONG if bad else run.Ending.RIGHT, "compare")

    monkeypatch.setattr(shrink, "endings", judged)
    small, outcome = shrink.shrunk(case, 1.0)
    assert outcome.ending == "wrong"
    count = sum(len(part) for part in small.data["operations"].values())
    assert count < sum(len(part) for part in case.data["operations"].values())
    kinds = [o["kind"] for o in small.data["operations"]["body"]]
    assert kinds.count("mma") == 1


def test_a_case_is_read_as_it_was_written(tmp_path: Any) -> None:
    run, cases = fuzzer("fuzzing.run"), fuzzer("fuzzing.cases")
    case = _case(1)
    path = cases.write_case(tmp_path, case, run.Outcome(run.Ending.WRONG, "compare", "values", "x"))
    again = cases.read_case(path)
    assert again.data == case.data
    assert (again.target, again.extents, again.inputs) == (case.target, case.extents, case.inputs)


def test_tables_count_every_ending_once() -> None:
    tables = fuzzer("fuzzing.tables")
    row = {"family": "chain", "target": "h200", "proven": True, "emulated": True, "reason": ""}
    rows = [
        {**row, "ending": "right", "stage": "compare"},
        {**row, "ending": "race", "stage": "emulate", "reason": "X6"},
        {**row, "ending": "refused", "stage": "solve", "emulated": False, "reason": "bad-coverage"},
    ]
    found = tables.summary(rows)
    assert sum(one["specs"] for one in found["rows"]) == 3
    assert found["failures"] == [
        {"outcome": "race", "stage": "emulate", "reason": "X6", "specs": 1}
    ]
    assert "| bad-coverage |" in tables.tables(rows)


def test_a_known_failure_is_one_whose_entry_says_so() -> None:
    known = fuzzer("fuzzing.tables").known
    entries = [{"ending": "wrong", "stage": "compare", "reason": "NaN", "why": "dropped"}]
    row = {"ending": "wrong", "stage": "compare", "reason": "NaN"}
    assert known(row, entries)
    assert not known({**row, "reason": "values"}, entries)
    assert not known({**row, "ending": "race"}, entries)
