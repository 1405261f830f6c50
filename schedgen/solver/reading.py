"""Between the CP-SAT model and decisions: reads a solution, and offers one to improve on."""

from __future__ import annotations

from collections.abc import Callable

from ortools.sat.python import cp_model

from schedgen.solver.decisions import Decisions
from schedgen.solver.model import Linear, ModuloModel


def read_decisions(model: ModuloModel, value: Callable[[Linear], int]) -> Decisions:
    """The solution of ``model``, given how to evaluate an expression."""
    start = {name: int(value(expression)) for name, expression in model.start.items()}
    role: dict[str, str] = {}
    groups = model.problem.body_groups
    for number, group in enumerate(groups):
        literals = ((g.name, model.same.get((g.name, group.name))) for g in groups[:number])
        shared = (name for name, literal in literals if literal is not None and value(literal))
        role[group.name] = role[first] if (first := next(shared, None)) is not None else group.name
    option = {
        choice.name: next(
            n for n in range(len(choice.options)) if value(model.option[choice.name, n])
        )
        for choice in model.problem.graph.choices
    }
    depth = {name: int(value(expression)) for name, expression in model.depth.items()}
    first = min(start.values())
    return Decisions(
        model.ii, {name: time - first for name, time in start.items()}, role, depth, option
    )


def hint(model: ModuloModel, decisions: Decisions) -> None:
    """Offers ``decisions`` to ``model`` as a solution to improve on."""
    first = decisions.start[model.problem.body[0]]
    for name, time in decisions.start.items():
        model.cp.add_hint(model.start[name], time - first)
    for (one, other), literal in model.same.items():
        model.cp.add_hint(literal, decisions.role[one] == decisions.role[other])
    for (choice, number), literal in model.option.items():
        model.cp.add_hint(literal, decisions.option[choice] == number)
    for name, depth in model.depth.items():
        if isinstance(depth, cp_model.IntVar):
            model.cp.add_hint(depth, decisions.depth[name])
