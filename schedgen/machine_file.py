"""Reads machine models from YAML; ``machines/`` holds the shipped ones, a path names any other."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schedgen.errors import DiagnosticSink, SchedgenError, suggest
from schedgen.expressions import Expression, ExpressionError, evaluate, parse, references
from schedgen.kernel import Kind, Work
from schedgen.machine import Constant, Machine, RoleClass, Rule, Unit
from schedgen.spec.source import Source, parse_source, read_source
from schedgen.spec.validate import validate

LAUNCHES = "launches"
"""The section of constants that no rule may use."""
Number = int | str


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)


class ConstantEntry(_Model):
    """A number with its source: ``value``, or ``low`` and ``high`` where sources disagree."""

    value: Number | None = None
    low: Number | None = None
    high: Number | None = None
    unit: str = ""
    source: str
    certainty: Literal["documented", "third-party", "derived", "estimate", "measured"]


class Capacities(_Model):
    """What one CTA can have of each memory."""

    smem_bytes: ConstantEntry
    tmem_columns: ConstantEntry
    registers_per_thread_sum: ConstantEntry
    max_registers: ConstantEntry
    warpgroups: ConstantEntry


class UnitEntry(_Model):
    """A unit: exclusive or a rate; what it executes in issue order: nothing, what one role issues,
    or everything (a queue).
    """

    kind: Literal["exclusive", "rate"]
    order: Literal["any", "role", "queue"] = "any"
    about: str = ""


class RoleEntry(_Model):
    """A class of roles."""

    warps: int
    registers: int
    about: str = ""


class RuleEntry(_Model):
    """How to price a kind of operation."""

    name: str
    kind: str | list[str]
    a: str | None = None
    b: str | None = None
    d: str | None = None
    source: str | None = Field(None, alias="from")
    to: str | None = None
    reduction: str | None = None
    role: str
    units: dict[str, Number]
    latency: Number
    hold: Number | None = None
    release: Number | None = None
    registers: Number | None = None
    loaded: Number | None = None
    handoff: Literal["included", "extra"] = "extra"
    issue: Literal["synchronous", "asynchronous"]


class MachineFile(_Model):
    """A machine model file."""

    schedgen_machine: Literal[1]
    name: str
    arch: str
    summary: str
    capacities: Capacities
    units: dict[str, UnitEntry]
    roles: dict[str, RoleEntry]
    constants: dict[str, ConstantEntry]
    rules: list[RuleEntry]
    launches: dict[str, ConstantEntry] = Field(default_factory=dict[str, ConstantEntry])


def shipped_machines() -> tuple[str, ...]:
    """Names of the machine models that come with schedgen."""
    folder = resources.files("schedgen.machines")
    return tuple(
        sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml"))
    )


def read_machine(name: str) -> Machine:
    """The shipped machine model ``name``, or the one in the file of that path. Raises SpecError."""
    if name not in shipped_machines() and _is_path(name):
        return machine_from(read_source(Path(name)))
    return machine_from(parse_source(machine_text(name), f"machines/{name}.yaml"))


def machine_text(name: str) -> str:
    """The text of such a model. Raises SchedgenError, or OSError for a file."""
    if name in shipped_machines():
        return (resources.files("schedgen.machines") / f"{name}.yaml").read_text(encoding="utf-8")
    if _is_path(name):
        return Path(name).read_text(encoding="utf-8")
    fix = (
        suggest(name, shipped_machines())
        or f"one of {', '.join(shipped_machines())}, or the path of a model file"
    )
    raise SchedgenError(f"unknown target '{name}': {fix}")


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def machine_from(source: Source) -> Machine:
    """The machine model in ``source``, with every expression parsed and every name checked."""
    entry = validate(source, MachineFile)
    sink = DiagnosticSink()
    constants = tuple(
        _constant(source, sink, part, name, c)
        for part in ("constants", LAUNCHES)
        for name, c in getattr(entry, part).items()
    )
    for name in entry.launches.keys() & entry.constants.keys():
        sink.error(
            source.diagnostic(
                "duplicate-name",
                f"'{name}' is a constant already",
                (LAUNCHES, name),
                key=True,
                fix="leave it away in one of both sections",
            )
        )
    known = {*entry.constants, *Work.__dataclass_fields__}
    rules = tuple(
        _rule(source, sink, number, rule, entry, known) for number, rule in enumerate(entry.rules)
    )
    capacity = {
        name: int(
            _number(
                source, sink, getattr(entry.capacities, name).value, ("capacities", name, "value")
            )
        )
        for name in Capacities.model_fields
    }
    sink.raise_if_any()
    return Machine(
        name=entry.name,
        arch=entry.arch,
        summary=entry.summary,
        sha256=_sha256(source, entry),
        units=tuple(
            Unit(n, u.kind == "exclusive", u.order, u.about) for n, u in entry.units.items()
        ),
        roles=tuple(
            RoleClass(n, r.warps, r.registers, not entry.units, r.about)
            for n, r in entry.roles.items()
        ),
        constants=constants,
        rules=rules,
        **capacity,
    )


def _sha256(source: Source, entry: MachineFile) -> str:
    """Of what schedules follow from: not of the last section, if that is of launches."""
    if not entry.launches or list(source.data)[-1] != LAUNCHES:
        return source.sha256
    head, _, _ = source.text.rpartition(f"\n{LAUNCHES}:")
    return sha256(f"{head.rstrip()}\n".encode()).hexdigest()


def _constant(
    source: Source, sink: DiagnosticSink, part: str, name: str, entry: ConstantEntry
) -> Constant:
    path = (part, name)
    if entry.value is not None:
        low = high = _number(source, sink, entry.value, (*path, "value"))
    else:
        low = _number(source, sink, entry.low, (*path, "low"))
        high = _number(source, sink, entry.high, (*path, "high"))
    if low > high:
        sink.error(
            source.diagnostic(
                "empty-interval", f"low {low} is above high {high}", path, fix="swap them"
            )
        )
    return Constant(name, low, high, entry.unit, entry.source, entry.certainty)


def _number(
    source: Source, sink: DiagnosticSink, value: Number | None, path: tuple[str, ...]
) -> Fraction:
    if value is None:
        sink.error(
            source.diagnostic(
                "missing-key", "a number is missing", path, fix="give value, or low and high"
            )
        )
        return Fraction(0)
    try:
        number = evaluate(parse(str(value)), {})
    except ExpressionError as error:
        sink.error(source.diagnostic("bad-number", error.message, path, fix=error.fix))
        return Fraction(0)
    if not isinstance(number, Fraction):
        sink.error(source.diagnostic("bad-number", f"{value!r} is not a number", path))
        return Fraction(0)
    return number


def _rule(
    source: Source,
    sink: DiagnosticSink,
    number: int,
    rule: RuleEntry,
    entry: MachineFile,
    known: set[str],
) -> Rule:
    path = ("rules", number)

    def expression(value: Number | None, *where: str) -> Expression | None:
        return None if value is None else _expression(source, sink, value, (*path, *where), known)

    kinds = [rule.kind] if isinstance(rule.kind, str) else rule.kind
    for kind in kinds:
        if kind not in set(Kind):
            fix = suggest(kind, set(Kind))
            sink.error(
                source.diagnostic(
                    "unknown-kind", f"'{kind}' is not an operation kind", (*path, "kind"), fix=fix
                )
            )
    for unit in rule.units:
        if unit not in entry.units:
            fix = suggest(unit, entry.units)
            sink.error(
                source.diagnostic(
                    "unknown-unit",
                    f"'{unit}' is not a unit",
                    (*path, "units", unit),
                    key=True,
                    fix=fix,
                )
            )
    if rule.role not in entry.roles:
        fix = suggest(rule.role, entry.roles)
        sink.error(
            source.diagnostic(
                "unknown-role", f"'{rule.role}' is not a role class", (*path, "role"), fix=fix
            )
        )
    operands = {
        "a": rule.a,
        "b": rule.b,
        "d": rule.d,
        "from": rule.source,
        "to": rule.to,
        "reduction": rule.reduction,
    }
    latency = expression(rule.latency, "latency")
    units = [(unit, expression(value, "units", unit)) for unit, value in rule.units.items()]
    return Rule(
        name=rule.name,
        kinds=frozenset(Kind(kind) for kind in kinds if kind in set(Kind)),
        operands=tuple((name, value) for name, value in operands.items() if value is not None),
        role=rule.role,
        units=tuple((unit, value) for unit, value in units if value is not None),
        latency=latency if latency is not None else parse("0"),
        hold=expression(rule.hold, "hold"),
        release=expression(rule.release, "release"),
        registers=expression(rule.registers, "registers"),
        loaded=expression(rule.loaded, "loaded"),
        handoff_included=rule.handoff == "included",
        asynchronous=rule.issue == "asynchronous",
    )


def _expression(
    source: Source,
    sink: DiagnosticSink,
    value: Number,
    path: tuple[str | int, ...],
    known: set[str],
) -> Expression | None:
    try:
        expression = parse(str(value))
    except ExpressionError as error:
        sink.error(
            source.diagnostic(
                "bad-expression",
                error.message,
                path,
                offset=error.offset,
                length=error.length,
                fix=error.fix,
            )
        )
        return None
    for name in references(expression):
        if name.name not in known:
            fix = suggest(name.name, known)
            message = f"'{name.name}' is neither a constant nor a quantity of the operation"
            sink.error(
                source.diagnostic(
                    "unknown-name",
                    message,
                    path,
                    offset=name.offset,
                    length=len(name.name),
                    fix=fix,
                )
            )
    return expression
