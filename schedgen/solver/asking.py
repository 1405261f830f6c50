"""Questions of a search, and beside each the one that comes next if it has no answer.

Where there are two processors both are asked at a time. What is found does not depend on that: the
second answer is taken only if its question is the next one, and else its solver is stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Self

from ortools.sat.python import cp_model

from schedgen.solver.decisions import Decisions

BRIEF = 0.1
"""Seconds after which a question is long enough for another one beside it."""
_ONCE_MORE = 0.02
"""Seconds until a solver that had not begun is stopped again."""
Answer = tuple[str, Decisions | None]


@dataclass(frozen=True, slots=True)
class Question:
    """Whether there is a schedule with ``ii``; with ``settle``, whatever it takes."""

    ii: int
    settle: bool


class Stop:
    """Ends what works on a question."""

    def __init__(self) -> None:
        self._stopped = False
        self._solver: cp_model.CpSolver | None = None

    def goes_on(self, solver: cp_model.CpSolver) -> bool:
        """Whether ``solver``, which is next, has to begin."""
        self._solver = solver
        return not self._stopped

    def now(self) -> None:
        """Nothing begins from now on, and a solver that has begun ends soon."""
        self._stopped = True
        if self._solver is not None:
            self._solver.stop_search()


class Asking:
    """Asks ``ask`` in threads: CP-SAT leaves Python to others while it works."""

    def __init__(self, ask: Callable[[Question, Stop], Answer]) -> None:
        self._ask = ask
        self._pool = ThreadPoolExecutor(2) if (os.cpu_count() or 1) > 1 else None
        self._begun: dict[Question, tuple[Stop, Future[Answer]]] = {}

    def answer(self, question: Question, then: Question | None) -> Answer:
        """What comes of ``question``; ``then`` may be asked meanwhile."""
        if self._pool is None:
            return self._ask(question, Stop())
        self._end(but=question)
        future = self._future(self._pool, question)
        wait([future], BRIEF)
        if then is not None and not future.done():
            self._future(self._pool, then)
        return future.result()

    def _future(self, pool: ThreadPoolExecutor, question: Question) -> Future[Answer]:
        if question not in self._begun:
            stop = Stop()
            self._begun[question] = stop, pool.submit(self._ask, question, stop)
        return self._begun[question][1]

    def _end(self, but: Question | None = None) -> None:
        """Stops what is asked beside that question, and waits until it has ended."""
        for question, (stop, future) in list(self._begun.items()):
            if question != but:
                while not future.done():
                    stop.now()
                    wait([future], _ONCE_MORE)
                del self._begun[question]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if self._pool is not None:
            self._pool.shutdown()
