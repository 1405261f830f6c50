"""Bulk copies and products beside the operations of a program."""

from __future__ import annotations

from schedgen.conform.actions import TURNED
from schedgen.conform.expected import Expected
from schedgen.conform.footprints import (
    COLUMN_BYTES,
    Footprint,
    inside,
    offset_in,
    partition,
    within,
)
from schedgen.conform.taking import Taker
from schedgen.conform.terms import Term
from schedgen.conform.trace import Event
from schedgen.conform.values import SHARED_ALIGNMENT, Array
from schedgen.kernel import Kind, Space
from schedgen.layouts import SCALE_BYTES, SCALE_LANES
from schedgen.program.model import Run
from schedgen.program.operations import Engine
from schedgen.sums import adds

_DESCRIPTOR_UNIT, _DESCRIPTOR_BITS = 16, 0x3FFF
"""Descriptors of shared memory have addresses in 16 bytes, in their lowest bits."""
COLUMN_BITS = 0xFFFF
"""Of an address in tensor memory; those above are the lane."""


class Runs(Taker):
    """Operations that the threads of a role only issue.

    ``expect_tx``: barriers with the conditions on which bytes were expected there. ``last``: the
    last iteration of each operation so far.
    """

    expect_tx: list[tuple[str, Term, bool]]
    last: dict[str, int]

    def run(self, one: Expected, action: Run) -> None:
        """All instructions of an operation, and the group that they are committed to."""
        engine = self.engine(action.operation)
        self.last[action.operation] = max(one.index, self.last.get(action.operation, one.index))
        if engine in (Engine.COPY_IN, Engine.COPY_OUT):
            self._copies(one, action, loads=engine is Engine.COPY_IN)
        else:
            self._products(one, action, engine)
        if engine in (Engine.COPY_OUT, Engine.WGMMA):
            kind = "close products" if engine is Engine.WGMMA else "close copies"
            self.groups[kind].open.add((action.operation, one.index))
            if self.at == len(self.events) or self.events[self.at].action.kind != kind:
                event = self.events[self.at] if self.at < len(self.events) else None
                self.differ("its group is not committed behind it", one.text, event)

    def _copies(self, one: Expected, action: Run, *, loads: bool) -> None:
        """Bulk copies of one tile: together they make it up, each in the slot of its number."""
        assert self.case is not None
        operation = self.footprints.plan.operation(action.operation)
        kind = "load" if loads else "add" if adds(operation) else "store"
        footprints = [p for p in self.footprints_of(one, action) if p.write == loads]
        # Pieces that lie beside each other in a panel are swizzled together, and have its bytes.
        parts = list(dict.fromkeys(part for one in footprints for part in one.parts))
        found: list[int] = []
        while True:
            event = self.take(kind, one.text)
            found.append(self._copied(one, action, event, footprints))
            if len(set(found)) < len(found) or not self._another(kind, footprints):
                break
        for entry in self._asked(action)[:1]:
            self.expect_tx.remove(entry)
        if not partition(parts, found, min(footprint.panel for footprint in footprints)):
            self.differ("copies are missing, or there are too many", one.text, event)

    def _another(self, kind: str, footprints: list[Footprint]) -> bool:
        """Whether the next event copies another part of the same tile."""
        if self.at == len(self.events) or self.events[self.at].action.kind != kind:
            return False
        event = self.events[self.at]
        address = event.action.address
        value = None if address is None else event.env.value(address)
        if value is None or value.modulus:
            return False
        return any(self._part(footprint, value.array) is not None for footprint in footprints)

    def _part(self, footprint: Footprint, at: Array) -> int | None:
        """Where in a slot a copy begins, if it does so within the parts of a footprint."""
        offset = offset_in(footprint, at)
        if offset is None or not any(a <= offset < b for a, b in footprint.parts):
            return None
        return offset

    def _copied(self, one: Expected, action: Run, event: Event, footprints: list[Footprint]) -> int:
        when = self.footprints.plan.operation(action.operation).when is not None
        loads = action.barrier is not None
        self.who(event, "one" if loads else "any", one.text, when=when)
        if when and not event.conditions:
            self.differ("it does not hang on the condition of its operation", one.text, event)
        if loads:
            self._expect_tx(one, action, event)
        value = self.known(event, event.action.address, one.text)
        offsets = [self._part(footprint, value.array) for footprint in footprints]
        offset = next((found for found in offsets if found is not None), None)
        if value.shared != SHARED_ALIGNMENT or offset is None:
            self.differ("it is not in the slot of its number", one.text, event)
        if action.barrier is not None and action.number is not None:
            assert self.case is not None
            at, _ = self.footprints.barrier(action.barrier, action.number, self.case, one.iteration)
            self.address(event, event.action.values[0], at, one.text)
        return offset

    def _expect_tx(self, one: Expected, action: Run, event: Event) -> None:
        """Each copy of a load needs that the same conditions were asked for its bytes."""
        if event.conditions != tuple(entry[1:] for entry in self._asked(action)[:1]):
            self.differ("its bytes are expected on another condition", one.text, event)

    def _asked(self, action: Run) -> list[tuple[str, Term, bool]]:
        """Conditions on which bytes were expected where a load arrives, in their order."""
        return [entry for entry in self.expect_tx if entry[0] == action.barrier]

    def _products(self, one: Expected, action: Run, engine: Engine) -> None:
        """All steps of a product along k."""
        operation = self.footprints.plan.operation(action.operation)
        if operation.kind is Kind.COPY:
            self._factors(one)
            return
        for number in range(self.footprints.steps(operation)):
            kind = "wgmma" if engine is Engine.WGMMA else "mma"
            event = self.take(kind, one.text)
            self.who(event, "all" if kind == "wgmma" else "one", one.text)
            a, b, adds, form, *factors = event.action.values
            self._operand(one, event, a, "a")
            self._operand(one, event, b, "b")
            self._turned(one, event, form)
            if bool(factors) is not operation.scaled:
                self.differ("it has factors, or has none", one.text, event)
            for term, operand in zip(factors, ("scale_a", "scale_b"), strict=False):
                self._operand(one, event, term, operand)
            if kind == "mma":
                self._result(one, event)
            self._adds(one, event, adds, number)

    def _factors(self, one: Expected) -> None:
        """Copies from shared to tensor memory, which one thread issues: groups of lanes side by
        side, one of each part and then the next ones.
        """
        assert isinstance(one.step.action, Run)
        plan = self.footprints.plan
        operation = plan.operation(one.step.action.operation)
        source, to = (plan.part(operation, operand) for operand in ("from", "to"))
        groups, parts = source.rows // SCALE_LANES, operation.interleave
        for group in range(groups):
            event = self.take("factors", one.text)
            self.who(event, "one", one.text)
            first = group % parts * (groups // parts) + group // parts
            begins = (source.row0 + SCALE_LANES * first) * SCALE_BYTES
            column = (to.column0 + SCALE_BYTES * group) // COLUMN_BYTES
            (term,) = event.action.values
            self._group(one, event, term, "from", begins)
            self._group(one, event, event.action.address, "to", column)

    def _group(
        self, one: Expected, event: Event, term: Term | None, operand: str, offset: int
    ) -> None:
        """An operand of a copy of factors begins there in its slot."""
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        operation = self.footprints.plan.operation(one.step.action.operation)
        footprint = self.footprints.operand(operation, operand, self.case, one.iteration)[0]
        if offset_in(footprint, self._lies_at(one, event, term, footprint, operand)) != offset:
            self.differ(f"'{operand}' is another group of lanes", one.text, event)

    def _lies_at(
        self, one: Expected, event: Event, term: Term | None, footprint: Footprint, operand: str
    ) -> Array:
        """The byte that a descriptor means, or the column of an address in tensor memory."""
        value = self.known(event, term, one.text)
        if footprint.space is not Space.SMEM:
            return value.array & COLUMN_BITS
        if value.shared != SHARED_ALIGNMENT // _DESCRIPTOR_UNIT:
            self.differ(f"'{operand}' is not in shared memory", one.text, event)
        return (value.array & _DESCRIPTOR_BITS) * _DESCRIPTOR_UNIT

    def _operand(self, one: Expected, event: Event, term: Term, operand: str) -> None:
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        operation = self.footprints.plan.operation(one.step.action.operation)
        footprints = self.footprints.operand(operation, operand, self.case, one.iteration)
        if not footprints:
            return
        at = self._lies_at(one, event, term, footprints[0], operand)
        if not any(within(footprint, at) for footprint in footprints):
            self.differ(f"'{operand}' is not in the slot of its number", one.text, event)

    def _turned(self, one: Expected, event: Event, form: Term) -> None:
        """Both operands are read along the extents that their rows lie along."""
        assert isinstance(one.step.action, Run)
        operation = self.footprints.plan.operation(one.step.action.operation)
        bits = self.known(event, form, one.text).array
        wanted = {"a": operation.transpose_a, "b": not operation.transpose_b}
        for operand, turned in wanted.items():
            if not bool((bits >> TURNED[operand] & 1 == turned).all()):
                self.differ(f"'{operand}' is read the other way round", one.text, event)

    def _result(self, one: Expected, event: Event) -> None:
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        operation = self.footprints.plan.operation(one.step.action.operation)
        value = self.known(event, event.action.address, one.text)
        footprints = self.footprints.operand(operation, "d", self.case, one.iteration)
        if not any(inside(footprint, value.array & COLUMN_BITS) for footprint in footprints):
            self.differ("its result is not in the slot of its number", one.text, event)

    def _adds(self, one: Expected, event: Event, term: Term, number: int) -> None:
        """Whether it adds to what is there: not in the first step of a product of its own."""
        assert self.case is not None
        assert isinstance(one.step.action, Run)
        name = one.step.action.operation
        operation = self.footprints.plan.operation(name)
        wanted = bool(number) or operation.accumulate
        if not number and operation.accumulate and event.action.kind == "mma":
            first = max(
                (
                    a.initial
                    for a in self.footprints.program.operation[name].accesses
                    if not a.write
                ),
                default=0,
            )
            wanted = one.iteration is None or not (
                not one.iteration.base and one.iteration.offset < first
            )
        if event.env.decide(term) is not wanted:
            what = "does not add" if wanted else "adds"
            self.differ(f"it {what} to its result", one.text, event)
