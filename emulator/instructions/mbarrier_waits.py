"""mbarrier.test_wait and mbarrier.try_wait (PTX ISA 9.7.13.15.16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.mbarriers import STATE_PHASE, Form, form_of, locate
from schedgen.emulator.instructions.operands import address, common, each_of, executing
from schedgen.emulator.instructions.table import Environment, builds
from schedgen.emulator.machine.block import RANK_SHIFT
from schedgen.emulator.machine.conditions import YIELD, Condition
from schedgen.emulator.machine.lanes import LANES, Decoder, Read, Write, error
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.machine.switches import Spurious
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp


@builds("mbarrier.test_wait", "mbarrier.try_wait")
def _wait(instruction: Instruction, decoder: Decoder, environment: Environment) -> Control:
    form = form_of(instruction, ("parity",), ("acquire",))
    parity = "parity" in instruction.modifiers
    wait = _Wait(
        instruction,
        form,
        write=decoder.write(instruction.operands[0], instruction),
        addresses=address(instruction.operands[1], decoder, instruction),
        phases=decoder.read(instruction.operands[2], "u32" if parity else "u64", instruction),
        parity=parity,
        blocking=instruction.modifiers[0] == "try_wait",
        spurious=environment.switches.spurious is not Spurious.NEVER,
    )
    return Control(wait.run, several=wait.several if parity else None)


_FALSE = np.zeros(LANES, np.bool_)
_TRUE = np.ones(LANES, np.bool_)


@dataclass(frozen=True)
class _Wait:
    """test_wait, and try_wait with ``blocking``.

    A try_wait that finds its phase incomplete is suspended until the phase completes, and returns
    True then. It returns False when nothing else can run (its time is up), and now and then for no
    reason (B10, S19). A test_wait returns False at once; the warp then goes to the back, since it
    can find nothing new before somebody else has run.
    """

    instruction: Instruction
    form: Form
    write: Write
    addresses: Read
    phases: Read
    parity: bool
    blocking: bool
    spurious: bool

    def run(self, warp: Warp) -> Condition | None:
        values = each_of(warp, self.addresses(warp))
        wanted = each_of(warp, self.phases(warp))
        if values.count(values[0]) != len(values) or wanted.count(wanted[0]) != len(wanted):
            values = executing(warp, self.addresses(warp)).tolist()
            return self._each(warp, values, executing(warp, self.phases(warp)).tolist())
        barrier = self._barrier(warp, values[0])
        phase = self._phase(warp, barrier, wanted[0])
        resumed = warp.resumed
        if resumed is not None and resumed.resource is barrier:
            assert isinstance(resumed.tag, int)
            phase = resumed.tag
            self._recent(barrier, phase)
        if barrier.phase > phase:
            self._observe(warp, barrier)
            self.write(warp, _TRUE)
            return None
        if resumed is not None:
            self.write(warp, _FALSE)
            return None
        if not self.blocking:
            self.write(warp, _FALSE)
            return barrier.until(phase, again=False, timed=True)
        if self.spurious and warp.machine.policy.spurious():
            self.write(warp, _FALSE)
            return YIELD
        return barrier.until(phase, again=True, timed=True)

    def several(self, warps: Sequence[Warp]) -> bool:
        """All lanes of all warps test one phase, which is complete."""
        value, wanted = common(warps, self.addresses), common(warps, self.phases)
        if value is None or wanted is None or wanted > 1:
            return False
        block = warps[0].block
        if value >> 32 or value >> RANK_SHIFT != block.rank:
            return False
        barrier = block.shared.barriers.get(value & ((1 << RANK_SHIFT) - 1))
        if barrier is None or barrier.phase & 1 == wanted:
            return False
        for warp in warps:
            before = warp.resumed
            if before and (before.resource is not barrier or before.tag != barrier.phase - 1):
                return False
        for warp in warps:
            warp.resumed = None
            self._observe(warp, barrier)
            self.write(warp, _TRUE)
        return True

    def _each(self, warp: Warp, values: list[int], wanted: list[int]) -> Condition | None:
        """Lanes that wait for different objects or phases: tested one by one."""
        results: list[bool] = []
        missing: Condition | None = None
        for value, want in zip(values, wanted, strict=True):
            barrier = self._barrier(warp, value)
            phase = self._phase(warp, barrier, want)
            results.append(barrier.phase > phase)
            if results[-1]:
                self._observe(warp, barrier)
            else:
                missing = barrier.until(phase, again=False, timed=True)
        lanes = np.zeros(LANES, np.bool_)
        lanes[warp.active] = results
        self.write(warp, lanes)
        return missing

    def _barrier(self, warp: Warp, value: int) -> Mbarrier:
        block, offset = locate(warp, value, self.instruction, remote=False)
        return block.mbarrier(offset, self.instruction)

    def _phase(self, warp: Warp, barrier: Mbarrier, wanted: int) -> int:
        """The phase that is meant: the current or the preceding one of a parity, or a state's."""
        if not self.parity:
            phase = wanted >> STATE_PHASE
            self._recent(barrier, phase)
            return phase
        if wanted > 1:
            problem = f"phase parity {wanted}; it is 0 or 1, and machine code takes the lowest bit"
            machine = warp.machine
            machine.broken(self.instruction, "B9", problem, machine.switches.wide_parity)
            wanted &= 1
        return barrier.phase if barrier.phase & 1 == wanted else barrier.phase - 1

    def _recent(self, barrier: Mbarrier, phase: int) -> None:
        if barrier.phase > phase + 1:
            raise error(
                self.instruction,
                f"it waits for phase {phase} of the {barrier.title}, which has completed phase "
                f"{barrier.phase - 1} since; a waiter must not be two phases behind (rule B9)",
            )

    def _observe(self, warp: Warp, barrier: Mbarrier) -> None:
        phase = barrier.observe()
        machine = warp.machine
        if machine.tracking and phase >= 0:
            machine.tracker.wait(
                warp.number,
                barrier.key,
                phase,
                line=self.instruction.line,
                cluster=self.form.cluster,
                relaxed=self.form.relaxed,
            )
