"""Schedules as deviations from round-robin: written down, and executed again."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.emulator.machine.replay import Delay, Recording, Replayed, Schedule
from tests.emulator.machine.running import run, store
from tests.emulator.machine.test_scheduler import HANDOVER

LOOP = f"""mov.b32 %r2, 0;
    L: add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 40; @%p1 bra L; {HANDOVER}
    cp.async.ca.shared.global [sm], [%rd39], 4;
    cp.async.wait_all;
    bar.sync 0;
"""


def order(policy: Policy) -> list[int]:
    """In which order the threads of twelve warps came to a counter."""
    return run(LOOP, threads=128, ctas=3, source=np.zeros(4, np.int32), policy=policy).out.tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [Adversarial, Seeded])
def test_a_recording_executes_the_same_again(
    kind: type[Adversarial] | type[Seeded], seed: int
) -> None:
    recording = Recording(kind(seed))
    first = order(recording)
    again = Recording(Replayed(recording.schedule))
    assert order(again) == first
    assert again.schedule == recording.schedule


def test_round_robin_has_no_deviations() -> None:
    recording = Recording(RoundRobin())
    first = order(recording)
    assert recording.schedule.plain
    assert order(Replayed(Schedule())) == first


def test_waits_that_return_early() -> None:
    text = f"""mov.b32 %r1, 0; setp.ne.s32 %p1, %r39, 0;
        @!%p1 mbarrier.init.shared.b64 [sm], 64; bar.sync 0;
        mbarrier.arrive.shared.b64 _, [sm];
        W: add.s32 %r1, %r1, 1;
        mbarrier.try_wait.parity.shared.b64 %p2, [sm], 0; @!%p2 bra W;
        {store("%r1")}"""

    def tries(policy: Policy) -> list[int]:
        return run(text, threads=64, policy=policy).out.tolist()

    recordings = [Recording(Adversarial(seed)) for seed in range(12)]
    found = [tries(one) for one in recordings]
    assert max(map(max, found)) > 1
    assert [tries(Replayed(one.schedule)) for one in recordings] == found


def test_whom_all_wait_for_is_not_held() -> None:
    recording = Recording(Adversarial(1))
    order(recording)
    delays = [one for one in recording.schedule.deviations if isinstance(one, Delay)]
    never = tuple(one._replace(turns=10**6) for one in delays)
    replayed = Replayed(Schedule(recording.quantum, 1, never))
    assert sorted(order(replayed)) == list(range(384))
    assert replayed.held
