"""Locks that are emitted again: what they decide stays, and what is unlike is proven or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.driver import lock_file
from schedgen.driver.lock_file import Lock, Locked, LockedKernel, LockedSchedule, LockError
from schedgen.driver.locked import program_of
from schedgen.driver.relocking import relocked
from schedgen.program.digest import program_digest
from schedgen.program.following import of_kernel
from schedgen.proof.prove import Refuted
from schedgen.spec.reader import read_spec


@pytest.fixture
def lock() -> Lock:
    return lock_file.read(lock_file.locks()["gemm_sum", "sm_90a"])


def altered(lock: Lock, **values: str) -> Lock:
    """``lock`` whose kernels say something else about themselves."""

    def other(kernel: LockedKernel) -> LockedKernel:
        return replace(kernel, **values)

    schedules = [replace(s, kernels=tuple(map(other, s.kernels))) for s in lock.schedules]
    return replace(lock, schedules=tuple(schedules))


@pytest.mark.medium
def test_today_is_as_it_is_locked(lock: Lock) -> None:
    same, texts = relocked(lock)
    assert same == lock
    assert set(texts) == {one.name for one in lock_file.every() if one.lock == lock}


@pytest.mark.medium
def test_programs_and_texts_that_change(lock: Lock) -> None:
    """The old digests are of other programs and texts: what is there today is proven."""
    assert relocked(altered(lock, program="0" * 64, text="0" * 64))[0] == lock


@pytest.mark.medium
def test_a_spec_that_changes_nothing(lock: Lock) -> None:
    """But its SHA-256, which its programs say."""
    other = read_spec("gemm_sum").source.sha256.replace("0", "1")
    old = replace(lock, spec_sha256=other)
    kernels = [
        replace(s, kernels=tuple(replace(k, program=_said_by(old, s, k)) for k in s.kernels))
        for s in lock.schedules
    ]
    assert relocked(replace(old, schedules=tuple(kernels)))[0] == lock


def _said_by(old: Lock, schedule: LockedSchedule, kernel: LockedKernel) -> str:
    """The digest of a program that names the spec of ``old``."""
    today = replace(old, spec_sha256=read_spec("gemm_sum").source.sha256)
    program, _ = program_of(Locked(today, schedule, kernel))
    return program_digest(replace(program, spec_sha256=old.spec_sha256))


def test_a_spec_that_changes_the_program(lock: Lock) -> None:
    other = altered(replace(lock, spec_sha256="0" * 64), program="0" * 64)
    with pytest.raises(LockError, match=r"is another one, .* fix: solve it again, without --emit"):
        relocked(other)


@pytest.mark.medium
def test_a_program_that_is_wrong(lock: Lock) -> None:
    """Without one of its hand-offs nothing is locked."""
    (first, *_) = lock.schedules
    for drop in range(3):
        lines = first.synchronization[:drop] + first.synchronization[drop + 1 :]
        with pytest.raises((Refuted, LockError)):
            relocked(replace(lock, schedules=(replace(first, synchronization=lines),)))


@pytest.mark.medium
def test_tiles_that_are_counted_now() -> None:
    """Decisions stay where a spec has come to say nothing but that; the program is proven."""
    lock = lock_file.read(lock_file.locks()["attention_bwd", "sm_100a"])
    schedule = lock.schedules[0]
    schedule = replace(schedule, kernels=schedule.kernels[:1])
    lock = replace(lock, schedules=(schedule,))
    program, _ = program_of(Locked(lock, schedule, schedule.kernels[0]), checked=False)
    before = "0" * 64
    uncounted = program_digest(replace(of_kernel(program), spec_sha256=before))
    old = replace(altered(lock, program=uncounted, text=before), spec_sha256=before)
    assert relocked(old)[0] == lock
    with pytest.raises(LockError, match="solve it again"):
        relocked(replace(altered(lock, program=before, text=before), spec_sha256=before))
