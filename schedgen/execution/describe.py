"""Tells a person what an event is."""

from __future__ import annotations

from schedgen.execution.events import AFTER, BEFORE, Case, Event, Signal
from schedgen.program.model import Arrive, Commit, Fence, Run, Wait, WaitGroup


def place(event: Event) -> str:
    """``role load, tile 0, iteration 2``."""
    where = {BEFORE: "before the loop", AFTER: "after the loop"}.get(
        event.section, f"iteration {event.instance.iteration}"
    )
    return f"role {event.role}, tile {event.instance.tile}, {where}"


def describe(case: Case, index: int) -> str:
    """``role load, tile 0, iteration 2: issues LA``."""
    event = case.events[index]
    return f"{place(event)}: {_deed(case, event)}"


def _deed(case: Case, event: Event) -> str:
    signal = event.signal
    about = "" if signal is None else number_of(case, signal)
    match event.action:
        case Run(operation) if event.kind == "completion":
            told = f", {signal.delivered} bytes for {about}" if signal is not None else ""
            return f"{operation} completes{told}"
        case Run(operation) if event.kind == "begin":
            return f"{operation} begins"
        case Run(operation):
            threads = not case.program.operation[operation].engine.asynchronous
            return f"{'runs' if threads else 'issues'} {operation}"
        case Wait():
            return f"waits for {about}"
        case Arrive(_, _, count, expected):
            told = f" and expects {expected} bytes" if expected else ""
            times = "" if count == 1 else f" {count} times"
            return f"arrives{times} for {about}{told}"
        case Commit(barrier, number):
            if event.kind == "arrival":
                return f"the commit arrives for {about}"
            return f"commits to {barrier} number {event.instance.number(number)}"
        case WaitGroup(operation, lag):
            return f"wait_groups {operation}" + (f" of {lag} iterations before" if lag else "")
        case Fence(kind):
            return f"fence {kind}"


def number_of(case: Case, signal: Signal) -> str:
    slot = signal.cell - case.cells[signal.barrier]
    return f"{signal.barrier} number {signal.number} (slot {slot})"
