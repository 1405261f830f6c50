"""The whole CP-SAT model of a problem: times, roles, units, storage, capacities."""

from __future__ import annotations

from schedgen.solver.capacities import add_registers, add_shared_memory, add_tensor_memory
from schedgen.solver.implied import add_implied
from schedgen.solver.model import ModuloModel
from schedgen.solver.problem import Problem


def modulo_model(problem: Problem, ii: int, stages: int, *, implied: bool = False) -> ModuloModel:
    """All constraints for ``problem`` at initiation interval ``ii`` over at most ``stages`` stages.

    With ``implied`` also constraints that exclude nothing more and make it easier to prove that
    there is no schedule.
    """
    model = ModuloModel(problem, ii, stages)
    add_shared_memory(model)
    add_tensor_memory(model)
    add_registers(model)
    if implied:
        add_implied(model)
    return model
