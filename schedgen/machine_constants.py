"""Machine models with other values of their constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from schedgen.machine import Constant, Machine


def middles(machine: Machine) -> Machine:
    """The machine with each constant at the middle of its interval."""
    return with_constants(machine, {c.name: (c.low + c.high) / 2 for c in machine.constants})


def with_constants(machine: Machine, numbers: Mapping[str, Fraction]) -> Machine:
    """The machine with other values of some constants."""

    def changed(constant: Constant) -> Constant:
        number = numbers.get(constant.name)
        return constant if number is None else replace(constant, low=number, high=number)

    return replace(machine, constants=tuple(map(changed, machine.constants)))
