"""Candidates as files that can be measured where there is no solver, with a manifest of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from schedgen.codegen.emit import emit
from schedgen.driver.binding import kernels_of
from schedgen.driver.found import Infeasible, OutOfTime
from schedgen.driver.locked import lock_of
from schedgen.driver.proved import prove_solution
from schedgen.driver.restoring import solved
from schedgen.driver.selecting import with_registers
from schedgen.errors import SchedgenError
from schedgen.kernels.library import SMS
from schedgen.machine import Machine
from schedgen.spec.reader import Spec
from schedgen.stored import Store
from schedgen.tuning.basics import Deadline, NoCandidate, shown
from schedgen.tuning.candidates import (
    Problem,
    Queue,
    Setting,
    code_digest,
    first_line,
    possible,
    rank,
)
from schedgen.tuning.estimating import paced
from schedgen.tuning.records import MANIFEST, AxisTried, Dropped, Manifest, Prepared, manifest_text
from schedgen.tuning.shapes import Shape, complete, distinct
from schedgen.tuning.space import Axis, pace_of, parameters, schedule_of, settings_of

if TYPE_CHECKING:
    from schedgen.driver.emitting import Emission

CONSIDERED = 256
"""Settings that are looked at, at most: a bound takes some 20 ms."""

Progress = Callable[[str], None]
Made = tuple["Emission", int, tuple[str, ...]]
"""An emission, registers that its schedule leaves beside tiles, packages that compiled it."""
Make = Callable[[Spec, Machine, Mapping[str, str], str, tuple[str, ...], Store], Made]
"""Of a spec, a machine, parameters, latencies, units whose order is kept, and a store."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be tuned, and how much work it may be.

    Attributes:
        spec, target: as the user names them.
        base: settings that all candidates have.
        axes: what is varied.
        shapes: what the user gave; not all extents need be there.
        count: candidates, at most.
        seconds: after which no more is begun.
        seed: of the order of settings that differ in more than one parameter.
        round: 0, or how often the winner was refined.
        tried: settings that are not looked at again.
        kept: settings that are candidates beside these, whatever the model says.
    """

    spec: str
    target: str
    base: Mapping[str, str]
    axes: Sequence[Axis]
    shapes: Sequence[Shape]
    count: int
    seconds: float
    seed: int
    round: int = 0
    tried: Sequence[Mapping[str, str]] = ()
    kept: Sequence[Mapping[str, str]] = ()


def compiled(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    latencies: str,
    pace: tuple[str, ...],
    store: Store,
) -> Made:
    """The kernel that the compiler accepts and that is its program.

    Raises what `schedgen.driver.selecting.compiled_emission` raises.
    """
    from schedgen.codegen.compiling import packages
    from schedgen.driver.selecting import compiled_emission

    made, attempts = compiled_emission(
        spec, machine, settings, conform=True, store=store, latencies=latencies, pace=pace
    )
    chosen = next(attempt for attempt in attempts if attempt.chosen)
    return made, chosen.variation.more_registers, packages()


def prepare(
    wanted: Wanted,
    spec: Spec,
    machine: Machine,
    folder: Path,
    store: Store,
    progress: Progress | None = None,
    make: Make = compiled,
) -> Manifest:
    """Emits the best candidates into ``folder``, with a manifest. ``store`` is what makes a second
    run short that goes on where the first one was interrupted.

    Raises:
        NoCandidate: no settings are one.
        SchedgenError: a shape is wrong.
        OSError: ``folder`` cannot be written.
    """
    return _Preparation(wanted, spec, machine, folder, store, progress, make).run()


class _Preparation:
    def __init__(
        self,
        wanted: Wanted,
        spec: Spec,
        machine: Machine,
        folder: Path,
        store: Store,
        progress: Progress | None,
        make: Make,
    ) -> None:
        self.wanted, self.spec, self.machine = wanted, spec, machine
        self.folder, self.store, self.make = folder, store, make
        self.progress: Progress = progress or _silent
        self.deadline = Deadline(wanted.seconds)
        self.problem = Problem(
            spec, machine, wanted.base, wanted.shapes, SMS.get(machine.arch, min(SMS.values()))
        )
        self.queue = Queue()
        self.found: list[Prepared] = []
        self.dropped: list[Dropped] = []
        self.shapes: tuple[Shape, ...] = ()
        self.codes: dict[str, str] = {}
        self.compiler: tuple[str, ...] = ()

    def run(self) -> Manifest:
        # The spec's own settings say which extents there are, before there is any work.
        kernel = kernels_of(self.spec, self.machine, self.wanted.base)[0]
        self.shapes = distinct([complete(kernel, shape) for shape in self.wanted.shapes])
        self.folder.mkdir(parents=True, exist_ok=True)
        queue = self.queue
        for one in possible(
            self.problem, self._settings(), self.deadline, self.dropped, self.progress
        ):
            queue.put(one)
        for settings in self.wanted.kept:
            self._add(dict(settings))
        most = self.wanted.count + len(self.found)
        while queue and len(self.found) < most and not self.deadline.over:
            one, number, is_solved = queue.get()
            if is_solved:
                self._add(one.settings)
            elif (again := self._solved(one)) is not None:
                queue.put(again, number, solved=True)
        if not self.found:
            raise NoCandidate(self._nothing())
        return self._write()

    def _settings(self) -> list[dict[str, str]]:
        """What is looked at: not what was tried before."""
        known = [dict(one) for one in (*self.wanted.tried, *self.wanted.kept)]
        every = settings_of(self.wanted.axes, self.wanted.seed)
        return list(islice((one for one in every if one not in known), CONSIDERED))

    def _solved(self, one: Setting) -> Setting | None:
        """``one`` with the estimate of its schedule; None if there is none."""
        self.progress(f"solving {shown(one.settings)}")
        chosen, latencies, machine = self._solved_for(one.settings)
        try:
            found = solved(
                self.spec, machine, chosen,
                store=self.store, advise=False, latencies=latencies,
            )  # fmt: skip
        except (Infeasible, OutOfTime) as error:
            self.dropped.append(Dropped(one.settings, "solve", first_line(error)))
            return None
        kernel = found.problem.kernel
        try:  # a whole proof, and compiling, take longer than to see that no emitter can write it
            proven = prove_solution(found, ("graph",)).proven
            emit(proven, kernel)
            estimates = self.problem.estimates(kernel, paced(found.schedule, proven.program))
        except SchedgenError as error:
            self.dropped.append(Dropped(one.settings, "emit", first_line(error)))
            return None
        return Setting(one.settings, kernel, estimates)

    def _add(self, settings: dict[str, str]) -> bool:
        """Makes a candidate of ``settings``; whether it is one."""
        self.progress(f"compiling candidate {len(self.found) + 1}: {shown(settings)}")
        chosen, latencies, machine = self._solved_for(settings)
        try:
            made, more, self.compiler = self.make(
                self.spec, machine, chosen, latencies, pace_of(settings), self.store
            )
        except SchedgenError as error:
            self.dropped.append(Dropped(settings, "compile", first_line(error)))
            return False
        same = self.codes.setdefault(code_digest(made.text), shown(settings))
        if same != shown(settings):
            self.dropped.append(Dropped(settings, "same", f"the program is that of {same}"))
            return False
        self._keep(settings, made, more + schedule_of(settings)[1])
        return True

    def _keep(self, settings: dict[str, str], made: Emission, more: int) -> None:
        schedule, kernel = made.solution.schedule, made.solution.problem.kernel
        name = f"c{len(self.found):02}"
        file = f"{name}_{made.name}"
        (self.folder / file).write_text(made.text, encoding="utf-8")
        pace = paced(schedule, made.proven.program)
        estimates = self.problem.estimates(kernel, pace)
        lock = lock_of([(made, self._solved_for(settings)[0])])
        ii = schedule.ii_cycles
        self.found.append(
            Prepared(name, file, settings, ii, pace.iteration, pace.tile, more, estimates, lock)
        )
        self.queue.take(kernel)
        self._write()  # what was made so far can be measured if somebody interrupts

    def _write(self) -> Manifest:
        wanted = self.wanted
        first = self.found[0].lock
        ranked = sorted(self.found, key=lambda one: rank(one.estimates, one.settings))
        manifest = Manifest(
            wanted.spec,
            first.spec,
            first.spec_sha256,
            wanted.target,
            first.arch,
            first.machine_sha256,
            dict(wanted.base),
            tuple(AxisTried(a.name, a.values, a.numeric, a.usual) for a in wanted.axes),
            tuple(dict(shape) for shape in self.shapes),
            wanted.seed,
            wanted.round,
            tuple(ranked),
            tuple(self.dropped),
            tuple(dict(one) for one in wanted.tried),
            len(self.queue),
            self.compiler,
        )
        (self.folder / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
        return manifest

    def _solved_for(self, settings: Mapping[str, str]) -> tuple[dict[str, str], str, Machine]:
        """All parameters that are set, latencies, and the machine with its registers."""
        latencies, registers = schedule_of(settings)
        chosen = {**self.wanted.base, **parameters(settings)}
        return chosen, latencies, with_registers(self.machine, registers)

    def _nothing(self) -> str:
        """Why there is no candidate."""
        if not self.dropped:
            seconds = f"{self.wanted.seconds:g}"
            return f"no candidate within {seconds} s; fix: give more with --seconds"
        listed = "\n  ".join(f"{shown(d.settings)}: {d.reason}" for d in self.dropped[:5])
        more = f"\n  and {len(self.dropped) - 5} more" if len(self.dropped) > 5 else ""
        unseen = f"; {len(self.queue)} settings are left" if self.queue else ""
        return (
            f"no candidate of {self.spec.file.kernel} on {self.machine.name}{unseen}:\n  "
            f"{listed}{more}\n  fix: try other values with --try NAME=V1,V2"
        )


def _silent(text: str) -> None:
    """Progress that nobody wants to see."""


def retried(manifest: Manifest) -> tuple[dict[str, str], ...]:
    """All settings that a manifest says something of, or that were tried before it."""
    return (
        *manifest.tried,
        *(one.settings for one in manifest.candidates),
        *(one.settings for one in manifest.dropped),
    )
