"""Constants of a machine model from measured cycles.

An experiment fits one constant: it is changed until the model says of the experiment's program what
was measured. The others are what they are then, so experiments are gone through several times. If
several fit the same constant and disagree, it becomes an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.predicting import Known, Predicted, said
from schedgen.driver.found import Solution
from schedgen.errors import SchedgenError
from schedgen.machine import Constant, Machine
from schedgen.machine_constants import with_constants

_SWEEPS = 3
_WIDEST = 64
"""How many times larger or smaller than in the model a constant may be."""
_STEPS = 24
_DIGITS = 3
_SAME = Fraction(1, 50)
"""A share by which measured values may differ from a constant that is kept."""
_NEAR = 0.05
"""How far off a value may be, as a share of what was measured, if no value is exact."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fit:
    """A constant before and after; ``reason`` says why it stays what it was, empty if it changes.

    ``low`` and ``high`` are what the experiments say that fit it, in the unit of the constant.
    """

    constant: str
    unit: str
    before: tuple[Fraction, Fraction]
    low: Fraction
    high: Fraction
    experiments: tuple[str, ...]
    reason: str = ""

    @property
    def outside(self) -> bool:
        """Whether the model's interval does not contain what was measured, by more than 5 %."""
        return self.high * 21 < self.before[0] * 20 or self.low * 20 > self.before[1] * 21


@dataclass(frozen=True, slots=True)
class Compared:
    """Measured cycles per iteration of an experiment beside those of a model before and after."""

    name: str
    measured: float
    before: Predicted
    after: Predicted

    @property
    def error(self) -> float:
        """How far what is expected of the fitted model is off, as a share of what was
        measured.
        """
        return self.after.expected / self.measured - 1


def fitted(
    experiments: Sequence[Experiment],
    measured: Mapping[str, float],
    solutions: Mapping[str, Solution],
    machine: Machine,
    progress: Progress | None = None,
) -> tuple[Fit, ...]:
    """The constants that ``experiments`` fit, from ``measured`` cycles per iteration by name.

    ``solutions`` are the schedules of the kernels that were measured; ``machine`` prices them.

    Raises:
        SchedgenError: an experiment fits what is no constant of ``machine``.
    """
    fitting = [one for one in experiments if one.fits is not None and one.name in measured]
    for one in fitting:
        if one.fits not in machine.constant:
            raise SchedgenError(
                f"experiment '{one.name}' fits '{one.fits}', which {machine.name} does not have; "
                f"fix: one of {', '.join(machine.constant)}"
            )
    now = {c.name: (c.low + c.high) / 2 for c in machine.constants}
    values: dict[str, dict[str, Fraction]] = {}
    known: Known = {}
    silent: dict[str, str] = {}
    for sweep in range(_SWEEPS):
        for one in fitting:
            assert one.fits is not None
            if progress is not None:
                progress(f"fitting, round {sweep + 1} of {_SWEEPS}: {one.fits}")
            found = _root(one, solutions[one.name], machine, now, measured[one.name], known)
            if isinstance(found, str):
                silent[one.fits] = found
                continue
            silent.pop(one.fits, None)
            numbers = values.setdefault(one.fits, {})
            numbers[one.name] = found
            now[one.fits] = (min(numbers.values()) + max(numbers.values())) / 2
    names = dict.fromkeys(one.fits for one in fitting if one.fits is not None)
    return tuple(_fit(machine, name, fitting, values.get(name, {}), silent) for name in names)


def _fit(
    machine: Machine,
    name: str,
    fitting: Sequence[Experiment],
    values: Mapping[str, Fraction],
    silent: Mapping[str, str],
) -> Fit:
    constant = machine.constant[name]
    before = (constant.low, constant.high)
    low, high = (min(values.values()), max(values.values())) if values else before
    by = tuple(one.name for one in fitting if one.fits == name)
    reason = "" if values else silent.get(name, "")
    ends = zip(before, (low, high), strict=True)
    if values and all(abs(now - was) <= _SAME * was for was, now in ends):
        reason = f"kept ({constant.certainty}); measured {_text(low, high)}"
        low, high = before
    return Fit(name, constant.unit, before, low, high, by, reason)


def _text(low: Fraction, high: Fraction) -> str:
    texts = dict.fromkeys(f"{float(number):.4g}" for number in (low, high))
    return " to ".join(texts)


def _root(
    one: Experiment,
    solution: Solution,
    machine: Machine,
    now: Mapping[str, Fraction],
    wanted: float,
    known: Known,
) -> Fraction | str:
    """The value at which the model says ``wanted``, or why there is none.

    What it says grows or falls with the constant, in one direction; the value is looked for by
    halving the range between one that gives too few cycles and one that gives too many.
    """
    assert one.fits is not None
    name, middle = one.fits, max(now[one.fits], Fraction(1, 64))

    def excess(value: Fraction) -> float:
        changed = with_constants(machine, {**now, name: value})
        return said(one, solution, changed, known).expected - wanted

    least, most = machine.constant[name].low / _WIDEST, machine.constant[name].high * _WIDEST
    least = least if excess(least) * excess(most) <= 0 else Fraction(0)
    low, high = _near(excess, middle, least, most)
    at_low, at_high = excess(low), excess(high)
    if at_low == at_high:
        return f"'{one.name}' does not depend on it"
    if at_low * at_high > 0:
        best, off = (low, at_low) if abs(at_low) < abs(at_high) else (high, at_high)
        if abs(off) <= _NEAR * wanted:
            return rounded(best)
        return f"'{one.name}' takes {wanted:.0f} cycles, no value comes nearer than {off:+.0f}"
    for _ in range(_STEPS):
        between = (low + high) / 2
        found = excess(between)
        if abs(found) < 1 / 4 or rounded(low) == rounded(high):
            return rounded(between)
        if (found > 0) == (at_high > 0):
            high = between
        else:
            low = between
    return rounded((low + high) / 2)


def _near(
    excess: Callable[[Fraction], float], middle: Fraction, least: Fraction, most: Fraction
) -> tuple[Fraction, Fraction]:
    """A range around ``middle`` with a change of sign: half as much to twice as much, and so on."""
    low = high = middle
    while low > least or high < most:
        low, high = max(low / 2 if low > Fraction(1, 100) else least, least), min(high * 2, most)
        if excess(low) * excess(high) <= 0:
            break
    return low, high


def rounded(number: Fraction) -> Fraction:
    """To three digits: experiments say no more."""
    return Fraction(f"{float(number):.{_DIGITS}g}")


def compare(
    experiments: Sequence[Experiment],
    measured: Mapping[str, float],
    solutions: Mapping[str, Solution],
    before: Machine,
    after: Machine,
) -> tuple[Compared, ...]:
    """What both models say of each experiment that was measured."""
    return tuple(
        Compared(
            one.name,
            measured[one.name],
            said(one, solutions[one.name], before),
            said(one, solutions[one.name], after),
        )
        for one in experiments
        if one.name in measured
    )


def with_fits(machine: Machine, fits: Sequence[Fit]) -> Machine:
    """The machine with what was fitted, as intervals."""
    found = {fit.constant: fit for fit in fits}

    def changed(constant: Constant) -> Constant:
        fit = found.get(constant.name)
        return constant if fit is None else replace(constant, low=fit.low, high=fit.high)

    return replace(machine, constants=tuple(map(changed, machine.constants)))
