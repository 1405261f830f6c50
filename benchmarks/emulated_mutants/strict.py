"""Instructions that do nothing but order: is all that conflicts ordered without them?

A fence, or a wait for what the thread itself has issued, is not seen by other threads: without it
the same things happen, and the race checker says of a run whether they are ordered in whatever
order they come. So a run without it and without a fault is an argument for the launch. It is made
under the strictest readings of the ISA under which the kernel itself has no fault, not only under
those of the campaign: what these report is needed by somebody who reads the ISA like that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emulated_mutants.run import Campaign, End

from schedgen.benchmarks.mutants.kernels import Mutant
from schedgen.emulator.machine.switches import (
    AsyncScope,
    BulkClause,
    CommitOrder,
    EarlyStart,
    InitFence,
    ProductOrder,
    ReadRead,
    RemoteScope,
    Switches,
    TensorFences,
    UnwaitedLoad,
    Verdict,
    label,
)

ORDERS = ("M1 ", "M2/", "M3 ", "M5 ", "M6 ", "M8 ", "fence::", "wgmma.wait")
"""Operators that remove, weaken or move an instruction that only orders."""
GROUPS = "M8", "bulk commit"
"""Operators about groups of bulk copies."""
READINGS: tuple[tuple[str | tuple[str, ...], str, dict[str, Any], str], ...] = (
    (
        "M5", "S11=always", {"init_fence": InitFence.ALWAYS},
        "inside of a CTA its barrier publishes the init",
    ),
    (
        "M3", "S10=error", {"unwaited_load": UnwaitedLoad.ERROR},
        "all registers of the load are read before the memory is given away",
    ),
    (
        "fence::", "S20=required", {"tensor_fences": TensorFences.REQUIRED},
        "a release and an acquire order tensor memory too",
    ),
    (
        GROUPS, "S23=error", {"store_at_exit": Verdict.ERROR},
        "only the exit of the CTA is left unordered",
    ),
    (
        "L1", "S25=any", {"early_start": EarlyStart.ANY},
        "no launch stands in front that lets this one begin early",
    ),
)  # fmt: skip
"""Operators, another reading of the ISA, and why the default one does not need what they change."""
_STRICT = {
    "async_scope": AsyncScope.STRICT,
    "bulk_clause": BulkClause.LITERAL,
    "commit_order": CommitOrder.TCGEN05_ONLY,
    "unwaited_load": UnwaitedLoad.ERROR,
    "init_fence": InitFence.ALWAYS,
    "read_read": ReadRead.FENCE_REQUIRED,
    "tensor_fences": TensorFences.REQUIRED,
    "remote_scope": RemoteScope.AS_WRITTEN,
    "product_order": ProductOrder.ACCUMULATOR,
    "store_at_exit": Verdict.ERROR,
}
"""Readings that ask for more than others."""
_ONCE = (0,)


class Strict:
    """Judges mutants of the kernels of one capture under strict readings."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._known: dict[str, tuple[Switches, tuple[str, ...]]] = {}

    def reason(self, mutant: Mutant) -> str:
        """Why nothing needs an instruction that only orders; empty if something does."""
        if not mutant.operator.startswith(ORDERS):
            return ""
        switches, names = self.readings(mutant)
        end = self._campaign.end(mutant, switches, _ONCE)
        if end.end == "undetected":
            also = f" (strict in {', '.join(names)})" if names else ""
            return (
                "it only orders, and without it all that conflicts is ordered, whatever comes "
                f"first{also}"
            )
        own = self._campaign.capture.switches
        if not names or self._end(mutant, own).end != "undetected":
            return ""
        return f"needed under stricter readings only; reported with {', '.join(names)}"

    def readings(self, mutant: Mutant) -> tuple[Switches, tuple[str, ...]]:
        """The strictest readings under which the kernel of a mutant has no fault, and what differs
        from those of the campaign."""
        name = mutant.original.name
        if name not in self._known:
            itself = replace(mutant, kernel=mutant.original, operator="none")
            switches = self._campaign.capture.switches
            names: list[str] = []
            for field, value in _STRICT.items():
                if getattr(switches, field) == value:
                    continue
                more = replace(switches, **{field: value})
                if self._end(itself, more).end == "undetected":
                    switches = more
                    names.append(label(field).partition(" ")[0])
            self._known[name] = switches, tuple(names)
        return self._known[name]

    def _end(self, mutant: Mutant, switches: Switches) -> End:
        return self._campaign.end(mutant, switches, _ONCE)
