"""Constraints that follow from those of the model and exclude no schedule: for proofs.

CP-SAT sees each pair of operations on a circle (an exclusive unit, a role) by itself. What follows
from three of them, or from all, it would have to learn one conflict after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, permutations

from ortools.sat.python import cp_model

from schedgen.solver.model import ModuloModel, Periods, unit_circle


def add_implied(model: ModuloModel) -> None:
    """Adds all of them to a model that is complete."""
    for periods in model.periods.values():
        _one_each(model, periods)
        _add_up(model, periods)
    for unit, names in model.problem.exclusive_units.items():
        _fill(model, unit, names)


def _one_each(model: ModuloModel, periods: Mapping[tuple[str, str], Periods]) -> None:
    """Two operations are one number of periods apart. More than one fits only what takes no time,
    and then any of them will do.
    """
    for between in periods.values():
        if between.literals:
            model.cp.add_exactly_one(between.literals)


def _add_up(model: ModuloModel, periods: Mapping[tuple[str, str], Periods]) -> None:
    """Periods from a to c are those from a to b and from b to c, or one more.

    They are the whole parts of distances over II, distances add up, and whole parts of two numbers
    add up to that of their sum or to one less.
    """
    names = dict.fromkeys(name for pair in periods for name in pair)
    for a, b, c in combinations(names, 3):
        if (a, b) in periods and (b, c) in periods and (a, c) in periods:
            more = periods[a, c].number - periods[a, b].number - periods[b, c].number
            if not isinstance(more, int):
                model.cp.add_linear_constraint(more, 0, 1)


def _fill(model: ModuloModel, unit: str, names: tuple[str, ...]) -> None:
    """Around the circle of a unit, operations follow each other in some order, and the gaps between
    them add up to the cycles that it is idle: none is longer than that.
    """
    cycles = [model.problem.costs[name].cycles(unit) for name in names]
    idle = model.ii - sum(cycles)
    if len(names) < 3:  # one order only, which says nothing
        return
    periods = model.periods[unit_circle(unit)]
    arcs: list[tuple[int, int, cp_model.IntVar]] = []
    for one, other in permutations(range(len(names)), 2):
        follows = model.cp.new_bool_var(f"{names[other]} follows {names[one]} on {unit}")
        arcs.append((one, other, follows))
        a, b = sorted((one, other))
        gap = model.start[names[b]] - model.start[names[a]]
        gap = gap - model.ii * periods[names[a], names[b]].number  # from a to the next b
        distance = gap if one < other else model.ii - gap
        model.cp.add(distance <= cycles[one] + idle).only_enforce_if(follows)
    model.cp.add_circuit(arcs)
