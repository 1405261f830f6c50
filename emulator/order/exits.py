"""What may still touch the shared memory of a CTA after its threads have exited."""

from __future__ import annotations

import numpy as np

from schedgen.emulator.machine.switches import Verdict, label
from schedgen.emulator.order.accesses import Accesses
from schedgen.emulator.order.agents import Kind
from schedgen.emulator.order.arrivals import Mbarriers
from schedgen.emulator.order.findings import Access, Defect, Flaw, Severity
from schedgen.emulator.order.knowledge import CAUSAL, Message, Rows, joined
from schedgen.emulator.order.mbarriers import Barrier
from schedgen.emulator.order.needs import EXIT
from schedgen.emulator.order.records import Origin, Record
from schedgen.emulator.order.shadow import Layer
from schedgen.emulator.order.state import State
from schedgen.emulator.order.tracker import Cells, Proxy, Space
from schedgen.emulator.order.warps import Warp

_BYTES = 8  # of an mbarrier object


class Exits:
    """Looks at the end of a launch: whatever touches the shared memory or the mbarriers of a CTA
    has to be known to be over by one of its warps. A bulk store that nobody waited for reads memory
    that is another CTA's by then; so does an arrive of another CTA of the cluster write (N9)."""

    def __init__(self, state: State, accesses: Accesses, mbarriers: Mbarriers) -> None:
        self._state = state
        self._accesses = accesses
        self._mbarriers = mbarriers

    def check(self) -> None:
        """Reports accesses of all CTAs' shared memory that their exit is not ordered after."""
        views = self._views()
        for cta, shadow in self._state.memory.shared.items():
            if (view := views.get(cta)) is None:
                continue
            for layer, number in shadow.everything():
                record = self._state.records.get(number)
                agent = record.agent
                if not view.knows(CAUSAL, agent.cluster, agent.column, record.clock):
                    self._access(cta, view, layer, record)
        for barrier in self._mbarriers.all():
            if (view := views.get(barrier.cta)) is not None:
                self._barrier(barrier, view)

    def _views(self) -> dict[int, Message]:
        """By CTA, what its warps knew together when they exited."""
        rows: dict[int, Rows] = {}
        for warp in self._state.warps.values():
            known = rows.get(warp.cta)
            rows[warp.cta] = warp.rows if known is None else joined(known, warp.rows)
        return {cta: Message(self._state.cluster(cta).number, one) for cta, one in rows.items()}

    def _access(self, cta: int, view: Message, layer: Layer, record: Record) -> None:
        agent = record.agent
        warp = self._last(cta, record.origin.warp)
        origin = Origin(warp.number, cta, EXIT, 0, warp.clock, None)
        number = len(self._state.records)
        exit_ = Record(number, warp.agent, warp.clock, origin, 0)
        store = agent.kind is Kind.BULK_READ
        verdict = self._state.switches.store_at_exit if store else Verdict.ERROR
        if verdict is Verdict.OFF:
            return
        severity = Severity.ERROR if verdict is Verdict.ERROR else Severity.WARNING
        need = self._accesses.explain.need(record, exit_, view, Space.SHARED, number)
        cells = Cells(Space.SHARED, cta, slice(0, 0))
        touched = self._state.memory.where(layer, record.number)
        self._state.findings.add(Defect(
            Flaw.OUTLIVES, Space.SHARED, cta, self._accesses.side(record, cells),
            int(touched.min()), int(touched.max()), int(np.unique(touched).size),
            need.text, "N9", label("store_at_exit") if store else need.switch, severity,
        ))  # fmt: skip

    def _barrier(self, barrier: Barrier, view: Message) -> None:
        for number, (clock, line) in barrier.uses.items():
            user = self._state.warps[number]
            if not view.knows(CAUSAL, user.cluster.number, user.agent.column, clock):
                self._late(barrier, number, line, "barrier.cluster, or a wait for its phase,")
        phase, number, line = barrier.remote
        observed = barrier.observed
        if not view.knows(CAUSAL, observed.cluster, observed.column, phase):
            # That the products are complete does not say that the arrive has been performed.
            self._late(barrier, number, line, f"a wait for phase {phase - 1}")

    def _late(self, barrier: Barrier, number: int, line: int, what: str) -> None:
        cta, offset = barrier.key
        access = _use(self._state.warps[number], line)
        self._state.findings.add(Defect(
            Flaw.OUTLIVES, Space.SHARED, cta, access, offset, offset + _BYTES - 1, _BYTES,
            f"{what} in CTA {cta} before it exits", "N9",
        ))  # fmt: skip

    def _last(self, cta: int, issuer: int) -> Warp:
        """The issuer, if it belongs to the CTA; else any of its warps."""
        own = [warp for warp in self._state.warps.values() if warp.cta == cta]
        return next((warp for warp in own if warp.number == issuer), own[0])


def _use(warp: Warp, line: int) -> Access:
    return Access(
        warp.number, warp.cta, line, 0, Proxy.GENERIC, None, False, True, "arrives"
    )  # fmt: skip
