"""Settings that are advised: each has a schedule and a kernel, and those that compute something
else are not advised.
"""

from __future__ import annotations

import re

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.emit import emit
from schedgen.driver.advice import settings_that_help
from schedgen.driver.found import Infeasible
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from tests.codegen.examples import SPECS


def refusal(name: str, target: str, **settings: str) -> str:
    with pytest.raises(Infeasible) as caught:
        solve(read_spec(name), read_machine(target), settings=settings)
    return str(caught.value).split("\n  fix: ", 1)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "settings", "advice"),
    [
        ("gemm", "b200", {"tile_k": "512"}, ("tile_k", "256")),
        (str(SPECS / "live_tiles.yaml"), "h200", {}, ("n", "128")),
    ],
)
def test_what_is_advised_works(
    name: str, target: str, settings: dict[str, str], advice: tuple[str, str]
) -> None:
    fix = refusal(name, target, **settings)
    found = re.match(r"--set (\w+)=(\w+) instead of \w+ has a schedule; or ", fix)
    assert found is not None
    assert found.groups() == advice
    changed = {**settings, advice[0]: advice[1]}
    solution = solve(read_spec(name), read_machine(target), settings=changed)
    assert emit(prove_solution(solution).proven, solution.problem.kernel)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "advice"),
    [({"p_storage": "none"}, "p_storage=auto"), ({"kv_depth": "8"}, "kv_depth=3")],
)
def test_words_go_back_and_rings_become_shorter(settings: dict[str, str], advice: str) -> None:
    fix = refusal("attention_fwd", "b200", **settings)
    assert fix.startswith(f"--set {advice} instead of {next(iter(settings.values()))} has a")


@pytest.mark.medium
def test_no_tile_is_advised_that_no_product_has() -> None:
    """With 32 rows there is a schedule, and no wgmma of 32 rows."""
    settings = {"head_dim": "128", "rows": "128", "keys": "256"}
    fix = refusal("attention_fwd", "h200", **settings)
    assert fix == "free 292 registers of a thread; no change of a single buffer is enough"


@pytest.mark.slow
def test_nothing_is_advised_that_computes_something_else() -> None:
    asked: list[dict[str, str]] = []
    spec, machine = read_spec("attention_fwd"), read_machine("b200")
    settings = {"head_dim": "128", "p_storage": "none", "causal": "true"}
    settings_that_help(spec, machine, settings, lambda changed: bool(asked.append(dict(changed))))
    assert asked
    assert {changed["head_dim"] for changed in asked} == {"128"}
    assert {changed["causal"] for changed in asked} == {"true"}
    assert all("dtype" not in changed for changed in asked)


@pytest.mark.medium
def test_what_was_tried_in_vain_is_not_advised() -> None:
    spec, machine = read_spec("gemm"), read_machine("b200")
    assert settings_that_help(spec, machine, {"tile_k": "512"}, lambda _: False) is None
