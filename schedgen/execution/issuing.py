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
from schedgen.program.model import Program, Run
from schedgen.program.operations import Engine, TileOperation

COPY = "copy_issue"
"""Constant: cycles for which a warp is busy with a bulk copy to shared memory that it issues, with
its waits and arrivals in between. A machine model may lack it.
"""


def issued(program: Program, kernel: Kernel, machine: Machine) -> Program:
    """The program with loads that keep their role as long as ``machine`` says of their copies."""
    if COPY not in machine.constant:
        return program
    each = machine.cycles(COPY)
    by_name = {operation.name: operation for operation in kernel.operations}

    def longer(one: TileOperation) -> TileOperation:
        if one.engine is not Engine.COPY_IN or one.name not in by_name:
            return one
        least = round(each * copies(kernel, by_name[one.name]))
        return replace(one, hold=(max(one.hold[0], least), max(one.hold[1], least)))

    return replace(program, operations=tuple(map(longer, program.operations)))


def copies(kernel: Kernel, load: Operation) -> int:
    """Bulk copies that a load consists of."""
    work = load.work
    panels = -(-work.row_bytes // panel_bytes(work.row_bytes))
    shape = next((a.shape for a in kernel.arguments if a.name == load.tensor), ())
    paged = (one.page_size for one in kernel.ragged if one.table and one.extent in shape)
    return panels * next((-(-work.rows // size) for size in paged), 1)


def copying(program: Program, machine: Machine) -> set[str]:
    """Roles whose loops do nothing but load: what `COPY` says includes their waits and arrivals."""
    if COPY not in machine.constant:
        return set()
    found = set[str]()
    for role in program.roles:
        runs = [s.action.operation for s in role.loop if isinstance(s.action, Run)]
        if runs and all(program.operation[name].engine is Engine.COPY_IN for name in runs):
            found.add(role.name)
    return found
