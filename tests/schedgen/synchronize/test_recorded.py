"""Decisions of a synchronization as lines of text, and back."""

from __future__ import annotations

import pytest

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import FIRST, FenceKind
from schedgen.program.operations import Number
from schedgen.reasons import Reason, ReasonKind
from schedgen.spec.reader import read_spec
from schedgen.synchronize.parts import Fenced, Handoff, Meeting, Signal, Synchronization
from schedgen.synchronize.recorded import lines, synchronization
from schedgen.synchronize.synthesize import resynchronized, synchronized

MADE = Synchronization(
    (
        Handoff(Signal("LA", Number(), 3), "MMA[0]", Number(), "sA", True),
        Handoff(Signal("A[0,1]", Number(2, 5, True), 1), "B", Number(2, -3, True), "kv", False),
    ),
    (Fenced("PUT[0,0]", FenceKind.ASYNC_PROXY), Fenced("MMA[0]", FenceKind.REGISTERS, FIRST)),
    ("MMA[1]",),
    (
        Meeting("B", protects=(Reason(ReasonKind.OVERWRITES_AFTER, ("PUT", "sC", "STD[0]")),)),
        Meeting("C[1]", FIRST, (), "warp"),
    ),
    ((("sA full sB full", 0), 4), (("sC empty by A[0,1]", 2), 2)),
)


def test_text() -> None:
    assert list(lines(MADE)) == [
        "LA c of 3 -> MMA[0] c uses sA",
        "A[0,1] 2t+5 of 1 -> B 2t-3 overwrites kv",
        "fence.proxy.async of PUT[0,0]",
        "wgmma.fence of MMA[0], first",
        "wait_group of MMA[1]",
        "role meeting of B",
        "  overwrites_after PUT sC STD[0]",
        "warp meeting of C[1], first",
        "4 slots of sA full sB full",
        "2 slots of sC empty by A[0,1], 2",
    ]
    assert synchronization(lines(MADE)) == MADE


@pytest.mark.parametrize("line", ["", "LA", "LA c of 3 -> MMA", "mist.fence of A", "  uses A", "x"])
def test_no_decision(line: str) -> None:
    with pytest.raises(ValueError, match=r"is no decision|is not a valid"):
        synchronization([line])


@pytest.mark.medium
@pytest.mark.parametrize("spec", ["gemm_symmetric", "attention_fwd", "gemm_sum"])
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_the_same_program_comes_of_them(spec: str, target: str) -> None:
    machine = read_machine(target)
    solution = solve(read_spec(spec), machine)
    kernel, schedule = solution.problem.kernel, solution.schedule
    found = synchronized(kernel, schedule, machine)
    made = synchronization(list(lines(found.made)))
    program = resynchronized(kernel, schedule, machine, made, late=found.late)
    assert program.roles == found.program.roles
    assert program.barriers == found.program.barriers
    assert program.setup == found.program.setup
