"""Which operations of threads become one, and what that takes."""

from __future__ import annotations

from schedgen.execution.fused import fused
from schedgen.kernel import Space
from schedgen.program.model import Program, Run, Step, Wait
from schedgen.program.operations import Access, Engine, Number, TileOperation
from tests.schedgen.proof.small import EACH, barrier_of, loop, program


def touched(name: str, width: int, *, write: bool = False) -> Access:
    return Access(name, Number(), (0, 64), (0, width), write, (0, 0, 0), name)


def does(
    name: str, unit: str, cycles: int, rest: int, *accesses: Access, engine: Engine = Engine.THREADS
) -> TileOperation:
    time = (cycles + rest, cycles + rest)
    return TileOperation(name, engine, accesses, time, time, 0, ((unit, cycles),))


SUB = does("SUB", "FMA", 64, 10, touched("x", 512), touched("x", 512, write=True))
EXP = does("EXP", "MUFU", 512, 20, touched("x", 512), touched("x", 512, write=True))
MAX = does("MAX", "ALU", 128, 60, touched("x", 512), touched("m", 4, write=True))
STAT = does("STAT", "FMA", 1, 50, touched("m", 4), touched("a", 4, write=True))
MMA = does("MMA", "TENSOR", 512, 75, engine=Engine.WGMMA)


def of(*steps: Step | Run | Wait) -> Program:
    return program(
        {"one": loop(*steps)},
        (barrier_of("b"),),
        (SUB, EXP, MAX, STAT, MMA),
        (("x", Space.REGISTERS, 1),),
    )


def names(what: Program) -> list[str]:
    return [s.action.operation for s in what.roles[0].loop if isinstance(s.action, Run)]


def test_neighbours_become_one() -> None:
    found = fused(of(Run("SUB"), Run("EXP")))
    assert names(found) == ["SUB+EXP"]
    made = found.operation["SUB+EXP"]
    assert dict(made.units) == {"MUFU": 512, "FMA": 64}
    assert made.latency == made.hold == (512 + 30, 512 + 30)


def test_what_needs_a_reduction_waits_for_it() -> None:
    found = fused(of(Run("SUB"), Run("MAX"), Run("STAT"), Run("EXP")))
    assert names(found) == ["SUB+MAX", "STAT+EXP"]


def test_steps_between_keep_apart() -> None:
    assert names(fused(of(Run("SUB"), Wait("b", EACH), Run("EXP")))) == ["SUB", "EXP"]
    assert names(fused(of(Run("SUB"), Run("MMA"), Run("EXP")))) == ["SUB", "MMA", "EXP"]


def test_another_iteration_keeps_apart() -> None:
    assert names(fused(of(Run("SUB"), Step(Run("EXP"), shift=1)))) == ["SUB", "EXP"]


def test_without() -> None:
    found = fused(of(Run("SUB"), Run("EXP")), without={"SUB"})
    made = found.operation["SUB+EXP"]
    assert dict(made.units) == {"MUFU": 512}
    assert made.latency == (532, 532)
