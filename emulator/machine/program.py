"""A kernel as Python functions: straight runs of steps, decoded when they are first reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.table import Environment, Execute, build, load
from schedgen.emulator.machine.analysis import Analysis
from schedgen.emulator.machine.elementwise import Elementwise
from schedgen.emulator.machine.joined import Functions, Joined
from schedgen.emulator.machine.lanes import Decoder, EmulationError, Read, error
from schedgen.emulator.machine.steps import Control, Run, Several, SideBySide
from schedgen.emulator.machine.templates import Templates
from schedgen.emulator.machine.wrapping import (
    Hear,
    Watch,
    collective,
    guarding,
    hearing,
    meet,
    noting,
    watching,
    without_result,
)
from schedgen.emulator.native.engine import engine
from schedgen.emulator.native.runs import prepared, split
from schedgen.emulator.ptx.synchronization import synchronizes
from schedgen.emulator.ptx.tree import Instruction, Kernel

_OFTEN = 2
"""Executions of a stretch after which it is worth to look for what may be computed together."""
_TABLES = frozenset({"lop3", "prmt"})
"""Opcodes whose last operand says what they compute."""
_MEMBERS = frozenset({"shfl", "vote", "match", "redux", "elect"})
"""Opcodes whose last operand is a mask of the lanes that have to execute them together."""


@dataclass(slots=True)
class Stretch:
    """Instructions that are executed in one go: steps, then perhaps one that may block or branch.

    ``end`` is the index of the instruction after the last one; ``times`` counts executions.
    ``steps`` has a step for each instruction. ``parts`` do the same, and do several in one where
    they are ``joined``. ``several`` does what ``control`` does, as in `Control`; ``sides`` do what
    ``parts`` do, if they can.
    """

    start: int
    end: int
    steps: tuple[Execute, ...]
    control: Run | None
    parts: tuple[Execute, ...]
    times: int = 0
    joined: bool = False
    several: Several | None = None
    sides: tuple[Several | None, ...] = ()

    def again(self) -> Stretch:
        """The same for another launch."""
        about = self.start, self.end, self.steps, self.control, self.parts
        return Stretch(*about, 0, self.joined, self.several, self.sides)


class Decoded:
    """Steps that launches of one kernel and of its mutants share: decoding takes as long as a small
    launch. Valid for launches with the same target and switches.

    Attributes:
        steps: by the identity of an instruction, which is kept alive beside its step.
        images: memory of parameters and variables by name: steps know its address.
        joined: what runs of steps were joined to, by the identities of the steps, and for which
            kernel: what others of its instructions have is kept.
        often: identities of the instructions with which stretches begin whose steps were joined:
            they are so from the start in further launches.
        functions: those of what was joined.
        held: lines of synchronization whose guard held in some lane, ever.
        hear: is told when a warp has executed synchronization, with what it has to wait for, if
            anything; None: nobody listens.
        watch: of an instruction, what is to be called whenever a warp is about to execute it, if
            anything; None: nobody watches.
    """

    def __init__(self) -> None:
        self.steps: dict[int, tuple[Instruction, Execute | Control]] = {}
        self.images: dict[str, NDArray[np.uint8]] = {}
        self.joined: dict[tuple[int, ...], tuple[Kernel, Joined]] = {}
        self.often: set[int] = set()
        self.functions = Functions()
        self.held: set[int] = set()
        self.hear: Hear | None = None
        self.watch: Watch | None = None
        self._kernel: tuple[Analysis, dict[frozenset[int], dict[int, Stretch]]] | None = None

    def of(
        self, kernel: Kernel, stops: frozenset[int] = frozenset()
    ) -> tuple[Analysis, dict[int, Stretch]]:
        """What is known of a kernel, and the stretches of its last launch, which end in front of
        ``stops``, by their beginnings; none if that was of another one."""
        if self._kernel is None or self._kernel[0].kernel is not kernel:
            self._kernel = Analysis(kernel), {}
        analysis, stretches = self._kernel
        return analysis, stretches.setdefault(stops, {})


_PLACED = frozenset({"bra", "brx"})
"""Opcodes whose steps know places in the body, which differ between mutants."""


class Program:
    """The steps of a kernel. ``stretches[pc]`` is what begins at an instruction, once decoded; none
    goes on behind one of ``stops``."""

    def __init__(
        self,
        environment: Environment,
        decoded: Decoded | None = None,
        stops: frozenset[int] = frozenset(),
    ) -> None:
        load()
        kernel = environment.kernel
        self.kernel = kernel
        self.environment = environment
        self.decoder = Decoder(
            kernel.registers, environment.symbols.__getitem__, environment.shared
        )
        self.stretches: list[Stretch | None] = [None] * (len(kernel.body) + 1)
        self._names = tuple(kernel.registers)
        self._starts = {*kernel.labels.values(), *stops}
        self._steps: dict[int, Execute | Control] = {}
        self._decoded = decoded or Decoded()
        self._analysis, self._before = self._decoded.of(kernel, stops)
        self._held = self._decoded.held
        self._hear = self._decoded.hear
        self._at_once = engine() is not None
        self._prepared = not self._at_once or bool(self._before)
        self._watch = self._decoded.watch
        self._templates = Templates(
            self.decoder, lambda where, decoder: build(where, decoder, environment)
        )

    @property
    def ranks(self) -> list[int]:
        """The order in which divergent lanes run."""
        return self._analysis.ranks

    def decode(self, start: int) -> Stretch:
        """Builds the stretch that begins at an instruction.

        Raises:
            EmulationError: an instruction of it is not supported, or the kernel ends without ret.
        """
        known = self._before.get(start)
        stretch = self._decoded_now(start) if known is None else known.again()
        self.stretches[start] = self._before[start] = stretch
        if not stretch.joined and (
            self._at_once or id(self.kernel.body[start]) in self._decoded.often
        ):
            self.join(stretch)
        return stretch

    def _decoded_now(self, start: int) -> Stretch:
        body = self.kernel.body
        steps: list[Execute] = []
        at = start
        control: Run | None = None
        several: Several | None = None
        while control is None and (at == start or at not in self._starts):
            if at == len(body):
                raise error(body[-1], "the kernel runs past its last instruction; end it with ret")
            step = self._step(at)
            at += 1
            if isinstance(step, Control):
                control, several = step.run, step.several
            else:
                steps.append(step)
        sides = tuple(map(_side, steps))
        return Stretch(start, at, tuple(steps), control, tuple(steps), 0, False, several, sides)

    def count(self, stretch: Stretch, times: int) -> None:
        """A stretch is executed; what comes again, also by several warps side by side, is worth
        looking at more closely."""
        stretch.times += times
        if not stretch.joined and stretch.times >= _OFTEN:
            self.join(stretch)

    def join(self, stretch: Stretch) -> None:
        """Lets elementwise instructions of a stretch that follow each other compute together."""
        if not self._prepared:
            self._prepare()
        stretch.joined = True
        self._decoded.often.add(id(self.kernel.body[stretch.start]))
        parts: list[Execute] = []
        for together, group in groupby(stretch.steps, lambda step: type(step) is Elementwise):
            if together:
                parts += map(self._joined, split(cast("list[Elementwise]", [*group])))
            else:
                parts += group
        stretch.parts, stretch.sides = tuple(parts), tuple(map(_side, parts))

    def _prepare(self) -> None:
        """Compiles what elementwise instructions of the kernel need as machine code, all at once:
        one of each kind is decoded."""
        self._prepared = True
        kinds: dict[object, Instruction] = {}
        for one in self.kernel.body:
            last = one.operands[-1] if one.opcode in _TABLES else tuple(map(type, one.operands))
            kinds.setdefault((one.opcode, one.modifiers, last), one)
        steps = [self._templates.step(one) for one in kinds.values()]
        prepared(step for step in steps if step is not None)

    def _joined(self, steps: list[Elementwise]) -> Joined:
        known, key = self._decoded.joined, tuple(map(id, steps))
        kernel, joined = known.get(key, (None, None))
        if joined is None or kernel is not self.kernel:
            joined = Joined(steps, self._decoded.functions, self._wanted(steps))
            known[key] = self.kernel, joined
        return joined

    def _wanted(self, steps: list[Elementwise]) -> frozenset[int]:
        """The registers of a run that other instructions have, too."""
        inside: dict[int, int] = {}
        for step in steps:
            for one in step.sources:
                inside[one.slot] = inside.get(one.slot, 0) + 1
            for one in step.targets:
                inside[one.slot] = inside.get(one.slot, 0) + 1
        uses, names = self._analysis.uses, self._names
        return frozenset([s for s, n in inside.items() if s >= 0 and uses[names[s]] > n])

    def problems(self) -> Iterator[tuple[Instruction, EmulationError]]:
        """Instructions that cannot be executed, with why, in the order of the text."""
        for at, instruction in enumerate(self.kernel.body):
            try:
                self._step(at)
            except EmulationError as problem:
                yield instruction, problem

    def _step(self, at: int) -> Execute | Control:
        step = self._steps.get(at)
        if step is None:
            step = self._steps[at] = self._known(self.kernel.body[at])
        return step

    def _known(self, instruction: Instruction) -> Execute | Control:
        """A step that another launch has decoded, or a new one."""
        if instruction.opcode in _PLACED:
            return self._build(instruction)
        known = self._decoded.steps.get(id(instruction))
        if known is None:
            known = instruction, self._build(instruction)
            self._decoded.steps[id(instruction)] = known
        return known[1]

    def _build(self, instruction: Instruction) -> Execute | Control:
        step = self._templates.step(instruction)
        if step is not None:
            return self._guarded(instruction, step)
        step = build(instruction, self.decoder, self.environment)
        if self._hear is not None and synchronizes(instruction):
            step = hearing(step, self._hear, instruction)
        if self._watch is not None and not isinstance(step, Control):
            step = watching(step, self._watch(instruction, self.decoder))
        return self._together(instruction, self._guarded(instruction, step))

    def _guarded(self, instruction: Instruction, step: Execute | Control) -> Execute | Control:
        guard = instruction.guard
        if guard is None:
            return step
        if isinstance(step, Elementwise):
            step = cast(Execute, step.run)
        if isinstance(step, Control) and step.guarded:
            return step
        run = step.run if isinstance(step, Control) else step
        if synchronizes(instruction):
            run = noting(run, self._held, instruction.line)
        run = guarding(self._condition(instruction), run)
        return Control(run) if isinstance(step, Control) else cast(Execute, run)

    def executed(self) -> tuple[dict[int, int], frozenset[int]]:
        """How often stretches reached each line, and the lines of synchronization that lanes
        executed: those whose guard never held are not among them."""
        known, held = self._analysis, self._held
        changes = np.zeros(len(self.stretches), np.int64)
        for stretch in self.stretches:
            if stretch is not None and stretch.times:
                changes[stretch.start] += stretch.times
                changes[stretch.end] -= stretch.times
        times = changes.cumsum()[:-1]
        each = np.bincount(known.lines, times).astype(np.int64)
        met = each.nonzero()[0]
        done = {
            one.line
            for index, one in known.ordering
            if times.item(index) and (one.guard is None or one.line in held)
        }
        return dict(zip(met.tolist(), each[met].tolist(), strict=True)), frozenset(done)

    def _condition(self, instruction: Instruction) -> Read:
        guard = instruction.guard
        assert guard is not None
        if guard.register not in self.decoder.slot:
            raise error(instruction, f"register {guard.register} is not declared")
        slot = self.decoder.slot[guard.register]
        if guard.negated:
            return lambda warp: ~warp.registers[slot]
        return lambda warp: warp.registers[slot]

    def _together(self, instruction: Instruction, step: Execute | Control) -> Execute | Control:
        """Lets instructions that lanes execute together wait until those lanes have met."""
        if not collective(instruction):
            return step
        condition = self._condition(instruction) if instruction.guard is not None else None
        members = None
        if instruction.opcode in _MEMBERS or "warp" in instruction.modifiers:
            members = self.decoder.read(instruction.operands[-1], "b32", instruction)
        run = step.run if isinstance(step, Control) else without_result(step)
        several = None
        if isinstance(step, SideBySide | Control) and condition is None:
            several = step.several
        return Control(meet(instruction, condition, members, run), guarded=True, several=several)


def _side(step: Execute) -> Several | None:
    """What executes a step for several warps, if it can be."""
    if isinstance(step, Joined):
        return step.together
    return step.several if isinstance(step, SideBySide) else None
