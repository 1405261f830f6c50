"""How large the tensors of an experiment are, and what that gives each SM to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedgen.calibration.experiments import Experiment
from schedgen.driver.inputs import default_extents
from schedgen.driver.lengths import array
from schedgen.driver.turns import turns_of
from schedgen.errors import SchedgenError, suggest
from schedgen.execution.launched import Work
from schedgen.expressions import references
from schedgen.kernel import Kernel
from schedgen.tuning.shapes import tensor_bytes, tiles, trips
from schedgen.walking import numbers_of_tiles


@dataclass(frozen=True, slots=True)
class Sized:
    """A run of an experiment: extents of its tensors, and what a launch has to do."""

    extents: Mapping[str, int]
    work: Work
    launches: int


def sized(one: Experiment, kernel: Kernel) -> tuple[Sized, Sized]:
    """The short run and the long one.

    Raises SchedgenError: a size is no extent of the kernel, or nobody says how many SMs share
    several output tiles.
    """
    short, long = (_run(one, kernel, number) for number in (0, 1))
    return short, long


def increase(one: Experiment, short: Sized, long: Sized) -> int:
    """How many iterations or output tiles of an SM, or launches, the long run has more.

    Raises SchedgenError: none.
    """
    if one.per == "launch":
        return long.launches - short.launches
    if one.per == "iteration":
        return long.launches * long.work.turns * (long.work.trips - short.work.trips)
    found = long.launches * (long.work.turns - short.work.turns)
    if found < 1:
        raise SchedgenError(
            f"experiment '{one.name}': each SM has {long.work.turns} output tiles in both runs; "
            "fix: other sizes, or fewer SMs"
        )
    return found


def _run(one: Experiment, kernel: Kernel, number: int) -> Sized:
    scalars = [argument.name for argument in kernel.arguments if not argument.shape]
    for name in one.manner.scalars.keys() - set(scalars):
        raise SchedgenError(
            f"experiment '{one.name}': '{name}' is no scalar argument of {kernel.name}; "
            f"{suggest(name, scalars) or 'fix: leave it away'}"
        )
    sizes = {name: pair[number] for name, pair in one.sizes.items()}
    found = extents(kernel, one.trips[number], sizes)
    shape = {name: float(size) for name, size in found.items()}
    count, sms = tiles(kernel, shape), one.manner.sms
    if sms is None and count > 1:
        raise SchedgenError(
            f"experiment '{one.name}' has {count} output tiles; fix: say with sms: how many SMs "
            "take them in turn"
        )
    work = Work(count, trips(kernel, shape), sms or 1, tensor_bytes(kernel, found), one.manner.cold)
    return Sized(found, work, one.launches[number])


def extents(kernel: Kernel, trips: int, sizes: Mapping[str, int] | None = None) -> dict[str, int]:
    """Sizes of tensors for output tiles of so many iterations: one tile, unless ``sizes`` say more.

    Raises SchedgenError: a size is no extent of the kernel.
    """
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    blocks = {axis.extent: axis.block for axis in kernel.grid}
    walked = walks(kernel)
    own = dict(kernel.parameters).keys() - walked  # of those that are walked it has a nominal size
    given = dict(sizes or {})
    found = default_extents(kernel, given)
    for name in found.keys() - given.keys():
        if name in walked and (name in steps or name not in blocks):
            found[name] = trips * steps.get(name, 1)
        elif name in blocks and name not in own:
            found[name] = blocks[name]
    if not kernel.ragged:
        found = {**found, **numbers_of_tiles(kernel, found)}
        return {**found, **turns_of(kernel, found), **given}
    # One sequence, or group, of the whole extent; what is packed or paged follows from it.
    chosen = {name: found[name] for name in (walked | blocks.keys()) & found.keys() - own}
    ones = {one.of: 1 for one in kernel.ragged}
    return default_extents(kernel, {**chosen, **ones, **given})


def walks(kernel: Kernel) -> set[str]:
    """Extents that the main loop goes along."""
    return {n.name for n in references(kernel.trip_count)} if kernel.trip_count else set()


def arrays_of(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, list[Any]]:
    """What the arguments say that decide on extents, for tensors of these sizes.

    Raises SchedgenError: iterations of the kernel are given by lists of blocks.
    """
    if kernel.walk is not None:
        raise SchedgenError(f"{kernel.name} walks lists of blocks; fix: leave it out")
    names = dict.fromkeys(name for one in kernel.ragged for name in one.arrays)
    return {name: array(kernel, name, extents).tolist() for name in names}
