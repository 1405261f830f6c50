"""Each case in a process of its own, which may crash, hang, or be aborted by a compiler."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from fuzzing.run import Ending, Outcome, judge
from fuzzing.sketch import Case


def endings(cases: Iterator[Case], jobs: int, seconds: float) -> Iterator[tuple[Case, Outcome]]:
    """Cases with what came of each, in their order; ``jobs`` at a time, ``seconds`` for each."""
    _import_all()
    context = multiprocessing.get_context("fork")
    started: deque[_Running] = deque()
    for one in cases:
        started.append(_Running(context, one, seconds))
        while started and (started[0].outcome or _busy(started) == jobs):
            _listen(started)
            if started[0].outcome:
                yield _first(started)
    while started:
        _listen(started)
        if started[0].outcome:
            yield _first(started)


def _busy(started: Iterable[_Running]) -> int:
    return sum(one.outcome is None for one in started)


def _first(started: deque[_Running]) -> tuple[Case, Outcome]:
    one = started.popleft()
    assert one.outcome is not None
    return one.case, one.outcome


def _listen(started: Iterable[_Running]) -> None:
    """Wait until one of those that run says something, or has no time left."""
    busy = {one.receiver: one for one in started if one.outcome is None}
    left = min((one.until for one in busy.values()), default=0.0) - time.monotonic()
    for receiver in wait(list(busy), max(0.0, left)) if busy else ():
        assert isinstance(receiver, Connection)
        busy[receiver].hear()
    for one in busy.values():
        one.stop_late()


def _import_all() -> None:
    """What takes seconds to import and may be shared by forked processes."""
    from schedgen.codegen import emit  # noqa: F401
    from schedgen.emulator import emulation  # noqa: F401
    from schedgen.proof import prove  # noqa: F401
    from schedgen.solver import assemble, search, tiles, verify  # noqa: F401


class _Running:
    """A process that judges one case; ``outcome`` is None while it does."""

    def __init__(self, context: Any, one: Case, seconds: float) -> None:
        self.case = one
        self.until = time.monotonic() + seconds
        self.stage = "start"
        self.outcome: Outcome | None = None
        self.receiver: Connection
        self.receiver, sender = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(one, sender), daemon=True)
        self.process.start()
        sender.close()

    def hear(self) -> None:
        """What it says: the stage that begins, or what came of the case."""
        try:
            found = self.receiver.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            self._end(Outcome(Ending.CRASH, self.stage, f"exit status {code}", "see --replay"))
            return
        if isinstance(found, str):
            self.stage = found
        else:
            self._end(found)

    def stop_late(self) -> None:
        if self.outcome is None and time.monotonic() > self.until:
            self.process.kill()
            self._end(Outcome(Ending.TIMEOUT, self.stage, detail="it takes too long"))

    def _end(self, outcome: Outcome) -> None:
        self.process.join()
        self.receiver.close()
        self.outcome = outcome


def _work(one: Case, sender: Connection) -> None:
    """What compilers print is nobody's business but that of a crash."""
    import torch

    torch.set_num_threads(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    if "--replay" not in sys.argv:
        os.dup2(null, 2)
    sender.send(judge(one, sender.send))
    sender.close()
