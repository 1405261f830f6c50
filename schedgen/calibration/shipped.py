"""Shipped kernels as experiments: what an iteration of each takes, as it is installed."""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.calibration.experiments import Experiment, Pair
from schedgen.driver.lock_file import Locked, every, locked
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.machine import Machine

_CYCLES = 1 << 20
"""About what the long run takes, by the schedule."""
_LONG, _SHORTER = 4096, 4
"""The most iterations of the long run, and how many times fewer the short one has."""
_SAME_SPEED = ("fp16", "e5m2")
"""Data types whose kernels have the schedules of others."""


def shipped_experiments(target: str) -> tuple[Experiment, ...]:
    """All shipped kernels for the machine model ``target``, each of one output tile; of data types
    of the same speed one.

    They are called as their spec, with all settings that the lock has but for bf16. Raises
    SchedgenError: there are none.
    """
    found = tuple(_experiments(target))
    if not found:
        raise SchedgenError(f"no kernels are shipped for {target}; fix: --target h200, or b200")
    return found


def of_lock(one: Experiment, machine: Machine) -> tuple[str, str, Kernel]:
    """Name, text and kernel of a shipped experiment.

    Raises SchedgenError: nothing with these settings is shipped for ``machine``, or what is
    installed would make another kernel than the one that was proven.
    """
    from schedgen.driver.locked import program_of, text_of

    found = locked(one.spec, machine.arch, one.settings)
    if found is None or found.lock.target != machine.name:
        raise SchedgenError(
            f"no {one.spec} with these settings is shipped for {machine.name}; fix: --target h200"
        )
    return found.name, text_of(found), program_of(found)[1]


def _experiments(target: str) -> Iterator[Experiment]:
    for kernel in every():
        settings = kernel.kernel.settings
        if kernel.lock.target == target and settings.get("dtype") not in _SAME_SPEED:
            more = (f"{k}={v}" for k, v in settings.items() if (k, v) != ("dtype", "bf16"))
            name = " ".join([kernel.lock.spec, *more])
            yield Experiment(name, kernel.lock.spec, settings, _trips(kernel), shipped=True)


def _trips(kernel: Locked) -> Pair:
    long = min(max(_CYCLES // kernel.schedule.ii_cycles, _SHORTER), _LONG)
    return long // _SHORTER, long
