"""Copies that all lanes of a warp issue are looked at once where they are alike."""

from __future__ import annotations

import pytest

from schedgen.emulator.order import operations
from schedgen.emulator.order.findings import Finding
from schedgen.emulator.order.tracker import Queue
from tests.emulator.order.kernel import Kernel, memory, shared

OUT = (8192, 256)


def _never(_entered: object) -> bool:
    return False


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("write", [True, False])
def test_each_lane_of_one_store_meets_others(
    at: int, write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is the same in all lanes is looked at once, unless something comes in between."""

    def found() -> list[tuple[Finding, int]]:
        k = Kernel()
        line = k.at()
        copies = [k.checker.issue(4, Queue.BULK_STORE, line) for _ in range(4)]
        for number, copy in enumerate(copies):
            if number == at:
                k.checker.generic(1, shared(OUT), write=write, line=k.at())
                k.checker.generic(1, memory((0, 64)), write=not write, line=k.at())
            k.stored(copy, OUT, to=(0, 256))
        return list(k.checker.kept.all())

    once = found()
    monkeypatch.setattr(operations._Entered, "stands", _never)
    assert once == found()
    assert bool(once) == (at < 4)
