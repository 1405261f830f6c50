"""Why mutants that nothing shows are equivalent: reasons that were tried out, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from emulate_mutants_run import Campaign

from schedgen.emulator.machine.switches import InitFence, Verdict
from schedgen.emulator.mutate import Mutant, mutants
from schedgen.emulator.ptx.tree import Kernel

Row = dict[str, Any]
VERSION = 2
"""Of what is tried; mutants for which an earlier version found nothing are examined again."""
_NEAR = 6
"""Other instructions that are tried."""


def explained(rows: Mapping[str, Sequence[Row]]) -> Callable[[Campaign, int], Row]:
    """Finds the reason for a mutant; ``rows`` say how all mutants of each kernel ended."""

    def why(campaign: Campaign, number: int) -> Row:
        own = rows[campaign.capture.name]
        undetected = {(row["operator"], row["line"]) for row in own if row["end"] == "undetected"}
        return {
            "kernel": campaign.capture.name, "version": campaign.capture.version, "number": number,
            "reason": _reason(campaign.mutants[number], campaign, undetected), "why": VERSION,
        }  # fmt: skip

    return why


def _reason(mutant: Mutant, campaign: Campaign, undetected: set[tuple[str, int]]) -> str:
    """Empty if there is none: then it is a defect of the detector, or unknown."""
    switches = campaign.capture.switches
    if mutant.operator.startswith("M5"):
        always = replace(switches, init_fence=InitFence.ALWAYS)
        if campaign.end(mutant, always).end == "race":
            return "inside of a CTA its barrier publishes the init; reported with S11=always"
    if mutant.operator.startswith("M8"):
        strict = replace(switches, store_at_exit=Verdict.ERROR)
        if campaign.end(mutant, strict).end == "race":
            return "only the exit of the CTA is left unordered; reported with S23=error"
        if _last(mutant.original, mutant.instruction.line):
            return (
                "behind it is only the exit, where a wait_group.read already covers shared memory "
                "(clean with S23=error), and what is written is complete when the grid is"
            )
    if mutant.operator.startswith("M1 ") and not any(
        one.opcode == "tcgen05" and one.modifiers[0] == "st" for one in mutant.kernel.body
    ):
        return "the kernel has no tcgen05.st: there is nothing to wait for"
    if mutant.operator.startswith("M13"):
        return "setmaxnreg.inc asks for what ptxas assigned: no instruction of the PTX needs it"
    return _twice(mutant, campaign, undetected)


def _last(kernel: Kernel, line: int) -> bool:
    """Whether nothing but jumps and the exit comes behind a line."""
    at = next(n for n, one in enumerate(kernel.body) if one.line == line) + 1
    for _ in kernel.body:
        one = kernel.body[at]
        if one.guard is not None:
            return False
        if one.opcode in ("ret", "exit"):
            return True
        if one.opcode != "bra":
            return False
        target = one.operands[0]
        at = kernel.labels[getattr(target, "name", "")]
    return False


def _twice(mutant: Mutant, campaign: Campaign, undetected: set[tuple[str, int]]) -> str:
    """Another instruction of the kind does the same: each may go, but not both."""
    kind = mutant.operator.replace(" of one less", " removed")
    here = mutant.instruction.line
    if "removed" not in kind or (kind, here) not in undetected:
        return ""
    alone = next(
        (o for o in mutants(mutant.original) if o.operator == kind and o.instruction.line == here),
        None,
    )
    if alone is None:
        return ""
    both = [o for o in mutants(alone.kernel) if (kind, o.instruction.line) in undetected]
    near = sorted(
        (o for o in both if o.operator == kind), key=lambda o: abs(o.instruction.line - here)
    )
    for one in near[:_NEAR]:
        if campaign.end(one).end not in ("undetected", "not executed"):
            line = one.instruction.line
            return f"line {line} does the same: each may go, without both there is a fault"
    return ""
