"""Fast tests come first; slow ones last, in an order that a seed decides, and not at all when their
time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

FILE = """
import pytest

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.medium
def test_medium(): pass

def test_fast(): pass
"""
FILES = [f"test_{letter}.py" for letter in "abcdef"]

Ran = Callable[..., pytest.RunResult]


@pytest.fixture
def ran(pytester: pytest.Pytester) -> Ran:
    """Runs six files of a fast, a medium and a slow test each under this folder's conftest, in
    processes of their own: it sets variables of the environment.
    """
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers =\n    slow: takes long\n    medium: takes a while\n")
    for file in FILES:
        (pytester.path / file).write_text(FILE)

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-v", "-rs", "-p", "no:cacheprovider", *options)

    return run


def _order(result: pytest.RunResult) -> list[str]:
    return [line.split()[0] for line in result.outlines if "::test_" in line and "%" in line]


@pytest.mark.medium
def test_fast_tests_come_first_as_collected(ran: Ran) -> None:
    order = _order(ran())
    assert order[:6] == [f"{file}::test_fast" for file in FILES]
    assert order[6:12] == [f"{file}::test_medium" for file in FILES]
    assert sorted(order[12:]) == [f"{file}::test_slow" for file in FILES]


@pytest.mark.medium
def test_seed_decides_the_order_of_slow_tests(ran: Ran) -> None:
    orders = {seed: _order(ran("--slow-seed", seed)) for seed in "123"}
    assert _order(ran("--slow-seed", "1")) == orders["1"]
    assert len({tuple(order) for order in orders.values()}) > 1


@pytest.mark.medium
def test_slow_tests_begin_in_time_or_not_at_all(ran: Ran) -> None:
    ran(f"--slow-until={time.time() + 600}").assert_outcomes(passed=18)
    late = ran(f"--slow-until={time.time() - 1}")
    late.assert_outcomes(passed=12, skipped=6)
    late.stdout.fnmatch_lines("SKIPPED*[6]*the time for slow tests (--slow-until) was over")
