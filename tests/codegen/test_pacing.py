"""Orders of pace in generated files: emitted, compiled, compared with the program, executed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from schedgen.codegen.facts import read_facts
from schedgen.codegen.ir import Numbered
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import lines_of
from schedgen.codegen.report import compile_report
from schedgen.conform.actions import kind
from schedgen.conform.check import conform
from schedgen.driver import emitting, lock_file
from schedgen.driver.deriving import derived
from schedgen.driver.emitting import Emission
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import shapes
from schedgen.driver.locked import lock_of, program_of, text_of
from schedgen.driver.proved import QUICK
from schedgen.driver.selecting import acceptable
from schedgen.driver.solution import solve
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Instruction
from schedgen.errors import SchedgenError
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from schedgen.stored import Store


@cache
def emitted(head_dim: str, *, causal: bool = False) -> Emission:
    settings = {"head_dim": head_dim, "causal": str(causal).lower()}
    found = solve(read_spec("attention_fwd"), read_machine("h200"), settings=settings)
    return emitting.written(found, settings, methods=QUICK, pace=("TENSOR",))


def test_nodes() -> None:
    nodes = [Numbered(3, 256, waits=False), Numbered(3, 256, waits=True)]
    assert list(lines_of(nodes)) == [
        "cute.arch.barrier_arrive(barrier_id=3, number_of_threads=256)",
        "cute.arch.barrier(barrier_id=3, number_of_threads=256)",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", ["64", "128"])
def test_barriers_of_the_hardware(head_dim: str) -> None:
    """One for each order, behind that of all threads; those that wait take part in it."""
    made = emitted(head_dim)
    plan = Plan(made.proven.program, made.solution.problem.kernel)
    count = 3 if head_dim == "64" else 2
    assert [*plan.numbered.of_pace.values()] == [*range(1, count + 1)]
    assert {plan.numbered.pace_threads(name) for name in plan.numbered.of_pace} == {256}


@pytest.mark.medium
def test_equal_roles_stay_one_function() -> None:
    """Which barrier a warpgroup waits at follows from its number, as its tiles of storage do."""
    text = emitted("128").text
    assert text.count("cute.arch.barrier(barrier_id=instance + 1, number_of_threads=256)") == 2
    assert text.count("cute.arch.barrier_arrive(barrier_id=2 - instance,") == 2
    granted = "# number 0, which no turn provides\n        cute.arch.barrier_arrive(barrier_id=1,"
    assert text.count(granted) == 1


@pytest.mark.medium
def test_locked(tmp_path: Path) -> None:
    """The decisions of a lock have the orders, and give the same program and text again."""
    made, settings = emitted("128"), {"head_dim": "128", "causal": "false"}
    path = tmp_path / "attention_fwd_sm_90a.json"
    path.write_text(lock_file.text(lock_of([(made, settings)])), "utf-8")
    lock = lock_file.read(path)
    (schedule,) = lock.schedules
    one = lock_file.Locked(lock, schedule, schedule.kernels[0])
    assert "pace TENSOR: PV[0,0] 1 -> QK[1] 0, 0" in schedule.synchronization
    assert replace(program_of(one)[0], removals=()) == replace(made.proven.program, removals=())
    assert text_of(one) == made.text


# -- compiled --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compiled_and_compared(tmp_path: Path) -> None:
    """The PTX has each arrival and wait where the program has it, and none can be left out or be at
    another barrier.
    """
    made = emitted("64")
    path = tmp_path / made.name
    path.write_text(made.text, "utf-8")
    report = compile_report(path, tmp_path)
    assert acceptable(report)
    facts = read_facts(path)
    program, kernel = derived(facts, None, str(path), store=Store(tmp_path / "store"))
    assert program == made.proven.program
    module = parse(report.built.ptx.read_text("utf-8"), made.name)
    assert conform(module, program, kernel).findings == ()
    (code,) = module.kernels.values()
    mine = [at for at, one in enumerate(code.body) if kind(one) in ("bar.arrive", "bar.sync")]
    arrivals = [at for at in mine if kind(code.body[at]) == "bar.arrive"]
    assert len(arrivals) >= 2  # one in the loop at least, and what is granted
    for at in arrivals:
        nothing = Instruction("nop", (), (), code.body[at].line)
        body = (*code.body[:at], nothing, *code.body[at + 1 :])
        changed = replace(module, kernels={code.name: replace(code, body=body)})
        assert not conform(changed, program, kernel).holds


@pytest.mark.slow
@pytest.mark.parametrize(("head_dim", "causal"), [("64", False), ("128", True)])
def test_executed(head_dim: str, *, causal: bool) -> None:
    made = emitted(head_dim, causal=causal)
    kernel = made.solution.problem.kernel
    with compiled(made.text, kernel, "sm_90a", sms=1) as function:
        for name in ("tiny", "ragged"):
            outcome = function.run(shapes(kernel)[name], Adversarial(0))
            assert outcome.correct, (name, outcome.errors)
            assert outcome.clean, outcome.report.text


@pytest.mark.slow
def test_nothing_passes_for_free() -> None:
    """Without what is granted, the first warpgroup waits for ever."""
    made = emitted("128")
    kernel = made.solution.problem.kernel
    granted = "        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=256)\n"
    assert granted in made.text
    with (
        compiled(made.text.replace(granted, ""), kernel, "sm_90a", sms=1) as function,
        pytest.raises(SchedgenError, match="named barrier 1"),
    ):
        function.run(shapes(kernel)["tiny"])
