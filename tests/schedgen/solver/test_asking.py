"""Questions that are asked two at a time have the answers that they have one at a time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from schedgen.solver import asking as module
from schedgen.solver.asking import Answer, Asking, Question, Stop

LOOK, OTHER, PROOF = Question(10, False), Question(20, False), Question(10, True)


class Solver:
    """A solver that works until it is stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop_search(self) -> None:
        self.stopped.set()


class Asked:
    """Says what it was asked, and ends at once, late, or when it is stopped."""

    def __init__(self, slow: set[Question], endless: set[Question]) -> None:
        self.slow, self.endless = slow, endless
        self.begun: list[Question] = []
        self.stopped: list[Question] = []

    def __call__(self, question: Question, stop: Stop) -> Answer:
        self.begun.append(question)
        if question in self.slow:
            time.sleep(2 * module.BRIEF)
        if question in self.endless:
            solver: Any = Solver()
            if stop.goes_on(solver):
                assert solver.stopped.wait(30)
            self.stopped.append(question)
            return "unknown", None
        return ("infeasible" if question.settle else "unknown"), None


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)


def test_the_next_question_is_asked_meanwhile() -> None:
    asked = Asked({LOOK}, set())
    with Asking(asked) as asking:
        assert asking.answer(LOOK, PROOF) == ("unknown", None)
        assert asking.answer(PROOF, None) == ("infeasible", None)
    assert asked.begun == [LOOK, PROOF]


def test_a_brief_question_is_asked_alone() -> None:
    asked = Asked(set(), set())
    with Asking(asked) as asking:
        asking.answer(LOOK, PROOF)
    assert asked.begun == [LOOK]


def test_what_is_not_asked_next_is_stopped() -> None:
    """Before the next question is asked, and at the end."""
    asked = Asked({LOOK, OTHER}, {PROOF})
    with Asking(asked) as asking:
        asking.answer(LOOK, PROOF)
        asking.answer(OTHER, PROOF)
        assert asked.stopped == [PROOF]
    assert asked.begun == [LOOK, PROOF, OTHER, PROOF]
    assert asked.stopped == [PROOF, PROOF]


def test_errors_are_raised_where_it_is_asked() -> None:
    """And what is asked beside it ends."""

    def ask(question: Question, stop: Stop) -> Answer:
        if question == PROOF:
            solver: Any = Solver()
            if stop.goes_on(solver):
                assert solver.stopped.wait(30)
            return "unknown", None
        time.sleep(2 * module.BRIEF)
        raise ValueError("no schedule")

    with pytest.raises(ValueError, match="no schedule"), Asking(ask) as asking:
        asking.answer(LOOK, PROOF)


def test_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 1)
    asked = Asked({LOOK}, set())
    with Asking(asked) as asking:
        assert asking.answer(LOOK, PROOF) == ("unknown", None)
    assert asked.begun == [LOOK]
