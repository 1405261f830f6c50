"""Lesser objectives: what is best does not depend on how it is found, and repeats itself."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.dependence import derive
from schedgen.machine_file import read_machine
from schedgen.solver import search as module
from schedgen.solver.problem import build_problem
from schedgen.solver.search import search, smallest
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec


@pytest.mark.medium
@pytest.mark.parametrize(("name", "target"), [("gemm", "h200"), ("attention_fwd", "b200")])
def test_search_repeats_itself_on_shipped_specs(name: str, target: str) -> None:
    spec, machine = read_spec(name), read_machine(target)
    kernel = bind(spec.source, spec.file, target)[0]
    one, other = (search(build_problem(kernel, machine, derive(kernel))) for _ in range(2))
    assert one is not None
    assert other is not None
    assert (one.decisions, one.objectives) == (other.decisions, other.objectives)


@pytest.mark.medium
@pytest.mark.parametrize("steps", [0, 1, 8])
@pytest.mark.parametrize(("name", "target"), [("gemm", "h200"), ("attention_fwd", "b200")])
def test_an_objective_that_creeps(
    name: str, target: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bound is asked for, which may be out of reach; what is best is the same."""
    spec, machine = read_spec(name), read_machine(target)
    kernel = bind(spec.source, spec.file, target)[0]
    problem = build_problem(kernel, machine, derive(kernel))
    patient, asked = search(problem), list[bool]()
    monkeypatch.setattr(module, "MOST_STEPS", steps)
    solve = module.cp_model.CpSolver.solve

    def counted(self: Any, model: Any, *rest: Any) -> Any:
        found = solve(self, model, *rest)
        asked.append(not model.has_objective())
        return found

    monkeypatch.setattr(module.cp_model.CpSolver, "solve", counted)
    result = smallest(problem)
    assert result is not None
    asked.clear()
    module.refine(problem, result)
    assert steps or any(asked)
    assert patient is not None
    assert result.objectives == patient.objectives
    assert verify(problem, result.decisions) == ()
