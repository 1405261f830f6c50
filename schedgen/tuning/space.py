"""Which settings of a spec are candidates: parameters that are free, and what each of them may be.

A parameter is free if nobody sets it and nothing that callers see depends on it. Its values are
those that the spec lists (``choose``, ``values``) or, where it is a number that storage is made of,
that number and others near it. Emitters, solver and compiler drop what is not possible.

Names that begin with ``@`` are no parameters: they say what a schedule is solved for, so that there
are several for the same tiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from schedgen.errors import SchedgenError, suggest
from schedgen.expressions import ExpressionError
from schedgen.spec.parameters import literal
from schedgen.spec.reader import Spec
from schedgen.spec.schema import Parameter, SpecFile
from schedgen.spec.values import show

LATENCIES, REGISTERS, PACE = "@latencies", "@registers", "@pace"
"""The end of the machine model's ranges that a schedule is made for; registers of a thread that it
leaves beside tiles, more than the model says; the unit on which roles are kept to its order."""
NOWHERE = "none"
"""The value of `PACE` if they are not."""
SCHEDULES = {LATENCIES: ("high", "low"), REGISTERS: ("0", "16"), PACE: (NOWHERE, "TENSOR")}
"""What they are if nobody says otherwise, the usual one first."""
FEW = 16
"""Numbers up to here change by one (slots, warpgroups), those above by parts of them (tiles)."""
SMALLEST_STEP = 8
"""By which a tile changes at least: columns of a product are multiples of it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter and what it may be.

    Attributes:
        values: the usual one first, if it is among them.
        numeric: whether other numbers than these may be tried, too.
        usual: what it is if nobody sets it; None if it is derived, or the solver chooses.
    """

    name: str
    values: tuple[str, ...]
    numeric: bool = False
    usual: str | None = None


def axes(
    spec: Spec, target: str, settings: Mapping[str, str], tries: Mapping[str, Sequence[str]]
) -> tuple[Axis, ...]:
    """The free parameters: those of ``tries`` if there are any, else what `_found` finds.

    Raises SchedgenError: ``tries`` names no parameter, one that is set, or a value that the spec
    does not allow.
    """
    if not tries:
        return tuple(_found(spec, target, settings))
    found: list[Axis] = []
    for name, values in tries.items():
        if len(set(values)) < len(values):
            raise SchedgenError(f"--try {name}: a value is given twice; fix: leave one out")
        if name.startswith("@"):
            found.append(_of_schedules(name, values))
            continue
        parameter = _parameter(spec.file, name, settings)
        allowed = listed(parameter)
        for value in values:
            _check(f"--try {name}={value}", value, allowed)
        now = usual(parameter, target)
        ordered = sorted(values, key=lambda value: value != now)
        numeric = allowed is None and all(map(str.isdigit, values))
        found.append(Axis(name, tuple(ordered), numeric, now))
    return tuple(found)


def settings_of(space: Sequence[Axis], seed: int) -> Iterator[dict[str, str]]:
    """All combinations of values: the first of each axis, then those that differ from it in one,
    in two and so on. From two on they come in a random order, which is always the same for a seed.
    Usual values are left away.
    """
    first = {axis.name: axis.values[0] for axis in space}
    random = Random(seed)
    yield _unusual(space, first)
    for changes in range(1, len(space) + 1):
        level = [
            {**first, **{axis.name: value for axis, value in zip(changed, values, strict=True)}}
            for changed in combinations(space, changes)
            for values in product(*(axis.values[1:] for axis in changed))
        ]
        if changes > 1:
            random.shuffle(level)
        yield from (_unusual(space, chosen) for chosen in level)


def _unusual(space: Sequence[Axis], chosen: Mapping[str, str]) -> dict[str, str]:
    usual_ones = {axis.name: axis.usual for axis in space}
    return {name: value for name, value in chosen.items() if value != usual_ones[name]}


def schedules() -> tuple[Axis, ...]:
    """Axes of what schedules of the same tiles are solved for."""
    return tuple(Axis(name, values, usual=values[0]) for name, values in SCHEDULES.items())


def parameters(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of ``settings`` that are parameters of a spec."""
    return {name: value for name, value in settings.items() if not name.startswith("@")}


def schedule_of(settings: Mapping[str, str]) -> tuple[str, int]:
    """The latencies, and more registers, that settings are solved for."""
    found = {name: settings.get(name, values[0]) for name, values in SCHEDULES.items()}
    return found[LATENCIES], int(found[REGISTERS])


def pace_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The units on which roles are kept to the order of the schedule."""
    unit = settings.get(PACE, NOWHERE)
    return () if unit == NOWHERE else (unit,)


def near(number: int, round_: int = 0) -> tuple[int, ...]:
    """Numbers next to one: for few one more and one less; for tiles a power of two more and less,
    a quarter of it or the next smaller one, halved in each further round.
    """
    if number <= FEW:
        return tuple(n for n in (number - 1, number + 1) if n > 0)
    quarter = 1 << ((number // 4).bit_length() - 1)
    step = max(SMALLEST_STEP, quarter >> round_)
    return number - step, number + step


def usual(parameter: Parameter, target: str) -> str | None:
    """The value of a parameter that nobody sets; None if it is derived, or the solver chooses."""
    found = (parameter.on or {}).get(target, parameter.default)
    return None if found is None else _shown(found)


def listed(parameter: Parameter) -> tuple[str, ...] | None:
    """The only values that a parameter may have; None if there is no list."""
    values = parameter.values
    return None if values is None else tuple(_shown(value) for value in values)


def _found(spec: Spec, target: str, settings: Mapping[str, str]) -> Iterator[Axis]:
    """Axes that follow from the spec."""
    stored, seen = _storage(spec.file), _seen(spec.file)
    for name, parameter in spec.file.parameters.items():
        if name in settings or name in seen or parameter.derive is not None:
            continue
        now = usual(parameter, target)
        if parameter.choose is not None:
            if now is None:
                yield Axis(name, tuple(_shown(value) for value in parameter.choose))
        elif (allowed := listed(parameter)) is not None:
            ordered = sorted(allowed, key=lambda value: value != now)
            yield Axis(name, tuple(ordered), usual=now)
        elif now is not None and now.isdigit() and name in stored:
            numbers = dict.fromkeys((int(now), *near(int(now)), *_further(int(now))))
            yield Axis(name, tuple(map(str, numbers)), True, now)


def _further(number: int) -> tuple[int, ...]:
    """Half of a tile and twice."""
    return () if number <= FEW else (number // 2, 2 * number)


def _of_schedules(name: str, values: Sequence[str]) -> Axis:
    """Values that somebody gave for what a schedule is solved for. Raises SchedgenError."""
    if name not in SCHEDULES:
        fix = suggest(name, SCHEDULES) or f"there are {', '.join(SCHEDULES)}"
        raise SchedgenError(f"--try {name}: this is nothing that schedules have; fix: {fix}")
    usual_one = SCHEDULES[name][0]
    for value in values:
        if name == LATENCIES and value not in SCHEDULES[name]:
            raise SchedgenError(f"--try {name}={value}: allowed values are high, low")
        if name == REGISTERS and not (value.isdecimal() and int(value) % 8 == 0):
            raise SchedgenError(f"--try {name}={value}: write a multiple of 8, such as 0,16,32")
    return Axis(name, tuple(sorted(values, key=lambda v: v != usual_one)), usual=usual_one)


def _storage(spec: SpecFile) -> set[str]:
    """Parameters that sizes and slots of buffers, and numbers of parts, are made of."""
    texts = [
        *(f"{buffer.shape} {buffer.depth}" for buffer in spec.buffers.values()),
        *(f"{dimension.count} {dimension.sizes}" for dimension in spec.dimensions.values()),
    ]
    found = _named(spec, texts)
    while True:  # what others are derived from
        derived = [str(p.derive) for name, p in spec.parameters.items() if name in found]
        more = found | _named(spec, derived)
        if more == found:
            return found
        found = more


def _seen(spec: SpecFile) -> set[str]:
    """Parameters that say which tensors a caller passes."""
    return _named(
        spec,
        (f"{a.shape} {a.dtype} {a.transposed} {a.whole} {a.only}" for a in spec.arguments.values()),
    )


def _named(spec: SpecFile, texts: Iterator[str] | Sequence[str]) -> set[str]:
    words = set(re.findall(r"\w+", " ".join(texts)))
    return words & set(spec.parameters)


def _parameter(spec: SpecFile, name: str, settings: Mapping[str, str]) -> Parameter:
    if name in settings:
        raise SchedgenError(f"--try {name}: it is set as well; fix: leave --set {name} away")
    if name not in spec.parameters:
        fix = suggest(name, spec.parameters) or f"it has {', '.join(spec.parameters)}"
        raise SchedgenError(f"--try {name}: {spec.kernel} has no parameter '{name}'; fix: {fix}")
    return spec.parameters[name]


def _check(option: str, value: str, allowed: tuple[str, ...] | None) -> None:
    try:
        text = _shown(value)
    except SchedgenError as error:
        raise SchedgenError(f"{option}: {error}") from None
    if allowed is not None and text not in allowed:
        raise SchedgenError(f"{option}: allowed values are {', '.join(allowed)}")


def _shown(text: bool | int | str) -> str:
    try:
        return show(literal(text))
    except ExpressionError as error:
        raise SchedgenError(str(error)) from None
