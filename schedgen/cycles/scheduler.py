"""One scheduler of an SM: which instruction its units can take when, and what tensor cores do
meanwhile.

Tensor cores take products in the order in which they are issued, whoever issues them, and at most
some at a time: a warp waits before one that there is no room for. They share the register file with
other instructions, and shared memory. While they work and warps compute, the scheduler stands still
for a share of all cycles: nothing is issued, and stalls that the assembler wrote do not go on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf

from schedgen.cycles.prices import FIXED, FLOATING, QUEUED, Priced, Prices, Unit

_DEEP = 24.0
"""Cycles of work that wait in the queue of a unit of the SM before a warp has to."""
_MOST = 0.95
"""Of shared memory that products take, at most."""
_REGISTERS = (Unit.ALU, Unit.FMA, Unit.HEAVY, Unit.SPECIAL)
"""Units whose instructions compute with registers of every lane."""


@dataclass(slots=True)
class Product:
    """An instruction that multiplies: from when to when, the share of shared memory and of the
    tensor cores' rate that it takes, and of which role.
    """

    begin: float
    end: float
    shared: float
    rate: float
    role: str


class Scheduler:
    """Times are cycles."""

    def __init__(self, says: Prices) -> None:
        self.says = says
        self.free: dict[Unit, float] = defaultdict(float)
        self.issued = 0.0
        """When the next instruction can be issued."""
        self._products: list[Product] = []
        self._multiplied = 0.0
        self._computed = -inf

    def ready(self, one: Priced, time: float, first: str = "") -> float:
        """When ``one`` can be issued, not before ``time``; ``first``: its role, if none of its
        operation's products was issued yet.
        """
        time, unit = max(time, self.issued), one.unit
        if unit is Unit.FMA:
            time = max(time, min([self.free[half] for half in FLOATING]))
        elif unit is not None:
            waiting = _DEEP if unit in QUEUED else 0.0
            time = max(time, self.free[unit] - waiting)
        if one.multiplies:
            room = len(self._products) - int(self.says.queue)
            if room >= 0:
                time = max(time, self._products[room].end)
        if one.registers and first:
            others = (product.end for product in self._products if product.role != first)
            time = max(time, max(others, default=0.0) - self.says.begin)
        return time

    def slower(self, time: float) -> float:
        """How many times as long as otherwise stalls and instructions of warps take."""
        if time - self._computed > self.says.close:
            return 1.0
        busy = self._busy(time)
        return 1.0 if busy is None else 1 / (1 - self.says.frozen * busy.rate)

    def issue(self, one: Priced, time: float, warps: int, *, apart: bool = False) -> float:
        """Issues ``one`` for a role of ``warps``; when its unit begins it. ``apart``: nothing keeps
        the warps of the role together, so that they seldom want shared memory at the same time.
        """
        slower = self.slower(time)
        self.issued = time + slower
        if one.unit is None:
            return time
        cycles = self._cycles(one, time, warps) * (slower if one.unit in FIXED else 1)
        if one.unit in _REGISTERS:
            self._computed = time
        unit = one.unit
        if unit is Unit.FMA and self.free[Unit.HEAVY] <= min(self.free[Unit.FMA], time):
            unit = Unit.HEAVY
        begin = max(time, self.free[unit])
        self.free[unit] = begin + cycles
        if unit is Unit.SHARED and apart:
            return max(time, begin - self.says.spread)
        return begin if unit in QUEUED else time

    def multiply(
        self, time: float, cycles: float, shared: float, rate: float, role: str = ""
    ) -> float:
        """A product is issued: when it is done."""
        begin = max(time + self.says.begin, self._multiplied)
        self._multiplied = begin + cycles
        made = Product(begin, self._multiplied, min(shared, _MOST), rate, role)
        self._products.append(made)
        return self._multiplied

    def _busy(self, time: float) -> Product | None:
        """The product that tensor cores work on."""
        while self._products and self._products[0].end <= time:
            self._products.pop(0)
        first = self._products[0] if self._products else None
        return first if first is not None and first.begin <= time else None

    def _cycles(self, one: Priced, time: float, warps: int) -> float:
        """What ``one`` takes of its unit, beside the product that tensor cores work on."""
        busy = self._busy(time)
        if one.unit is Unit.SHARED:
            cycles = one.cycles * min(warps, 4) / 4
            return cycles if busy is None else cycles / (1 - busy.shared)
        if one.unit is Unit.SPECIAL and busy is not None:
            return self.says.special_beside
        return one.cycles * (warps if one.each else 1)
