"""Each case in a process of its own, which may crash, hang, or be aborted by a compiler."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from fuzz_run import Ending, Outcome, judge
from fuzz_sketch import Case


def endings(cases: Iterator[Case], jobs: int, seconds: float) -> Iterator[tuple[Case, Outcome]]:
    """Cases with what came of each, in their order; ``jobs`` at a time, ``seconds`` for each."""
    _import_all()
    context = multiprocessing.get_context("fork")
    running: list[_Running] = []
    for one in cases:
        running.append(_Running(context, one, seconds))
        if len(running) == jobs:
            done = running.pop(0)
            yield done.case, done.outcome()
    for rest in running:
        yield rest.case, rest.outcome()


def _import_all() -> None:
    """What takes seconds to import and may be shared by forked processes."""
    from schedgen.codegen import emit  # noqa: F401
    from schedgen.emulator import emulation  # noqa: F401
    from schedgen.proof import prove  # noqa: F401
    from schedgen.solver import assemble, search, tiles, verify  # noqa: F401


class _Running:
    """A process that judges one case."""

    def __init__(self, context: Any, one: Case, seconds: float) -> None:
        self.case = one
        self.until = time.monotonic() + seconds
        self.receiver: Connection
        self.receiver, sender = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(one, sender), daemon=True)
        self.process.start()
        sender.close()

    def outcome(self) -> Outcome:
        """Wait for it, at most until its time is over."""
        stage = "start"
        while True:
            ready = wait([self.receiver], max(0.0, self.until - time.monotonic()))
            if not ready:
                self.process.kill()
                self.process.join()
                return Outcome(Ending.TIMEOUT, stage, detail="it takes too long")
            try:
                found = self.receiver.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                return Outcome(Ending.CRASH, stage, f"exit status {code}", "see --replay")
            if isinstance(found, str):
                stage = found
                continue
            self.process.join()
            return found


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
