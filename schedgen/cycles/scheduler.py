"""One scheduler of an SM: which instruction its units can take when, and what tensor cores do
meanwhile.

Tensor cores take products in the order in which they are issued, whoever issues them, and at most
some at a time: a warp waits before one that there is no room for. They share the register file with
other instructions, and shared memory: ALU, special functions and accesses go on more slowly while
they work, and what reads three registers keeps them waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from schedgen.cycles.prices import FLOATING, QUEUED, Priced, Prices, Unit

_DEEP = 24.0
"""Cycles of work that wait in the queue of a unit of the SM before a warp has to."""
_MOST = 0.95
"""Of shared memory that products take, at most."""
_CLOSE = 2
"""Cycles since an instruction of FMA for which one of ALU counts as among them."""


@dataclass(slots=True)
class Product:
    """An instruction that multiplies: from when to when, the share of shared memory that it reads,
    whose last one it is, -1 for none, and of which role.
    """

    begin: float
    end: float
    shared: float
    completes: int = -1
    role: str = ""


class Scheduler:
    """Times are cycles. ``later`` is told by how much the end of an operation's products moves."""

    def __init__(self, says: Prices, later: Callable[[int, float], None]) -> None:
        self.says = says
        self.free: dict[Unit, float] = defaultdict(float)
        self.issued = 0.0
        """When the next instruction can be issued."""
        self._later = later
        self._products: list[Product] = []
        self._multiplied = 0.0
        self._last_fma = -float(_CLOSE) - 1

    def ready(self, one: Priced, time: float, first: str = "") -> float:
        """When ``one`` can be issued, not before ``time``; ``first``: its role, if none of its
        operation's products was issued yet.
        """
        time = max(time, self.issued)
        if one.unit is Unit.FMA:
            time = max(time, min(self.free[half] for half in FLOATING))
        elif one.unit is not None:
            waiting = _DEEP if one.unit in QUEUED else 0.0
            time = max(time, self.free[one.unit] - waiting)
        room = len(self._products) - int(self.says.queue)
        if one.multiplies and room >= 0:
            time = max(time, self._products[room].end)
        if one.registers and first:
            others = (product.end for product in self._products if product.role != first)
            time = max(time, max(others, default=0.0) - self.says.begin)
        return time

    def issue(self, one: Priced, time: float, warps: int, *, apart: bool = False) -> float:
        """Issues ``one`` for a role of ``warps``; when its unit begins it. ``apart``: nothing keeps
        the warps of the role together, so that they seldom want shared memory at the same time.
        """
        self.issued = time + 1
        while self._products and self._products[0].end <= time:
            self._products.pop(0)
        busy = next((p for p in self._products[:1] if p.begin <= time), None)
        if one.unit is None:
            return time
        cycles = self._cycles(one, time, warps, busy)
        if one.unit is Unit.FMA:
            self._last_fma = time
            first = self.free[Unit.HEAVY] <= min(self.free[Unit.FMA], time)
            unit = Unit.HEAVY if first else Unit.FMA
        else:
            unit = one.unit
        begin = max(time, self.free[unit])
        self.free[unit] = begin + cycles
        if unit is Unit.SHARED and apart:
            return max(time, begin - self.says.spread)
        return begin if unit in QUEUED else time

    def multiply(
        self, time: float, cycles: float, shared: float, completes: int, role: str = ""
    ) -> float:
        """A product is issued: when it is done."""
        begin = max(time + self.says.begin, self._multiplied)
        self._multiplied = begin + cycles
        made = Product(begin, self._multiplied, min(shared, _MOST), completes, role)
        self._products.append(made)
        return self._multiplied

    def _cycles(self, one: Priced, time: float, warps: int, busy: Product | None) -> float:
        """What ``one`` takes of its unit, beside a product that tensor cores are ``busy`` with."""
        if one.unit is Unit.SHARED:
            cycles = one.cycles * min(warps, 4) / 4
            return cycles if busy is None else cycles / (1 - busy.shared)
        cycles = one.cycles * (warps if one.each else 1)
        if busy is None:
            return cycles
        if one.unit is Unit.SPECIAL:
            return self.says.special_beside
        if one.unit is Unit.FMA:
            self._push(time)
        elif one.unit in (Unit.ALU, Unit.HEAVY):
            if time - self._last_fma > _CLOSE:
                return self.says.alu_beside
            self._push(time)
            return self.says.alu_among
        return cycles

    def _push(self, time: float) -> None:
        """Products that are not done take longer."""
        by = self.says.push
        for product in self._products:
            if product.end > time:
                product.begin += by if product.begin > time else 0.0
                product.end += by
                if product.completes >= 0:
                    self._later(product.completes, by)
        self._multiplied += by
