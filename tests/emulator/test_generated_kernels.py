"""Shipped kernels under adversarial schedules, correct and clean.

`emulate_kernels` executes all of them under 20.
"""

from __future__ import annotations

import pytest

from schedgen.driver import lock_file
from schedgen.driver.binding import kernels_of
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import shapes
from schedgen.emulator.machine.policies import Adversarial
from schedgen.kernel import Kernel
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import TARGETS, Shipped, shipped
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from schedgen.walking import counted
from tests.kernels.selection import one_of_halves


def kind(one: Shipped) -> tuple[str, str]:
    return one.spec, one.target


ALL = one_of_halves(shipped(), lambda one: one.name, kind)
FIRST = {kind(one): one for one in reversed(ALL)}
LAST = [[one for one in ALL if one.target == target][-1] for target in TARGETS]


def kernel_of(one: Shipped) -> Kernel:
    """With what the solver chose: errors of exponentials depend on it."""
    locked = lock_file.named(one.name)
    assert locked is not None
    settings = {**locked.schedule.choices, **dict(one.settings)}
    return kernels_of(read_spec(one.spec), read_machine(one.target), settings)[0]


def check(one: Shipped, names: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    kernel, text = kernel_of(one), named(one.name).read_text("utf-8")
    with compiled(text, kernel, TARGETS[one.target], sms=1) as made:
        for name in names:
            for seed in seeds:
                outcome = made.run(shapes(kernel)[name], Adversarial(seed))
                assert outcome.correct, (name, seed, outcome.errors)
                assert outcome.clean, outcome.report.text


@pytest.mark.medium
@pytest.mark.parametrize("one", LAST, ids=lambda one: one.name)
def test_sample(one: Shipped) -> None:
    check(one, ("tiny",), (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_all(one: Shipped) -> None:
    """In all shapes the first kernel of a spec and a target, the others in a ragged one."""
    whole = one is FIRST[kind(one)]
    check(one, tuple(shapes(kernel_of(one))) if whole else ("ragged",), (0,))


@pytest.mark.parametrize("one", LAST, ids=lambda one: one.name)
def test_shapes(one: Shipped) -> None:
    """One of everything; parts of tiles; more iterations than any ring has slots."""
    kernel = kernel_of(one)
    found = shapes(kernel)
    free = {name for name in found["tiny"] if found["tiny"][name] != found["long loop"][name]}
    free -= counted(kernel).keys()  # which follow from others
    assert {found["tiny"][name] for name in free} == {1}
    assert all(found["ragged"][name] % 16 for name in free)
    assert ("zero beta" in found) == (any(a.name == "beta" for a in kernel.arguments))
