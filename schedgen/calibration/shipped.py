"""Shipped kernels as experiments: what an iteration of each takes, as it is installed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

from schedgen.calibration.experiments import Experiment, Manner
from schedgen.calibration.sizing import extents, walks
from schedgen.driver.lock_file import Locked, every, locked
from schedgen.elements import whole_scalars
from schedgen.errors import SchedgenError, suggest
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.program.model import Program
from schedgen.tuning.shapes import tensor_bytes

_CYCLES = 1 << 22
"""About what all launches of the long run take, by the schedule."""
_BYTES = 1 << 24
"""What one of its launches may load, so that the next one finds it in L2."""
_LAUNCHES, _LEAST, _SHORTER = 64, 8, 4
"""The most launches of a run, the fewest iterations of one, and how many times fewer iterations the
short run has."""
_WIDE = 4096
"""Columns of the matrices whose columns of one output tile are loaded row by row: how far apart the
rows lie decides what narrow loads take (docs/calibration.md), and matrices are wide."""
_ALL = float(1 << 20)
"""A whole scalar, such as the iterations of a split: more than there are."""
_SAME_SPEED = ("fp16", "e5m2")
"""Data types whose kernels have the schedules of others."""


def shipped_experiments(target: str, names: Collection[str] = ()) -> tuple[Experiment, ...]:
    """All shipped kernels for the machine model ``target``, or those of ``names``, each of one
    output tile; of data types of the same speed one.

    They are called as their spec, with all settings that the lock has but for bf16. Raises
    SchedgenError: there are none, or none of a name, or what is installed would make other ones.
    """
    there = dict(_kernels(target))
    if not there:
        raise SchedgenError(f"no kernels are shipped for {target}; fix: --target h200, or b200")
    for name in names:
        if name not in there:
            raise SchedgenError(
                f"--kernel '{name}': no such kernel is shipped for {target}, or another data type "
                f"stands for it; "
                f"{suggest(name, there) or 'fix: a spec and its settings, as in a record'}"
            )
    return tuple(_experiment(name, there[name]) for name in there if not names or name in names)


def of_lock(one: Experiment, machine: Machine) -> tuple[str, str, Kernel]:
    """Name, text and kernel of a shipped experiment.

    Raises SchedgenError: nothing with these settings is shipped for ``machine``, or what is
    installed would make another kernel than the one that was proven.
    """
    from schedgen.driver.locked import text_of

    found = _found(one, machine)
    return found.name, text_of(found), _derived(found.name)[1]


def program_of_lock(one: Experiment, machine: Machine) -> tuple[Program, Kernel]:
    """Program and kernel of a shipped experiment. Raises SchedgenError: as `of_lock`."""
    return _derived(_found(one, machine).name)


def _found(one: Experiment, machine: Machine) -> Locked:
    found = locked(one.spec, machine.arch, one.settings)
    if found is None or found.lock.target != machine.name:
        raise SchedgenError(
            f"no {one.spec} with these settings is shipped for {machine.name}; "
            "fix: name one that is"
        )
    return found


@cache
def _derived(name: str) -> tuple[Program, Kernel]:
    from schedgen.driver.lock_file import named
    from schedgen.driver.locked import program_of

    found = named(name)
    assert found is not None
    return program_of(found)


def _kernels(target: str) -> Iterator[tuple[str, Locked]]:
    for kernel in every():
        settings = kernel.kernel.settings
        if kernel.lock.target == target and settings.get("dtype") not in _SAME_SPEED:
            more = (f"{k}={v}" for k, v in settings.items() if (k, v) != ("dtype", "bf16"))
            yield " ".join([kernel.lock.spec, *more]), kernel


def _experiment(name: str, one: Locked) -> Experiment:
    """Many iterations, in several launches if what they load would not stay in L2."""
    kernel, cycles = _derived(one.name)[1], one.schedule.ii_cycles
    loaded = [tensor_bytes(kernel, extents(kernel, trips)) for trips in (_LEAST, 2 * _LEAST)]
    each = max(int(loaded[1] - loaded[0]) // _LEAST, 1)
    long = max(min(_CYCLES // cycles, _BYTES // each), _LEAST)
    launches = min(max(_CYCLES // (cycles * long), 1), _LAUNCHES)
    scalars = dict.fromkeys(sorted(whole_scalars(kernel)), _ALL)
    manner = Manner(scalars=scalars, within=dict.fromkeys(_along_rows(kernel), _WIDE))
    trips = max(long // _SHORTER, 1), long
    return Experiment(
        name,
        one.lock.spec,
        one.kernel.settings,
        trips,
        launches=(launches, launches),
        manner=manner,
        shipped=True,
    )


def _along_rows(kernel: Kernel) -> list[str]:
    """Extents that output tiles divide and along which rows of a matrix lie that is walked row by
    row.
    """
    blocks = {axis.extent for axis in kernel.grid} - dict(kernel.parameters).keys()
    walked = walks(kernel)
    matrices = [argument.shape[-2:] for argument in kernel.arguments if len(argument.shape) > 1]
    return sorted({along for across, along in matrices if across in walked and along in blocks})
