"""Kernels that are made from what was decided for them, and locks that fit nothing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen import json_file
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Locked, LockError
from schedgen.driver.locked import apart, merged, program_of, text_of

NAME = "gemm_sum_sm_90a_bf16.py"


@pytest.fixture
def one() -> Locked:
    found = lock_file.named(NAME)
    assert found is not None
    return found


def test_found_by_its_settings(one: Locked) -> None:
    assert lock_file.locked("gemm_sum", "sm_90a", {"dtype": "bf16"}) == one
    assert lock_file.locked("gemm_sum", "sm_90a", {"dtype": "f32"}) is None
    assert lock_file.locked("gemm_sum", "sm_80", {"dtype": "bf16"}) is None
    assert lock_file.locked("nothing", "sm_90a", {}) is None


@pytest.mark.medium
def test_nothing_that_solves_or_proves_is_needed() -> None:
    """In a process of its own: what is imported there says what is used."""
    code = f"""
import sys
from schedgen.driver import lock_file
from schedgen.driver.locked import text_of
assert "def kernel(" in text_of(lock_file.named({NAME!r}))
print(sorted({{"ortools", "z3", "pandas", "torch"}} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("what", ["spec", "machine"])
def test_another_spec_or_model(one: Locked, what: str) -> None:
    lock = replace(one.lock, **{f"{what}_sha256": "0" * 64})
    with pytest.raises(LockError, match=r"is not the one that its lock was made with; fix: "):
        text_of(replace(one, lock=lock))


def test_another_program(one: Locked) -> None:
    """A lock without one of its hand-offs is not emitted."""
    lines = one.schedule.synchronization
    fewer = replace(one.schedule, synchronization=lines[:1] + lines[2:])
    with pytest.raises(LockError, match=r"the program of .* is not the one in its lock"):
        program_of(replace(one, schedule=fewer))


def test_another_text(one: Locked) -> None:
    kernel = replace(one.kernel, text="0" * 64)
    with pytest.raises(LockError, match="would have another text than its lock says"):
        text_of(replace(one, kernel=kernel))


def test_decisions_that_are_no_schedule(one: Locked) -> None:
    start = {**one.schedule.start, "ADD": 0}
    for schedule in (
        replace(one.schedule, start=start),
        replace(one.schedule, ii_cycles=one.schedule.ii_cycles - 1),
        replace(one.schedule, start={n: t for n, t in start.items() if n != "ADD"}),
        replace(one.schedule, synchronization=("LP of nothing",)),
    ):
        with pytest.raises(LockError, match="the lock of gemm_sum_sm_90a_bf16"):
            program_of(replace(one, schedule=schedule))


def test_files_that_are_no_locks(tmp_path: Path) -> None:
    for text in ("", "{}", "[1]", '{"schedules": [{}]}', '{"schedules": 1}'):
        path = tmp_path / "lock.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(LockError, match="this is no lock"):
            lock_file.read(path)


def test_text_of_a_lock_is_read_back(one: Locked, tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text(lock_file.text(one.lock), encoding="utf-8")
    assert lock_file.read(path) == one.lock
    assert max(map(len, path.read_text("utf-8").splitlines())) <= json_file.WIDTH + 10


def test_how_it_is_written(tmp_path: Path) -> None:
    """A lock says so if it is not plainly; then other text comes of it than the one it has."""
    one = lock_file.named("attention_fwd_sm_90a_head_dim64_bf16.py")
    assert one is not None
    kernel = replace(one.kernel, style=("blocks",))
    schedule = replace(one.schedule, kernels=(kernel,))
    lock = replace(one.lock, schedules=(schedule,))
    path = tmp_path / "lock.json"
    path.write_text(lock_file.text(lock), "utf-8")
    assert lock_file.read(path) == lock
    assert '"style": ["blocks"]' in path.read_text("utf-8")
    plain = replace(schedule, kernels=(replace(kernel, style=()),))
    assert "style" not in lock_file.text(replace(lock, schedules=(plain,)))
    with pytest.raises(LockError, match="another text than its lock says"):
        text_of(replace(one, kernel=kernel))


def test_apart_and_merged() -> None:
    """Schedules of single kernels come to those of the lock, in its order."""
    for path in lock_file.locks().values():
        lock = lock_file.read(path)
        assert merged(apart(lock).values()) == lock.schedules
