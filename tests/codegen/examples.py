"""What tests of the emitter share: solved specs, as plans and as texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from schedgen.codegen.binding import bound
from schedgen.codegen.emit import emit
from schedgen.codegen.plan import Plan
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.emulator.machine import launch
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.proof.prove import ProvenProgram
from schedgen.spec.reader import read_spec

SPECS = Path(__file__).parent.parent / "data" / "specs"
ARCHITECTURES = {"h200": "sm_90a", "b200": "sm_100a"}
GEMM = {"tile_m": "128", "tile_n": "32", "slice_n": "16", "consumers": "1"}
"""Settings of a small product for Blackwell."""


@cache
def _solved(
    spec: str, target: str, settings: tuple[tuple[str, str], ...]
) -> tuple[ProvenProgram, Kernel]:
    solution = solve(read_spec(spec), read_machine(target), settings=dict(settings))
    return prove_solution(solution).proven, solution.problem.kernel


def solved(spec: str | Path, target: str, **settings: str) -> tuple[ProvenProgram, Kernel]:
    """A proven program and its kernel."""
    return _solved(str(spec), target, tuple(settings.items()))


def room_for(ctas: int, patch: pytest.MonkeyPatch) -> None:
    """Has the emulator hold so few CTAs at a time: others begin when one of them has ended."""
    defaults = launch.execute.__kwdefaults__
    assert defaults is not None
    patch.setitem(defaults, "processors", ctas)


def plan_of(spec: str | Path, target: str, **settings: str) -> Plan:
    proven, kernel = solved(spec, target, **settings)
    return Plan(proven.program, bound(kernel))


def text_of(spec: str | Path, target: str, **settings: str) -> str:
    """A generated file, as it is before it is formatted."""
    return emit(*solved(spec, target, **settings))
