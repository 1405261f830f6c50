"""The file of a machine model with other numbers; all else in it stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from schedgen.calibration.fitting import Fit
from schedgen.errors import SchedgenError
from schedgen.machine import Machine
from schedgen.machine_file import machine_from
from schedgen.spec.source import parse_source


def fitted_text(text: str, file: str, fits: Sequence[Fit], measured_on: str) -> str:
    """The model in ``text`` with what ``fits`` found, each number with ``measured_on`` as source.

    Raises:
        SchedgenError: a constant does not stand on a line of its own, as ``name: {...}``.
    """
    lines = text.splitlines()
    changed = {fit.constant: fit for fit in fits if not fit.reason}
    for name, fit in changed.items():
        found = [n for n, line in enumerate(lines) if re.match(rf"  {re.escape(name)}: *\{{", line)]
        if len(found) != 1:
            raise SchedgenError(
                f"{file}: constant '{name}' does not stand on a line of its own; fix: write "
                f"'  {name}: {{value: ..., unit: ..., source: ..., certainty: ...}}'"
            )
        lines[found[0]] = _line(fit, measured_on)
    made = "\n".join(lines) + "\n"
    _check(machine_from(parse_source(made, file)), changed, file)
    return made


def _line(fit: Fit, measured_on: str) -> str:
    number = (
        f"value: {shown(fit.low)}"
        if fit.low == fit.high
        else f"low: {shown(fit.low)}, high: {shown(fit.high)}"
    )
    source = f"schedgen calibrate, {measured_on}: {'; '.join(fit.experiments)}"
    return (
        f'  {fit.constant}: {{{number}, unit: {fit.unit}, source: "{source}", certainty: measured}}'
    )


def shown(number: Fraction) -> str:
    """As a model writes it: with decimals if they are exact, or else as a quotient."""
    decimals = f"{float(number):.10g}"
    return decimals if Fraction(decimals) == number else str(number)


def _check(machine: Machine, fits: Mapping[str, Fit], file: str) -> None:
    """The text says what was meant."""
    for name, fit in fits.items():
        constant = machine.constant[name]
        if (constant.low, constant.high) != (fit.low, fit.high):
            raise SchedgenError(
                f"{file}: '{name}' was written as {constant.low} to {constant.high}"
            )
