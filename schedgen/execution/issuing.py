"""How long the warp that issues bulk copies is busy with each.

A load of the program may be several instructions: a copy for each panel of its rows, as swizzled
panels lie one behind the other in shared memory, and of a tile whose rows lie in pages for each
page. For every one CuTe DSL elects a thread, loads the address of its tensor map and moves both to
uniform registers, so that a copy takes the warp much longer than its instruction. No rule that
prices loads knows that, and no schedule depends on it; where an iteration has many copies, their
warp is what everybody waits for.
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.kernel import Kernel, Operation
from schedgen.layouts import panel_bytes
from schedgen.machine import Machine
from schedgen.program.model import Arrive, Program, Run, Wait
from schedgen.program.operations import Engine, TileOperation

COPY = "copy_issue"
"""Constant: cycles for which a warp is busy with a bulk copy to shared memory that it issues; if it
does nothing else, what it waits and arrives in between goes on meanwhile. A model may lack it.
"""


def issued(program: Program, kernel: Kernel, machine: Machine) -> Program:
    """The program with loads that keep their role as long as ``machine`` says of their copies."""
    if COPY not in machine.constant:
        return program
    each = machine.cycles(COPY)
    by_name = {operation.name: operation for operation in kernel.operations}
    spared = _spared(program, machine)

    def longer(one: TileOperation) -> TileOperation:
        if one.engine is not Engine.COPY_IN or one.name not in by_name:
            return one
        least = each * copies(kernel, by_name[one.name]) - spared.get(one.name, 0)
        return replace(one, hold=(max(one.hold[0], least), max(one.hold[1], least)))

    return replace(program, operations=tuple(map(longer, program.operations)))


def copies(kernel: Kernel, load: Operation) -> int:
    """Bulk copies that a load consists of."""
    work = load.work
    panels = -(-work.row_bytes // panel_bytes(work.row_bytes))
    shape = next((a.shape for a in kernel.arguments if a.name == load.tensor), ())
    paged = (one.page_size for one in kernel.ragged if one.table and one.extent in shape)
    return panels * next((-(-work.rows // size) for size in paged), 1)


def _spared(program: Program, machine: Machine) -> dict[str, int]:
    """Of the loads of roles that only load in their loops: each one's share of the cycles that
    waits and arrivals take there.
    """
    found: dict[str, int] = {}
    for role in program.roles:
        actions = [step.action for step in role.loop]
        loads = [action.operation for action in actions if isinstance(action, Run)]
        if loads and all(program.operation[name].engine is Engine.COPY_IN for name in loads):
            around = machine.cycles("wait") * sum(isinstance(a, Wait) for a in actions)
            around += machine.cycles("arrive") * sum(isinstance(a, Arrive) for a in actions)
            found |= dict.fromkeys(loads, around // len(loads))
    return found
