"""Executions of one launch under several schedules, some of them in processes of their own.

A child is a fork: it has the memory of the launch as it is, writes to its own copy, and sends back
what its race checker found. So the results are those of one execution after the other.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from schedgen.errors import SchedgenError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """What came of an execution: a result, or an error."""

    result: Result | None = None
    error: SchedgenError | None = None

    @property
    def value(self) -> Result:
        """The result. Raises the error, if it is one."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class Pending(Generic[Result]):
    """Executions 0 to ``count`` - 1: those in children have begun, those of the caller's process
    have ended. The caller may do something else then, which counts as one more, and `end`.

    Args:
        execute: the execution with a number; what it raises as SchedgenError is an outcome. Behind
            the first error of a process it executes no more.
        jobs: processes, the caller's one included. Where there is no fork, all are done in it.
    """

    def __init__(self, execute: Callable[[int], Result], count: int, jobs: int) -> None:
        children = 0 if sys.platform == "win32" else min(jobs, count + 1) - 1
        share = -(-(count + 1) // (children + 1))
        bounds = [min(at, count) for at in range(0, (children + 1) * share, share)]
        self._execute = execute
        self._parts = [range(*ends) for ends in pairwise(bounds) if ends[0] < ends[1]]
        self._started = [_start(execute, part) for part in self._parts]
        self._own = _some(execute, range(bounds[-1], count))

    @property
    def failed(self) -> bool:
        """Whether an execution in this process did: then there is no need to go on."""
        return any(one.error is not None for one in self._own)

    def end(self) -> list[Outcome[Result]]:
        """All outcomes, in order; behind an error some may be missing."""
        found: list[Outcome[Result]] = []
        for part, (child, receive) in zip(self._parts, self._started, strict=True):
            try:
                found += receive.recv()
            except EOFError:  # the child was ended from outside
                found += _some(self._execute, part)
            receive.close()
            child.join()
        return found + self._own


def _some(execute: Callable[[int], Result], numbers: Sequence[int]) -> list[Outcome[Result]]:
    found: list[Outcome[Result]] = []
    for number in numbers:
        try:
            found.append(Outcome(execute(number)))
        except SchedgenError as error:
            found.append(Outcome(error=error))
            break
    return found


def _start(
    execute: Callable[[int], Result], numbers: Sequence[int]
) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(execute, numbers, send), daemon=True)
    child.start()
    send.close()
    return child, receive


def _child(execute: Callable[[int], Result], numbers: Sequence[int], send: Connection) -> None:
    send.send([_sent(one) for one in _some(execute, numbers)])
    send.close()


def _sent(one: Outcome[Result]) -> Outcome[Result]:
    """The same without the cause of an error, which may be anything, also what cannot be sent."""
    if one.error is None:
        return one
    error = type(one.error)(str(one.error))
    error.__dict__.update(one.error.__dict__)
    return Outcome[Result](error=error)
