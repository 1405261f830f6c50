"""Runs all mutants of the launches of one kernel; see `emulate_mutants`."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.mutate import Mutant, mutants
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Module

SEEDS = (0, 1, 2)
"""Asynchronous operations late, mixed and early."""
ENDS = ("race", "error", "deadlock", "wrong result", "undetected")
PROCESSES = 2
End = tuple[str, int, str]
"""How a mutant ends, under which seed, and the first line of what is said about it."""


@dataclass
class Found:
    """A mutant and its end, of all launches in which it was executed."""

    mutant: Mutant
    end: str = "undetected"
    seed: int = -1
    message: str = ""


@dataclass
class Campaign:
    """The mutants of one launch, which gives ``right`` from ``initial``."""

    launch: Launch
    emulator: Emulator
    module: Module
    initial: list[bytes]
    right: list[bytes]
    limit: int

    def judge(self, mutant: Mutant, switches: Switches | None = None) -> End:
        """How a mutant ends."""
        chosen = switches or self.emulator.switches
        for seed in SEEDS:
            _write(self.launch, self.initial)
            run = Emulator(Adversarial(seed), "report", chosen, self.limit, mutant.module)
            try:
                run.run(self.launch)
            except EmulationError as error:
                text = str(error)
                kind = "deadlock" if "deadlock" in text else "error"
                races = [line for line in text.splitlines() if line.startswith("error: ")]
                return ("race", seed, races[0]) if races else (kind, seed, text.splitlines()[0])
            if run.reports[0].errors:
                return "race", seed, run.reports[0].text.splitlines()[0]
            if _read(self.launch) != self.right:
                return "wrong result", seed, ""
        return "undetected", -1, ""


@dataclass
class Hunt:
    """The mutants of one kernel over all of its launches."""

    each: int | None
    campaigns: list[Campaign] = field(default_factory=list[Campaign])
    chosen: dict[tuple[str, int], Found] = field(default_factory=dict[tuple[str, int], Found])
    answers: dict[int, str] = field(default_factory=dict[int, str])
    """By the id of `Found`, what was found out about undetected ones."""

    def all(self) -> list[Found]:
        """Every mutant that some launch executed, in order."""
        return list(self.chosen.values())

    def run(self, campaign: Campaign, lines: dict[int, int]) -> None:
        """Judges what this launch executes and no launch before has shown."""
        kernel = campaign.module.kernels[campaign.launch.kernel]
        groups: dict[str, list[tuple[tuple[str, int], Mutant]]] = defaultdict(list)
        for number, mutant in enumerate(mutants(kernel)):
            if lines.get(mutant.instruction.line):
                groups[mutant.operator].append(((mutant.operator, number), mutant))
        for group in groups.values():
            seen = [key for key, _ in group if key in self.chosen]
            room = len(group) if self.each is None else max(0, self.each - len(seen))
            fresh = [one for one in group if one[0] not in self.chosen]
            for key, mutant in fresh[:: max(1, -(-len(fresh) // (room or 1)))][:room]:
                self.chosen[key] = Found(mutant)
        executed = {key for group in groups.values() for key, _ in group}
        todo = [
            (key, found)
            for key, found in self.chosen.items()
            if key in executed and found.end == "undetected"
        ]
        for (_, found), end in zip(
            todo, parallel(campaign.judge, [found.mutant for _, found in todo]), strict=True
        ):
            found.end, found.seed, found.message = end
        left = [found for _, found in todo if found.end == "undetected"]
        print(f"  {len(todo)} mutants, {len(left)} of them undetected", file=sys.stderr, flush=True)


_work: list[Callable[[Mutant], End]] = []
_items: list[Mutant] = []


def _one(place: int) -> End:
    return _work[0](_items[place])


def parallel(judge: Callable[[Mutant], End], items: list[Mutant]) -> list[End]:
    """The ends of mutants, computed by forked processes."""
    _work[:], _items[:] = [judge], items
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        return pool.map(_one, range(len(items)), chunksize=2)


def _read(launch: Launch) -> list[bytes]:
    return [ctypes.string_at(one.start, one.size) for one in launch.allocations]


def _write(launch: Launch, content: list[bytes]) -> None:
    for one, data in zip(launch.allocations, content, strict=True):
        ctypes.memmove(one.start, data, one.size)


@contextmanager
def hunting(each: int | None, ask: Callable[[Hunt, Campaign], None]) -> Generator[Hunt]:
    """Inside, every launch is also run with its mutants; ``ask`` looks at what is left of each."""
    original: Callable[[Emulator, Launch], None] = Emulator.run
    hunt = Hunt(each)

    def run(self: Emulator, launch: Launch) -> None:
        if self.rewrite is not None:
            original(self, launch)
            return
        initial = _read(launch)
        original(self, launch)
        right = _read(launch)
        report = self.reports[-1]
        assert not report.errors, report.text
        module = parse(launch.ptx)
        # Spinning costs the adversarial schedules more turns than round-robin.
        limit = 10 * report.statistics.instructions
        campaign = Campaign(launch, self, module, initial, right, limit)
        kernel = module.kernels[launch.kernel]
        # Nothing may be found in the kernel itself, or the mutants would tell nothing.
        assert campaign.judge(Mutant("none", kernel.body[0], kernel))[0] == "undetected"
        hunt.run(campaign, dict(report.statistics.lines))
        ask(hunt, campaign)
        _write(launch, right)

    with patch.object(Emulator, "run", run):
        yield hunt
