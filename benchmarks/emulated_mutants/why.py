"""Why mutants that nothing shows are equivalent: reasons that were tried out, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from emulate_capture_file import Run
from emulated_mutants.deaf import Deaf, superfluous_order
from emulated_mutants.fences import untouched
from emulated_mutants.machine_code import nothing
from emulated_mutants.observe import BEHIND, Seen, both, observed
from emulated_mutants.paths import last, superfluous
from emulated_mutants.run import SEEDS, Campaign, End
from emulated_mutants.settled import same_phases, settled
from emulated_mutants.strict import GROUPS, READINGS, Strict

from schedgen.benchmarks.mutants.kernels import Mutant, mutants
from schedgen.emulator.launch.recording import Replay
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.switches import EarlyStart, Switches, Verdict
from schedgen.emulator.ptx.tree import Kernel

Row = dict[str, Any]
VERSION, HOLDS = 11, 6
"""Of what is tried; mutants for which an earlier version found nothing are examined again. Reasons
hold that this version or a later one found."""
_ARRIVES = (
    *("arrive removed", "commit removed", "M12 arrive on the next barrier"),
    *("arrive.expect_tx removed", "M14 twice the bytes", "M14 half the bytes"),
    "M12 commit to the next barrier",
)
"""Operators that change how one phase of an mbarrier completes."""
_NEAR = 3
"""Other instructions that are tried."""
_TELLS = ("M10", "M12 wait", "M15", "M7 ", "M19", "M7/M19 barrier.cluster.wait")
_ONCE = (0,)
"""Seeds of runs that are looked at: what is told depends little on the order."""


def explained(rows: Mapping[str, Sequence[Row]]) -> Callable[[Campaign, int], Row]:
    """Finds the reason for a mutant; ``rows`` say how all mutants of each kernel ended."""
    kernels: dict[str, _Reasons] = {}

    def why(campaign: Campaign, number: int) -> Row:
        name = campaign.capture.name
        if name not in kernels:
            kernels.clear()  # one capture at a time
            kernels[name] = _Reasons(campaign, rows[name])
        return {
            "kernel": name, "version": campaign.capture.version, "number": number,
            "reason": kernels[name].reason(campaign.mutants[number]), "why": VERSION,
        }  # fmt: skip

    return why


def _programmatic(run: Run) -> bool:
    return Replay(run.recording).launch.programmatic


class _Reasons:
    """The undetected mutants of one capture, and what is known of the kernel itself."""

    def __init__(self, campaign: Campaign, rows: Sequence[Row]) -> None:
        self._campaign = campaign
        self._undetected = {
            (row["operator"], row["line"]) for row in rows if row["end"] == "undetected"
        }
        self._silent: dict[tuple[int, int, Switches], bool] = {}
        self._seen: dict[str, Seen] = {}
        self._ends: dict[tuple[int, Switches], End] = {}
        self._strict = Strict(campaign)

    def reason(self, mutant: Mutant) -> str:
        """Empty if there is none: then it is a defect of the detector, or unknown."""
        line, operator = mutant.instruction.line, mutant.operator
        if "warp" in mutant.instruction.modifiers:
            recording = self._campaign.capture.runs[0].recording
            return nothing(recording.ptx, recording.target.name, line)
        if said := superfluous(mutant.original, operator, line):
            return said
        if operator.startswith("M13") and "inc" in mutant.instruction.modifiers:
            return "setmaxnreg.inc asks for what ptxas assigned: no instruction of the PTX needs it"
        if operator.startswith("L1") and "launch_dependents" in operator:
            return "the next launch begins when this one has ended, at the latest"
        return (
            self._read(mutant)
            or self._begins_late(mutant)
            or self._exit(mutant)
            or self._observed(mutant)
            or self._waits(mutant)
            or self._deaf(mutant)
            or self._settled(mutant)
            or self._fence(mutant)
            or self._twice(mutant)
            or self._strict.reason(mutant)
        )

    # -- readings of the ISA --------------------------------------------------------------------

    def _read(self, mutant: Mutant) -> str:
        """Another reading of the ISA, under which the kernel itself is silent, needs it."""
        own = self._campaign.capture.switches
        for operators, switch, reading, why in READINGS:
            strict = replace(own, **reading)
            if strict == own or not mutant.operator.startswith(operators):
                continue
            end = self._end(mutant, strict)
            if end.end == "race" and self._quiet(mutant, strict, end):
                return f"{why}; reported with {switch}"
        return ""

    def _end(self, mutant: Mutant, switches: Switches) -> End:
        """How a mutant ends; of two that remove the same wait, the first one counts."""
        key = id(mutant) if "M8" not in mutant.operator else -mutant.instruction.line, switches
        if key not in self._ends or mutant.operator == "M8 bulk wait_group removed":
            self._ends[key] = self._campaign.end(mutant, switches, _ONCE)
        return self._ends[key]

    def _quiet(self, mutant: Mutant, switches: Switches, end: End) -> bool:
        """Whether the kernel itself has no fault under other readings where a mutant has one."""
        key = end.launch, end.seed, switches
        if key not in self._silent:
            itself = replace(mutant, kernel=mutant.original, operator="none")
            again = self._campaign.judge(end.launch, itself, switches, (end.seed,))
            self._silent[key] = again.end == "undetected"
        return self._silent[key]

    def _exit(self, mutant: Mutant) -> str:
        own = self._campaign.capture.switches
        if not mutant.operator.startswith(GROUPS):
            return ""
        if not last(mutant.original, mutant.instruction.line):
            return ""
        if self._end(mutant, replace(own, store_at_exit=Verdict.ERROR)).end != "undetected":
            return ""
        return (
            "behind it is only the exit, where a wait_group.read already covers shared memory "
            "(clean with S23=error), and what is written is complete when the grid is"
        )

    # -- what is told ---------------------------------------------------------------------------

    def _kernel(self, kernel: Kernel) -> Seen:
        """What the kernel itself does, in all launches of the campaign."""
        if kernel.name not in self._seen:
            numbers = [n for n, one in enumerate(self._campaign.kernels) if one.name == kernel.name]
            self._seen[kernel.name] = observed(self._campaign, kernel, numbers, _ONCE)
        return self._seen[kernel.name]

    def _observed(self, mutant: Mutant) -> str:
        """Mbarriers whose phases nobody waits for."""
        line, operator = mutant.instruction.line, mutant.operator
        if operator.startswith("M11 init"):
            seen = self._kernel(mutant.original)
            objects = dict.fromkeys(seen.inits.get(line, ()), 0)
        elif operator in _ARRIVES:
            seen = self._kernel(mutant.original)
            objects = seen.arrivals.get(line, {})
        else:
            return ""
        if objects and seen.unobserved(objects):
            return "no wait is for a phase of the mbarrier that it concerns, from there on"
        return ""

    def _waits(self, mutant: Mutant) -> str:
        """Waits that tell nothing new, and waits in place of others that tell as much."""
        line, operator = mutant.instruction.line, mutant.operator
        wait = mutant.instruction.opcode == "mbarrier" and operator.startswith(
            ("M10", "M12 wait", "M15")
        )
        barrier = mutant.instruction.opcode in ("bar", "barrier")
        if not wait and not barrier:
            return ""
        seen = self._kernel(mutant.original)
        if seen.waits.get(line) is False:
            return "what it tells is always known to those who wait: it orders nothing more"
        if wait and line in seen.waits and line not in seen.used:
            return (
                "behind it the warp does nothing that it could order before a barrier, which tells "
                "the same without it, or its end"
            )
        if operator.startswith("M12 wait"):
            return self._instead(mutant)
        if operator == "M12 other barrier":
            numbers = self._campaign.launches(mutant)
            one = self._try(mutant.original, numbers)
            other = self._try(mutant.kernel, numbers)
            if one and other and one.groups == other.groups:
                return "the same warps meet there, under another number of the barrier"
            if one and other:
                return self._turns(mutant, one, other)
        return ""

    def _turns(self, mutant: Mutant, one: Seen, other: Seen) -> str:
        """Barriers that order nothing but who goes first: nobody needs what they tell."""
        groups = {**one.groups, **other.groups}
        own = [{line for _, line in group} for group in groups]
        lines = {line for meets in own if mutant.instruction.line in meets for line in meets}
        deaf = Deaf(frozenset(lines))
        if not superfluous_order(
            self._campaign, mutant.kernel, deaf, self._campaign.launches(mutant), SEEDS
        ):
            return ""
        return "nobody needs what the barriers there tell: only who goes first is another one"

    def _begins_late(self, mutant: Mutant) -> str:
        """Launches that never begin while the one before them still runs, or would not mind."""
        capture = self._campaign.capture
        if not mutant.operator.startswith("L1"):
            return ""
        if not any(map(_programmatic, capture.runs)):
            return "no launch may begin before the kernel before it has ended"
        strict = replace(capture.switches, early_start=EarlyStart.ANY)
        if self._end(mutant, strict).end != "undetected":
            return ""
        return "nothing that follows it needs it, whatever stands in front (clean with S25=any)"

    def _deaf(self, mutant: Mutant) -> str:
        """Waits and barriers that nothing needs, however little is known besides. Those that wait
        for something else instead were also executed as late as can be (`TARGETED` schedules), so
        that they end: what they wait for is so when nothing else can happen any more."""
        operator, one = mutant.operator, mutant.instruction
        if not operator.startswith(_TELLS):
            return ""
        absent = operator != "M15 sync made arrive"
        deaf = Deaf(frozenset((one.line,)), absent)
        return superfluous_order(
            self._campaign, mutant.original, deaf, self._campaign.launches(mutant)
        )

    def _settled(self, mutant: Mutant) -> str:
        """Tests and waits whose outcome does not depend on when they are made."""
        numbers = self._campaign.launches(mutant)
        if mutant.operator.startswith("M10"):
            return settled(self._campaign, mutant, numbers)
        if mutant.operator.startswith("M12 wait"):
            return same_phases(self._campaign, mutant, numbers)
        return ""

    def _fence(self, mutant: Mutant) -> str:
        """Fences of registers between products that follow each other."""
        if mutant.operator != "wgmma.fence removed":
            return ""
        return untouched(self._campaign, mutant, self._campaign.launches(mutant))

    def _instead(self, mutant: Mutant) -> str:
        """Whether a wait is for nothing behind the one for the next mbarrier."""
        kernel = both(mutant)
        seen = kernel and self._try(kernel, self._campaign.launches(mutant))
        if seen and seen.waits.get(mutant.instruction.line + BEHIND) is False:
            return "the wait for the next mbarrier tells all that this one would tell"
        return ""

    def _try(self, kernel: Kernel, numbers: Sequence[int]) -> Seen | None:
        try:
            return observed(self._campaign, kernel, numbers, _ONCE)
        except EmulationError:
            return None

    # -- pairs ----------------------------------------------------------------------------------

    @cached_property
    def _singles(self) -> dict[tuple[str, int], Mutant]:
        return {(one.operator, one.instruction.line): one for one in self._campaign.mutants}

    def _twice(self, mutant: Mutant) -> str:
        """Another instruction of the kind does the same: each may go, but not both."""
        kind = mutant.operator.replace(" of one less", " removed")
        kind = kind.replace("M6 proxy fence behind the barrier", "M2/M4 proxy fence removed")
        here = mutant.instruction.line
        if "removed" not in kind or (kind, here) not in self._undetected:
            return ""
        alone = self._singles.get((kind, here))
        if alone is None:
            return ""
        both = [o for o in mutants(alone.kernel) if (kind, o.instruction.line) in self._undetected]
        near = sorted(
            (o for o in both if o.operator == kind), key=lambda o: abs(o.instruction.line - here)
        )
        for one in near[:_NEAR]:
            if self._campaign.end(one, None, _ONCE).end not in ("undetected", "not executed"):
                line = one.instruction.line
                return f"line {line} does the same: each may go, without both there is a fault"
        return ""
