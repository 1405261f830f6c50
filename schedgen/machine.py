"""Machine models: what an operation costs on one SM.

A model is a YAML file of constants (each with source and certainty), units, role classes and rules.
The first rule that fits an operation prices it; a rule is a set of expressions over the constants
and the operation's work, so a new machine needs a file and no code. Numbers where sources disagree
are intervals [low, high]; ``price`` evaluates a rule at both ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Literal

from schedgen.errors import SchedgenError
from schedgen.expressions import Expression, evaluate
from schedgen.kernel import Kind, Operation, Space
from schedgen.roles import RoleKind


class CostError(SchedgenError, ValueError):
    """No rule of the machine prices an operation, or a rule is wrong for it."""

    status = 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Cycles between two published values, both ends included."""

    low: int
    high: int

    def at(self, end: str) -> int:
        """The value at ``low`` or ``high``."""
        return self.low if end == "low" else self.high


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of the model: interval, unit, where it comes from and how certain it is."""

    name: str
    low: Fraction
    high: Fraction
    unit: str
    source: str
    certainty: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A hardware unit. ``exclusive`` units serve one operation at a time; ``rate`` units only add
    up.

    A unit whose ``order`` is ``queue`` executes in issue order and has one issuing role, so its
    order discharges hazards. One with ``role`` does so for what one role issues, ``any`` never.
    """

    name: str
    exclusive: bool
    order: Literal["any", "role", "queue"]
    about: str


@dataclass(frozen=True, slots=True)
class RoleClass:
    """A kind of role: how many warps issue its operations and the registers a thread needs beside
    tiles.
    """

    name: str
    warps: int
    registers: int
    per_unit: bool
    about: str

    @property
    def issues_ahead(self) -> bool:
        """Whether the role only hands work to units that queue it: one thread, nothing computed."""
        return RoleKind.of(self.warps) is RoleKind.WARP


@dataclass(frozen=True, slots=True)
class Rule:
    """Prices the operations that match ``kinds`` and ``operands`` (operand name or ``reduction`` ->
    value).
    """

    name: str
    kinds: frozenset[Kind]
    operands: tuple[tuple[str, str], ...]
    role: str
    units: tuple[tuple[str, Expression], ...]
    latency: Expression
    hold: Expression | None
    release: Expression | None
    registers: Expression | None
    loaded: Expression | None
    handoff_included: bool
    asynchronous: bool

    def fits(self, operation: Operation) -> bool:
        if operation.kind not in self.kinds:
            return False
        return all(
            (operation.reduction if name == "reduction" else operation.operand_space(name)) == value
            for name, value in self.operands
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one operation.

    units    exclusive units and how long each is busy from the start of the operation
    rates    cycles of capacity taken from units that only add up
    hold     cycles for which the issuing role can issue nothing else
    latency  start to result visible to a consumer (in another role, if ``handoff`` is 0)
    release  start to operands may be overwritten
    registers  registers per thread that only this operation needs, for tiles that stream through
    loaded   latency when all SMs compete for memory, 0 where latency does not vary
    handoff  further cycles until another role sees the result
    """

    rule: str
    role: str
    units: tuple[tuple[str, int], ...]
    rates: tuple[tuple[str, Fraction], ...]
    hold: Interval
    latency: Interval
    release: Interval
    registers: int
    loaded: int
    handoff: int
    asynchronous: bool

    def cycles(self, unit: str) -> int:
        """Cycles for which ``unit`` is busy, 0 if the operation does not use it."""
        return dict(self.units).get(unit, 0)

    @property
    def busy(self) -> int:
        """Cycles of the longest-used exclusive unit."""
        return max((cycles for _, cycles in self.units), default=0)


@dataclass(frozen=True)
class Machine:
    """A machine model, read from its file by :func:`schedgen.machine_file.read_machine`."""

    name: str
    arch: str
    summary: str
    sha256: str
    smem_bytes: int
    tmem_columns: int
    registers_per_thread_sum: int
    max_registers: int
    warpgroups: int
    units: tuple[Unit, ...]
    roles: tuple[RoleClass, ...]
    constants: tuple[Constant, ...]
    rules: tuple[Rule, ...]

    @property
    def accumulators(self) -> Space:
        """Where products accumulate: in tensor memory, where there is some."""
        return Space.TMEM if self.tmem_columns else Space.REGISTERS

    @cached_property
    def unit(self) -> dict[str, Unit]:
        return {unit.name: unit for unit in self.units}

    @cached_property
    def role(self) -> dict[str, RoleClass]:
        return {role.name: role for role in self.roles}

    @cached_property
    def constant(self) -> dict[str, Constant]:
        return {constant.name: constant for constant in self.constants}

    def value(self, name: str, end: str = "high") -> Fraction:
        """The constant ``name`` at its ``low`` or ``high`` end."""
        constant = self.constant[name]
        return constant.low if end == "low" else constant.high

    def cycles(self, name: str) -> int:
        """The constant ``name`` (its high end) as whole cycles."""
        return ceil(self.value(name))

    def exclusive(self, unit: str) -> bool:
        """Whether ``unit`` serves one operation at a time; units named only by a spec do."""
        return unit not in self.unit or self.unit[unit].exclusive

    def queue(self, unit: str) -> bool:
        """Whether ``unit`` executes in issue order."""
        return unit in self.unit and self.unit[unit].order == "queue"

    def in_order(self, unit: str, *, one_role: bool) -> bool:
        """Whether ``unit`` executes two operations in issue order, of ``one_role`` or of two."""
        return self.queue(unit) or (
            one_role and unit in self.unit and self.unit[unit].order == "role"
        )


def price(operation: Operation, machine: Machine) -> Cost:
    """The cost of ``operation`` on ``machine``.

    Pinned ``unit``, ``cycles`` and ``latency`` of the operation override the rule.
    Raises CostError if no rule fits.
    """
    rule = next((rule for rule in machine.rules if rule.fits(operation)), None)
    if rule is None:
        raise CostError(_no_rule(operation, machine))
    low, high = (_names(operation, machine, end) for end in ("low", "high"))
    used = [(unit, _number(expression, high)) for unit, expression in rule.units]
    units = tuple((u, ceil(c)) for u, c in used if c and machine.exclusive(u))
    if operation.unit is not None:
        units = ((operation.unit, operation.cycles if operation.cycles is not None else 1),)
    elif operation.cycles is not None:
        units = tuple((unit, operation.cycles) for unit, _ in units)
    latency = _interval(rule.latency, low, high)
    if operation.latency is not None:
        latency = Interval(operation.latency, operation.latency)
    hold = _interval(rule.hold, low, high) if rule.asynchronous else latency
    return Cost(
        rule=rule.name,
        role=rule.role,
        units=units,
        rates=tuple((u, c) for u, c in used if c and not machine.exclusive(u)),
        hold=hold,
        latency=latency,
        release=_interval(rule.release, low, high) if rule.release else latency,
        registers=ceil(_number(rule.registers, high)) if rule.registers else 0,
        loaded=ceil(_number(rule.loaded, high)) if rule.loaded else 0,
        handoff=0 if rule.handoff_included else machine.cycles("handoff"),
        asynchronous=rule.asynchronous,
    )


def _no_rule(operation: Operation, machine: Machine) -> str:
    """Why no rule fits: where the operands are, and where the machine could use them."""
    spaces = ", ".join(f"{name} in {space}" for name, space in operation.spaces)
    text = (
        f"{operation.name}: machine {machine.name} has no rule for {operation.kind} with {spaces}"
    )
    known = dict.fromkeys(
        ", ".join(
            f"{name} {value}" if name == "reduction" else f"{name} in {value}"
            for name, value in rule.operands
        )
        for rule in machine.rules
        if operation.kind in rule.kinds
    )
    if not known:
        return f"{text}\n  fix: it has none for {operation.kind} at all; leave it out"
    return f"{text}\n  fix: it has rules for {operation.kind} with {'; or '.join(known)}"


def _names(operation: Operation, machine: Machine, end: str) -> dict[str, Fraction]:
    names = {constant.name: machine.value(constant.name, end) for constant in machine.constants}
    names.update((name, Fraction(value)) for name, value in asdict(operation.work).items())
    return names


def _interval(
    expression: Expression | None, low: Mapping[str, Fraction], high: Mapping[str, Fraction]
) -> Interval:
    """Whole cycles at both ends, 0 where the rule says nothing."""
    if expression is None:
        return Interval(0, 0)
    return Interval(ceil(_number(expression, low)), ceil(_number(expression, high)))


def _number(expression: Expression, names: Mapping[str, Fraction]) -> Fraction:
    value = evaluate(expression, names)
    if not isinstance(value, Fraction):
        raise CostError(f"a cost must be a number, got {value!r}")
    return value
