"""Runs mutants of the recorded launches of one kernel; see `emulate_mutants`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from emulate_capture_file import Capture, Run
from emulated_mutants.awaited import Watching

from schedgen.benchmarks.mutants.kernels import UNREPEATED, Mutant, mutants
from schedgen.emulator.awaited import Lines, starved
from schedgen.emulator.emulation import Emulator, Report
from schedgen.emulator.launch.recording import Replay
from schedgen.emulator.machine.lanes import EmulationError, EndlessError
from schedgen.emulator.machine.launch import Statistics
from schedgen.emulator.machine.policies import Adversarial, Held, Policy, RoundRobin, Rushed
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel, Module

SEEDS = (0, 1, 2)
"""Asynchronous operations late, mixed and early."""
ROUND_ROBIN = 3
"""In place of a seed: the last one of the schedules that `schedgen race` takes by default."""
TRIES = 5
"""Version of launches and schedules: what an earlier one did not find is judged again."""
FULL = 2
"""Launches under all schedules; further ones, which are for what these do not execute, take longer
and run under the first schedule only, but for waits without their loops: what these let through may
matter in one of them only."""
TARGETED = 4
"""From here on in place of a seed: warps come to the changed instruction as late, or as early, as
they can."""
FURTHER, LATE = 8, (3, 6, 9, 12)
"""From here on in place of a seed: further seeds of schedules in which operations are late, for
waits that are not repeated: a ring with much room is behind in few of them."""
STARVED = FURTHER + len(LATE)
"""In place of a seed: what such a wait waits for comes last."""
ENDS = ("race", "error", "deadlock", "wrong result", "undetected", "not executed")
UNCHANGED = "unchanged"
_WAITS = "M10", "M12 wait", "M15 wait without"
"""Operators of waits that end otherwise: at which time matters."""
_RULE = re.compile(r"\brule\s+([A-Z]\d+[a-z]?)")
PATIENCE = 10
"""Times the instructions of the kernel itself after which a mutant is taken to loop forever:
spinning costs the adversarial schedules more turns than round-robin."""


@dataclass(frozen=True)
class End:
    """How a mutant ended: under which launch and seed, what is said about it first, and the rule
    that is broken, if one is named."""

    end: str
    launch: int = -1
    seed: int = -1
    message: str = ""
    rule: str = ""


class Campaign:
    """The launches of one capture, and the mutants of their kernels.

    PTX is parsed once; instructions are decoded once for all mutants of a launch.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._modules: dict[str, Module] = {}
        self._decoded = [Decoded() for _ in capture.runs]
        self._strict: dict[tuple[int, Switches | None], Decoded] = defaultdict(Decoded)
        self._right: dict[int, tuple[list[bytes], Statistics]] = {}
        self._late: dict[int, frozenset[int]] = {}
        self._awaited: dict[int, Lines] = {}
        for run in capture.runs:
            text = run.recording.ptx
            if text not in self._modules:
                self._modules[text] = parse(text)

    @cached_property
    def kernels(self) -> list[Kernel]:
        """Of each launch."""
        return [self._module(n).kernels[run.recording.kernel] for n, run in enumerate(self._runs)]

    @cached_property
    def mutants(self) -> list[Mutant]:
        """Of all different kernels, in the order of launches and text. The first of each kernel is
        the kernel itself, which has to be silent, or the others would tell nothing.
        """
        different = {id(kernel): kernel for kernel in self.kernels}
        found: list[Mutant] = []
        for kernel in different.values():
            found += [Mutant(UNCHANGED, kernel.body[0], kernel, kernel), *mutants(kernel)]
        return found

    def launches(self, mutant: Mutant) -> list[int]:
        """The launches that execute the instruction that was changed."""
        line, name = mutant.instruction.line, mutant.kernel.name
        return [
            number
            for number, run in enumerate(self._runs)
            if self.kernels[number].name == name
            and (self._lines(number, run).get(line) or line in self._late_lines(number))
        ]

    def end(
        self, mutant: Mutant, switches: Switches | None = None, seeds: Sequence[int] = SEEDS
    ) -> End:
        """How a mutant ends, over all launches (`FULL`)."""
        numbers = self.launches(mutant)
        for number in numbers:
            every = number < FULL or mutant.operator == UNREPEATED
            end = self.judge(number, mutant, switches, seeds if every else seeds[:1])
            if end.end != "undetected":
                return end
        return End("undetected") if numbers else End("not executed")

    def judge(
        self, number: int, mutant: Mutant, switches: Switches | None = None,
        seeds: Sequence[int] = SEEDS,
    ) -> End:  # fmt: skip
        """How a mutant ends in one launch."""
        capture, run = self.capture, self._runs[number]
        own = switches is None or switches == capture.switches
        right, count = self._result(number)
        if mutant.operator == UNCHANGED and (wrong := run.errors(right)):
            return End("wrong result", number, -1, wrong)
        instructions = run.instructions or count.instructions
        replay = self._replays[number]
        tries: list[tuple[int, Policy]] = [(seed, Adversarial(seed)) for seed in seeds]
        if seeds == SEEDS:
            tries.append((ROUND_ROBIN, RoundRobin()))
        waits = mutant.operator.startswith(_WAITS)
        if seeds == SEEDS and waits and (at := mutant.place()) is not None:
            policies = Held(0, [at]), Rushed(0, [at]), Rushed(0, [at], always=True)
            tries += [(TARGETED + n, policy) for n, policy in enumerate(policies)]
            if mutant.operator == UNREPEATED:
                last = starved(mutant.kernel, [at], self._completing(number))
                tries.append((STARVED, last))
                tries += [(FURTHER + n, Adversarial(seed)) for n, seed in enumerate(LATE)]
        for seed, policy in tries:
            replay.reset()
            emulator = Emulator(
                policy, "first", switches or capture.switches,
                PATIENCE * instructions, mutant.module,
                decoded=self._decoded[number] if own else self._strict[number, switches],
                module=self._module(number),
            )  # fmt: skip
            try:
                emulator.run(replay.launch)
            except EmulationError as error:
                return _ended(error, number, seed)
            if replay.content() != right:
                return End("wrong result", number, seed)
        return End("undetected")

    def run(self, number: int, policy: Policy) -> tuple[Report, list[bytes]]:
        """Executes one launch of the kernel itself, looks for all races, and returns what the
        memory holds then.

        Raises:
            EmulationError: the kernel does something undefined, or does not end.
        """
        replay = self._replays[number]
        replay.reset()
        emulator = Emulator(
            policy, "report", self.capture.switches,
            decoded=self._decoded[number], module=self._module(number),
        )  # fmt: skip
        emulator.run(replay.launch)
        return emulator.reports[-1], replay.content()

    def execute(self, number: int, emulator: Emulator) -> None:
        """Lets an emulator with the switches of the capture execute one launch."""
        replay = self._replays[number]
        replay.reset()
        emulator.module, emulator.decoded = self._module(number), self._decoded[number]
        emulator.run(replay.launch)

    @property
    def _runs(self) -> tuple[Run, ...]:
        return self.capture.runs

    @cached_property
    def _replays(self) -> list[Replay]:
        return [Replay(run.recording) for run in self._runs]

    def _module(self, number: int) -> Module:
        return self._modules[self._runs[number].recording.ptx]

    def _lines(self, number: int, run: Run) -> Mapping[int, int]:
        return run.lines or self._result(number)[1].lines

    def _late_lines(self, number: int) -> frozenset[int]:
        """Lines that adversarial schedules execute: round-robin finds phases complete, and never
        comes to the waits behind tests of them."""
        if number not in self._late:
            found: set[int] = set()
            for seed in SEEDS:
                report, _ = self.run(number, Adversarial(seed))
                found.update(report.statistics.lines)
            self._late[number] = frozenset(found)
        return self._late[number]

    def _completing(self, number: int) -> Lines:
        """What completes the phases that are waited for in a launch."""
        if number not in self._awaited:
            emulator = Watching(Adversarial(SEEDS[0]), "report", self.capture.switches)
            self.execute(number, emulator)
            self._awaited[number] = emulator.completing.awaited
        return self._awaited[number]

    def _result(self, number: int) -> tuple[list[bytes], Statistics]:
        """What the kernel itself computes here: functions of numpy differ between processors."""
        if number not in self._right:
            replay = self._replays[number]
            replay.reset()
            emulator = Emulator(races="off", switches=self.capture.switches)
            emulator.module, emulator.decoded = self._module(number), self._decoded[number]
            emulator.run(replay.launch)
            self._right[number] = replay.content(), emulator.reports[-1].statistics
        return self._right[number]


def _ended(error: EmulationError, launch: int, seed: int) -> End:
    text = str(error)
    named = _RULE.search(text)
    rule = named[1] if named else ""
    races = [line for line in text.splitlines() if line.startswith("error: ")]
    if races:
        return End("race", launch, seed, races[0], rule)
    kind = "deadlock" if "deadlock" in text else "error"
    if isinstance(error, EndlessError):
        rule = "endless"
    return End(kind, launch, seed, text.splitlines()[0], rule)
