"""Locks that are emitted again: what they decide stays, and what is unlike is proven or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.driver import lock_file
from schedgen.driver.lock_file import Lock, LockedKernel, LockError
from schedgen.driver.relocking import relocked
from schedgen.proof.prove import Refuted


@pytest.fixture
def lock() -> Lock:
    return lock_file.read(lock_file.locks()["gemm_sum", "sm_90a"])


def altered(lock: Lock, **values: str) -> Lock:
    """``lock`` whose kernels say something else about themselves."""

    def other(kernel: LockedKernel) -> LockedKernel:
        return replace(kernel, **values)

    schedules = [replace(s, kernels=tuple(map(other, s.kernels))) for s in lock.schedules]
    return replace(lock, schedules=tuple(schedules))


def test_today_is_as_it_is_locked(lock: Lock) -> None:
    same, texts = relocked(lock)
    assert same == lock
    assert set(texts) == {one.name for one in lock_file.every() if one.lock == lock}


def test_programs_and_texts_that_change(lock: Lock) -> None:
    """The old digests are of other programs and texts: what is there today is proven."""
    assert relocked(altered(lock, program="0" * 64, text="0" * 64))[0] == lock


def test_a_spec_that_changes_nothing(lock: Lock) -> None:
    assert relocked(replace(lock, spec_sha256="0" * 64))[0] == lock


def test_a_spec_that_changes_the_program(lock: Lock) -> None:
    other = altered(replace(lock, spec_sha256="0" * 64), program="0" * 64)
    with pytest.raises(LockError, match=r"is another one, .* fix: solve it again, without --emit"):
        relocked(other)


def test_a_program_that_is_wrong(lock: Lock) -> None:
    """Without one of its hand-offs nothing is locked."""
    (first, *_) = lock.schedules
    for drop in range(3):
        lines = first.synchronization[:drop] + first.synchronization[drop + 1 :]
        with pytest.raises((Refuted, LockError)):
            relocked(replace(lock, schedules=(replace(first, synchronization=lines),)))
