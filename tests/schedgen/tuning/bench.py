"""A GPU that is not there: candidates take what a function of their settings says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from schedgen.codegen.facts import read_facts
from schedgen.driver.emitting import emission
from schedgen.machine import Machine
from schedgen.spec.reader import Spec
from schedgen.stored import Store
from schedgen.tuning.measuring import Timed
from schedgen.tuning.records import Manifest
from schedgen.tuning.shapes import Shape

if TYPE_CHECKING:
    from schedgen.tuning.preparing import Made

Cost = Callable[[Mapping[str, str], Shape], float]


class Interrupted(Exception):
    """Somebody pressed a key."""


@dataclass
class FakeBench:
    """`schedgen.tuning.measuring.Bench` whose candidates take ``cost`` milliseconds, and a little
    more or less; it is interrupted after so many rounds of one shape.
    """

    manifest: Manifest
    cost: Cost
    noise: float = 0.001
    last: int | None = None
    broken: Mapping[str, str] = field(default_factory=dict[str, str])
    device: str = "a GPU that is not there"
    software: str = "nothing"
    date: str = "2026-01-02"
    mhz: float = 1800.0
    random: Random = field(default_factory=lambda: Random(1))

    def failed(self) -> Mapping[str, str]:
        return self.broken

    def round(self, shape: Shape) -> Mapping[str, Timed]:
        if self.last is not None:
            self.last -= 1
            if self.last < 0:
                raise Interrupted
        found: dict[str, Timed] = {}
        for one in self.manifest.candidates:
            if one.name not in self.broken:
                time = self.cost(one.settings, shape) * (1 + self.noise * self.random.random())
                found[one.name] = Timed(time, 0.9 * time)
        return found


def benches(cost: Cost, **options: object) -> Callable[[Manifest, Path], FakeBench]:
    """Makes a `FakeBench`, if the files of all candidates are there."""

    def made(manifest: Manifest, folder: Path) -> FakeBench:
        for one in manifest.candidates:
            assert read_facts(folder / one.file).kernel == manifest.kernel
        return FakeBench(manifest, cost, **options)  # type: ignore[arg-type]

    return made


def uncompiled(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    latencies: str,
    pace: tuple[str, ...],
    store: Store,
) -> Made:
    """`schedgen.tuning.preparing.Make` without the compiler, and with the quickest proof."""
    made = emission(
        spec, machine, settings, methods=("graph",), store=store, latencies=latencies, pace=pace
    )
    return made, 0, ()
