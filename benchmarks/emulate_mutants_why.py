"""Why mutants that nothing shows are equivalent: reasons that were tried out, not guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from emulate_mutants_run import Campaign, Found, Hunt

from schedgen.emulator.machine.switches import InitFence, Verdict
from schedgen.emulator.mutate import Mutant, mutants
from schedgen.emulator.ptx.tree import Kernel

_NEAR = 6
"""Other instructions that are tried."""


@dataclass(frozen=True)
class Why:
    """``reason`` is empty if there is none: then it is a defect of the detector, or unknown."""

    reason: str = ""


def why(found: Found, hunt: Hunt) -> Why:
    """The reason that `ask` found."""
    return Why(hunt.answers.get(id(found), ""))


def ask(hunt: Hunt, campaign: Campaign) -> None:
    """Looks for reasons while a launch is there."""
    for found in hunt.all():
        if found.end == "undetected" and id(found) not in hunt.answers:
            reason = _reason(found.mutant, campaign)
            if reason:
                hunt.answers[id(found)] = reason


def _reason(mutant: Mutant, campaign: Campaign) -> str:
    switches = campaign.emulator.switches
    one_cta = campaign.launch.cluster == (1, 1, 1)
    if mutant.operator.startswith("M5") and one_cta:
        always = replace(switches, init_fence=InitFence.ALWAYS)
        if campaign.judge(mutant, always)[0] == "race":
            return "inside of a CTA its barrier publishes the init; reported with S11=always"
    if mutant.operator.startswith("M8"):
        strict = replace(switches, store_at_exit=Verdict.ERROR)
        if campaign.judge(mutant, strict)[0] == "race":
            return "only the exit of the CTA is left unordered; reported with S23=error"
        if _last(campaign.module.kernels[campaign.launch.kernel], mutant.instruction.line):
            return (
                "behind it is only the exit, where a wait_group.read already covers shared memory "
                "(clean with S23=error), and what is written is complete when the grid is"
            )
    kernel = campaign.module.kernels[campaign.launch.kernel]
    if mutant.operator.startswith("M1 ") and not any(
        one.opcode == "tcgen05" and one.modifiers[0] == "st" for one in kernel.body
    ):
        return "the kernel has no tcgen05.st: there is nothing to wait for"
    if mutant.operator.startswith("M13"):
        return "setmaxnreg.inc asks for what ptxas assigned: no instruction of the PTX needs it"
    return _twice(mutant, campaign)


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


def _twice(mutant: Mutant, campaign: Campaign) -> str:
    """Another instruction of the kind does the same: each may go, but not both."""
    kind = mutant.operator.replace(" of one less", " removed")
    if "removed" not in kind:
        return ""
    here = mutant.instruction.line
    kernel = campaign.module.kernels[campaign.launch.kernel]
    alone = {one.instruction.line: one for one in mutants(kernel) if one.operator == kind}
    without = alone.pop(here)
    both = {o.instruction.line: o for o in mutants(without.kernel) if o.operator == kind}
    near = sorted((line for line in alone if line in both), key=lambda line: abs(line - here))
    for line in near[:_NEAR]:
        if campaign.judge(alone[line])[0] != "undetected":
            continue
        if campaign.judge(both[line])[0] != "undetected":
            return f"line {line} does the same: each may go, without both there is a fault"
    return ""
