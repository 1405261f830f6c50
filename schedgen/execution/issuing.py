"""How long the warp that issues bulk copies is busy with each, and who brings them.

A load of the program may be several instructions: a copy for each panel of its rows, as swizzled
panels lie one behind the other in shared memory, and of a tile whose rows lie in pages for each
page. For every one CuTe DSL elects a thread, loads the address of its tensor map and moves both to
uniform registers, so that a copy takes the warp much longer than its instruction. No rule that
prices loads knows that, and no schedule depends on it; where an iteration has many copies, their
warp is what everybody waits for. Copies that follow each other are brought row by row: a row of a
panel takes a cycle at least, however short it is, and bytes come more slowly than those of a single
load.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import gcd

from schedgen.kernel import Kernel, Operation, Work
from schedgen.layouts import panel_bytes
from schedgen.machine import Machine
from schedgen.program.model import Arrive, Program, Run, Wait
from schedgen.program.operations import Engine, TileOperation

COPY = "copy_issue"
"""Constant: cycles for which a warp is busy with a bulk copy to shared memory that it issues; if it
does nothing else, what it waits and arrives in between goes on meanwhile. A model may lack it, as
the others.
"""
ROW, STREAM = "copy_row", "copy_per_kib"
"""Constants: cycles for each row of a panel, and for each KiB, of copies that follow each other."""
_LEAST_BYTES = 16
"""Of a row of a bulk tensor copy: shorter ones are those of a vector."""


def issued(program: Program, kernel: Kernel, machine: Machine) -> Program:
    """The program with loads that keep their role, and the unit that brings them, as long as
    ``machine`` says of their copies.
    """
    if not {COPY, ROW, STREAM} & set(machine.constant):
        return program
    each = machine.cycles(COPY) if COPY in machine.constant else 0
    by_name = {operation.name: operation for operation in kernel.operations}
    spared = _spared(program, machine)

    def longer(one: TileOperation) -> TileOperation:
        if one.engine is not Engine.COPY_IN or one.name not in by_name:
            return one
        load = by_name[one.name]
        least = each * copies(kernel, load) - spared.get(one.name, 0)
        hold = max(one.hold[0], least), max(one.hold[1], least)
        if not one.units:
            return replace(one, hold=hold)
        (engine, cycles), *rest = one.units  # of an engine the first one is its own
        brought = max(cycles, _brought(load, machine))
        return replace(one, hold=hold, units=((engine, brought), *rest))

    return replace(program, operations=tuple(map(longer, program.operations)))


def _brought(load: Operation, machine: Machine) -> int:
    """Cycles from copy to copy, if they follow each other, for all that a load consists of."""
    _, panel = _rows(load.work)
    amounts = ((ROW, -(-load.work.bytes // panel)), (STREAM, Fraction(load.work.bytes, 1024)))
    return max(
        round(amount * machine.value(constant)) if constant in machine.constant else 0
        for constant, amount in amounts
    )


def copies(kernel: Kernel, load: Operation) -> int:
    """Bulk copies that a load consists of."""
    rows, panel = _rows(load.work)
    panels = max(-(-load.work.bytes // (rows * panel)), 1)
    shape = next((a.shape for a in kernel.arguments if a.name == load.tensor), ())
    paged = (one.page_size for one in kernel.ragged if one.table and one.extent in shape)
    return panels * next((rows // gcd(rows, size) for size in paged), 1)


def _rows(work: Work) -> tuple[int, int]:
    """Rows of a panel and bytes of each; a vector is a row."""
    if work.rows == 1 or work.row_bytes < _LEAST_BYTES:
        return 1, max(work.bytes, 1)
    return work.rows, panel_bytes(work.row_bytes)


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
