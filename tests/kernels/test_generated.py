"""The locks are what the specs say, kernels that are made from them the ones that were proven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.codegen.facts import read_facts
from schedgen.codegen.report import compile_report
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Locked
from schedgen.driver.locked import decided, text_of
from schedgen.kernels import library
from schedgen.kernels.regenerate import EXAMPLES, TARGETS, Shipped, emitted, needs_compiler, shipped
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.kernels.selection import ends, one_of_halves


def kind(one: Locked) -> tuple[str, str]:
    return one.lock.spec, one.lock.arch


ALL = list(lock_file.every())
FIRST = [one for one in ALL if one.kernel is one.schedule.kernels[0]]
"""One of each schedule: the others differ in nothing that a solver sees."""
SOLVED = ends(FIRST, kind)
"""Of the schedules of a lock the first and the last one: ``regenerate`` solves all of them."""
COMPILED = one_of_halves(FIRST, lambda one: one.name, kind)
"""One of each of these schedules; ``regenerate --conform`` compiles all kernels."""
LOCKS = {one.lock.spec + one.lock.arch: one.lock for one in ALL}


def name(kernel: Locked) -> str:
    return kernel.name.removesuffix(".py")


def shipped_as(one: Locked) -> Shipped:
    return next(kernel for kernel in shipped() if kernel.name == one.name)


def test_all_are_there_and_no_others() -> None:
    assert {one.name for one in ALL} == {kernel.name for kernel in shipped()}
    assert len(ALL) == len(list(shipped()))
    files = {path.name for a in TARGETS.values() for path in library.EXAMPLES.glob(f"*_{a}_*.py")}
    assert files == set(EXAMPLES)


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_lock_is_of_todays_spec_and_model(lock: lock_file.Lock) -> None:
    """If not: ``python -m schedgen.kernels.regenerate``."""
    assert lock.spec_sha256 == read_spec(lock.spec).source.sha256
    assert lock.machine_sha256 == read_machine(lock.target).sha256
    assert lock.arch == TARGETS[lock.target]
    assert all(schedule.proven_optimal for schedule in lock.schedules)
    path = lock_file.locks()[lock.spec, lock.arch]
    assert lock_file.text(lock) == path.read_text("utf-8")


@pytest.mark.medium
@pytest.mark.parametrize("file", EXAMPLES)
def test_example_is_made_from_its_lock(file: str) -> None:
    one = lock_file.named(file)
    assert one is not None
    assert text_of(one) == (library.EXAMPLES / file).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("one", ALL, ids=name)
def test_kernel_is_made_from_its_lock(one: Locked) -> None:
    """`text_of` refuses another program, or another text."""
    path = library.file(one)
    facts = read_facts(path)
    assert (facts.kernel, facts.target) == (one.lock.spec, one.lock.arch)
    assert facts.program_sha256 == one.kernel.program
    assert one.kernel.settings.items() <= dict(facts.settings).items()
    said = dict(facts.settings)
    kinds = {"f32", "i32"}  # lengths and pages
    kinds |= {said[key] for key in ("dtype", "out", "factor", "weights") if key in said}
    assert {p.dtype for p in facts.tensors} <= kinds


@pytest.mark.slow
@pytest.mark.parametrize("one", SOLVED, ids=name)
def test_lock_is_what_is_solved_today(one: Locked) -> None:
    """If not: ``python -m schedgen.kernels.regenerate``. That compiles kernels whose warpgroups
    take registers from others, or multiply, and takes none that spills.
    """
    found = decided(emitted(shipped_as(one)), one.kernel.settings)
    assert found == replace(one.schedule, kernels=one.schedule.kernels[:1])


@pytest.mark.slow
@pytest.mark.parametrize("one", COMPILED, ids=name)
def test_kernel_compiles_without_spills(one: Locked, tmp_path: Path) -> None:
    path = library.file(one)
    if one.kernel is one.schedule.kernels[0] and needs_compiler(path.read_text("utf-8")):
        pytest.skip("compiled where it is solved")
    assert compile_report(path, tmp_path).problems == ()
