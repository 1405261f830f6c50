"""What surrounds the step of an instruction: its guard, lanes that have to meet, who listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from schedgen.emulator.instructions.table import Execute
from schedgen.emulator.machine.conditions import Condition, Meeting
from schedgen.emulator.machine.elementwise import Elementwise
from schedgen.emulator.machine.lanes import Decoder, Read, error
from schedgen.emulator.machine.steps import Control, Run
from schedgen.emulator.machine.warp import NONE, ONES, Warp
from schedgen.emulator.ptx.tree import Instruction

Hear = Callable[[Warp, Instruction], Callable[[Condition | None], None]]
"""Called before a warp executes an instruction; what it returns afterwards, with the result."""
Watch = Callable[[Instruction, Decoder], Callable[[Warp], None] | None]


def noting(run: Callable[[Warp], Condition | None], held: set[int], line: int) -> Run:
    """Also notes that a lane executes it."""

    def noted(warp: Warp) -> Condition | None:
        held.add(line)
        return run(warp)

    return noted


def hearing(step: Execute | Control, hear: Hear, instruction: Instruction) -> Execute | Control:
    """Also tells who listens."""
    run = step.run if isinstance(step, Control | Elementwise) else step

    def heard(warp: Warp) -> Condition | None:
        after = hear(warp, instruction)
        condition = run(warp)
        after(condition)
        return condition

    if isinstance(step, Control):
        return Control(heard, step.guarded)
    return cast(Execute, heard)


def watching(step: Execute, look: Callable[[Warp], None] | None) -> Execute:
    """Also lets who watches look first."""
    if look is None:
        return step

    def watched(warp: Warp) -> None:
        look(warp)
        step(warp)

    return watched


def collective(instruction: Instruction) -> bool:
    if instruction.opcode in ("bar", "barrier"):
        return True
    return "sync" in instruction.modifiers or "aligned" in instruction.modifiers


def without_result(step: Execute) -> Run:
    def run(warp: Warp) -> Condition | None:
        step(warp)

    return run


def guarding(condition: Read, run: Callable[[Warp], Condition | None]) -> Run:
    """Executes only the lanes whose guard holds, and nothing when there are none."""

    def guarded(warp: Warp) -> Condition | None:
        mask = condition(warp)
        bits = mask.tobytes()
        if bits == NONE:
            return None
        full, active = warp.full, warp.active
        if full:
            if bits == ONES:
                return run(warp)
        else:
            mask = mask & active
            if mask.tobytes() == NONE:
                return None
        warp.active, warp.full = mask, False
        result = run(warp)
        warp.active, warp.full = active, full
        return result

    return guarded


def meet(instruction: Instruction, condition: Read | None, members: Read | None, run: Run) -> Run:
    """Waits for the lanes that must execute an instruction together; then executes it."""
    aligned = members is None

    def met(warp: Warp) -> Condition | None:
        if warp.full and condition is None:
            return run(warp)
        executing = warp.active
        if condition is not None:
            executing = condition(warp) & warp.active
            if not executing.any():
                return None
        needed = warp.alive
        if members is not None:
            mask = int(members(warp)[int(executing.argmax())])
            needed = needed & np.array([mask >> lane & 1 for lane in range(32)], np.bool_)
        if (needed & ~warp.active).any():
            return Meeting(needed)
        if (needed & ~executing).any():
            raise error(
                instruction,
                "the guard holds in some lanes only, but "
                + ("all lanes of the warp" if aligned else "all lanes of the member mask")
                + " must execute it (rule N4)",
            )
        return run(warp)

    return met
