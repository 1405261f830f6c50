"""Adds up the arrivals and bytes that each phase of a case gets."""

from __future__ import annotations

from schedgen.execution.describe import describe
from schedgen.execution.events import Case
from schedgen.findings import Claim, Finding
from schedgen.program.model import Barrier
from schedgen.proof.machine_conflicts import Setup


def count_findings(setup: Setup) -> list[Finding]:
    """One finding for each barrier whose phases do not get what they take."""
    case = setup.case
    found: list[Finding] = []
    for barrier in case.program.barriers:
        numbers = sorted(number for name, number in case.signals if name == barrier.name)
        wrong = ((number, _wrong(case, barrier, number)) for number in numbers)
        number, why = next(((n, why) for n, why in wrong if why), (0, ""))
        if why:
            text = f"{barrier.name} number {number}: {why}"
            lines = [describe(case, event) for event in case.signals[barrier.name, number]]
            witness = (f"trip counts {list(case.trips)}", *lines, f"=> {text}")
            found.append(Finding(Claim.COUNT, text, (barrier.name,), witness))
    return found


def _wrong(case: Case, barrier: Barrier, number: int) -> str:
    """What is wrong with one number of a barrier, '' if nothing."""
    signals = [case.events[event].signal for event in case.signals[barrier.name, number]]
    count = sum(signal.count for signal in signals if signal is not None)
    expect_tx = sum(signal.expect_tx for signal in signals if signal is not None)
    delivered = sum(signal.delivered for signal in signals if signal is not None)
    if number < 0:
        return "something arrives for a phase before the first"
    if number in barrier.skipped:
        return "something arrives for a phase that is completed when the barriers are set up"
    if count != barrier.arrivals:
        return f"{count} arrivals, but a phase takes {barrier.arrivals}"
    if expect_tx != barrier.bytes:
        return f"{expect_tx} bytes are expected, but a phase takes {barrier.bytes}"
    if delivered != barrier.bytes:
        return f"{delivered} bytes are copied, but a phase takes {barrier.bytes}"
    return ""
