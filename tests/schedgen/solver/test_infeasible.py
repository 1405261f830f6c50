"""Kernels without any schedule: the rule, the numbers, and a fix that works when it is applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.bounds import ImpossibleCycle
from schedgen.dependence import derive
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Depth,
    Kernel,
    Kind,
    Operation,
    Order,
    Phase,
    Piece,
    Read,
    Region,
    Ring,
    Space,
)
from schedgen.machine_file import read_machine
from schedgen.solver import infeasible
from schedgen.solver.confirm import Confirmation
from schedgen.solver.infeasible import Diagnosis, diagnose, least
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.search import smallest
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec


def shipped(name: str, target: str, **fixed: str) -> Problem:
    spec = read_spec(name)
    kernel = bind(spec.source, spec.file, target, fixed)[0]
    return build_problem(kernel, read_machine(target), derive(kernel), "high")


def tile(name: str, space: Space, columns: int, slots: int = 1) -> Region:
    return Region(name, name, space, (128, columns), "f32", Depth(slots, slots))


def operation(name: str, kind: Kind, reads: list[tuple[str, int]], *writes: str) -> Operation:
    read = tuple(Read(piece, distance) for piece, distance in reads)
    return Operation(name, name, kind, Phase.BODY, read, writes, latency=4)


def problem(
    regions: list[Region],
    operations: list[Operation],
    *,
    rings: tuple[Ring, ...] = (),
    orders: tuple[Order, ...] = (),
) -> Problem:
    kernel = Kernel(
        *("toy", "b200", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(Piece(r.name, r.name, 0, r.rows, 0, r.row_bytes) for r in regions),
        rings=rings,
        operations=tuple(operations),
        orders=orders,
    )
    return build_problem(kernel, read_machine("b200"), derive(kernel), "high")


def found(problem: Problem, rule: str) -> Diagnosis:
    assert not schedulable(problem)
    diagnosis = diagnose(problem)
    assert diagnosis is not None
    assert diagnosis.rule == rule
    return diagnosis


def schedulable(problem: Problem) -> bool:
    """What the search says, in both its ways to say no."""
    try:
        return smallest(problem) is not None
    except ImpossibleCycle:
        return False


def works(problem: Problem) -> bool:
    return diagnose(problem) is None and schedulable(problem)


# -- capacities --------------------------------------------------------------------------------


def staged(columns: int, slots: int, wide: int = 128) -> Problem:
    """Two loads of f32 tiles, 512 bytes a column, that one operation reads."""
    loaded = [tile("a", Space.SMEM, columns, slots), tile("b", Space.SMEM, wide)]
    operations = [
        operation("LA", Kind.LOAD, [], "a"),
        operation("LB", Kind.LOAD, [], "b"),
        operation("F", Kind.MAP, [("a", 0), ("b", 0)], "t"),
    ]
    return problem([*loaded, tile("t", Space.TMEM, 16)], operations)


def test_too_many_slots() -> None:
    """Five slots of 64 columns and 128 more are 448 x 512 bytes; a sixth slot does not fit."""
    assert works(staged(64, 5))
    diagnosis = found(staged(64, 6), "smem-capacity")
    assert "262144 bytes of shared memory, 30720 more than the 231424" in diagnosis.message
    assert "a 196608, b 65536" in diagnosis.message
    assert diagnosis.fix == "give a 5 slots, or free 30720 bytes of shared memory in another way"
    assert works(staged(64, 6, wide=64))
    assert not works(staged(64, 6, wide=80))


def test_no_fix_that_makes_something_else_impossible() -> None:
    """With one slot of x it fits, but then B would have to read what A has written over."""
    regions = [tile("x", Space.SMEM, 256, 2), tile("y", Space.SMEM, 8)]
    regions += [
        tile("h", Space.SMEM, 8),
        replace(tile("t", Space.SMEM, 8), options=(AliasOption("h"),)),
    ]
    made = [
        operation("A", Kind.MAP, [], "x", "y"),
        operation("B", Kind.MAP, [("y", 0), ("x", 1)], "h"),
        operation("C", Kind.MAP, [("h", 0)], "t"),
    ]
    diagnosis = found(problem(regions, made), "smem-capacity")
    assert "slot" not in diagnosis.fix
    assert diagnosis.fix.startswith("make x, and what has its columns, at most 2")


@pytest.mark.medium
def test_a_ring_with_too_many_slots() -> None:
    diagnosis = found(shipped("attention_fwd", "b200", kv_depth="8"), "smem-capacity")
    over = 8 * 32768 + 133120 - 231424
    assert f"{over} more than the 231424 there are beside 1024" in diagnosis.message
    assert diagnosis.fix.startswith("give ring kv 3 slots")
    assert works(shipped("attention_fwd", "b200", kv_depth="3", exp2_polynomial="0"))


def accumulators(columns: int, tenant: int = 0) -> Problem:
    """Two accumulators, and a tile that can be stored in the first one or on its own."""
    s, o = tile("s", Space.TMEM, 256), tile("o", Space.TMEM, columns)
    p = tile("p", Space.TMEM, tenant or 64)
    inside = AliasOption("s", s.row_bytes - p.row_bytes)
    options = (inside, OWN_STORAGE) if tenant else (OWN_STORAGE,)
    regions = [s, o, replace(p, options=options)]
    operations = [
        operation("S", Kind.MAP, [], "s"),
        operation("P", Kind.MAP, [("s", 0)], "p"),
        operation("O", Kind.MAP, [("p", 0)], "o"),
    ]
    return problem(regions, operations)


def test_too_many_columns() -> None:
    assert works(accumulators(192))
    diagnosis = found(accumulators(200), "tmem-capacity")
    assert "520 columns of tensor memory, 8 more than the 512" in diagnosis.message
    assert "s 256, o 200, p 64" in diagnosis.message
    assert diagnosis.fix.startswith("make o, and what has its columns, at most 192 columns wide")


def test_tensor_memory_counts_the_best_case() -> None:
    """Inside its host the tenant takes nothing."""
    assert least(accumulators(256, tenant=64), "tmem") == 512
    assert works(accumulators(256, tenant=64))
    diagnosis = found(accumulators(257, tenant=64), "tmem-capacity")
    assert "1 more than the 512" in diagnosis.message
    assert diagnosis.fix.startswith("make o, and what has its columns, at most 256 columns wide")


def registers(columns: int, roles: int) -> Problem:
    """As many groups of 16 registers beside a tile of ``columns`` registers."""
    regions = [tile("a", Space.SMEM, 8)]
    operations = [operation("L", Kind.LOAD, [], "a")]
    for n in range(roles):
        regions.append(replace(tile(f"r{n}", Space.REGISTERS, columns), base="r"))
        made = operation(f"R{n}", Kind.MAP, [("a", 0)], f"r{n}")
        operations.append(replace(made, role=f"role{n}"))
    return problem(regions, operations)


def test_too_many_registers_in_a_role() -> None:
    """A thread has 248 registers, 16 of them are for addresses."""
    assert works(registers(232, 1))
    diagnosis = found(registers(240, 1), "thread-capacity")
    assert "256 registers of a thread, 8 more than the 248" in diagnosis.message
    assert "r0 240, addresses and temporaries 16" in diagnosis.message
    assert diagnosis.fix.startswith("make r, and what has its columns, at most 224 columns wide")


def test_too_many_registers_in_all() -> None:
    """Three roles of 160 + 16 registers beside 24 for the loads; 512 are 152 for each."""
    diagnosis = found(registers(160, 3), "registers-capacity")
    assert "at least 552 registers per thread of all roles, 40 more than" in diagnosis.message
    assert diagnosis.fix.startswith("make r, and what has its columns, at most 144 columns wide")
    assert works(registers(144, 3))  # 3 * (144 + 16) + 24 = 504
    assert not works(registers(145, 3))


# -- dependences and storage -------------------------------------------------------------------


def carried(slots: int, distance: int) -> Problem:
    """B reads y of this iteration and x of an earlier one, both written by A."""
    regions = [tile(name, Space.TMEM, 8, slots if name == "x" else 1) for name in "xyz"]
    operations = [
        operation("A", Kind.MAP, [], "x", "y"),
        operation("B", Kind.MAP, [("y", 0), ("x", distance)], "z"),
    ]
    return problem(regions, operations)


@pytest.mark.parametrize("distance", [1, 2])
def test_too_few_slots(distance: int) -> None:
    diagnosis = found(carried(distance, distance), "dependence-cycle")
    assert "-> B (flow y)" in diagnosis.message
    assert "-> A (anti x)" in diagnosis.message
    assert "spans 0 iterations" in diagnosis.message
    assert diagnosis.fix == f"give x {distance + 1} slots"
    assert works(carried(distance + 1, distance))
    assert found(carried(1, 2), "dependence-cycle").fix == "give x 3 slots"


def shared(options: tuple[AliasOption, ...]) -> Problem:
    """R reads s after P, which may live in it, was written."""
    p = replace(tile("p", Space.TMEM, 8), options=options)
    regions = [tile("s", Space.TMEM, 8), p, tile("r", Space.TMEM, 8)]
    operations = [
        operation("S", Kind.MAP, [], "s"),
        operation("P", Kind.MAP, [("s", 0)], "p"),
        operation("R", Kind.MAP, [("s", 0), ("p", 0)], "r"),
    ]
    return problem(regions, operations)


def test_a_tenant_that_comes_too_early() -> None:
    diagnosis = found(shared((AliasOption("s"),)), "dependence-cycle")
    assert "(anti p in s)" in diagnosis.message
    assert diagnosis.fix == "store p in memory of its own (alias: none)"
    assert works(shared((OWN_STORAGE,)))


def ordered(*orders: Order) -> Problem:
    regions = [tile("x", Space.TMEM, 8), tile("y", Space.TMEM, 8)]
    operations = [operation("A", Kind.MAP, [], "x"), operation("B", Kind.MAP, [("x", 0)], "y")]
    return problem(regions, operations, orders=orders)


def test_an_order_against_the_data() -> None:
    backwards = Order("backwards", (("B", 0), ("A", 0)))
    diagnosis = found(ordered(backwards), "dependence-cycle")
    assert "(order backwards)" in diagnosis.message
    assert diagnosis.fix == "leave out the order backwards"
    assert works(ordered())


def test_no_alternative_is_possible() -> None:
    """Either version of s is still needed when P is written, and there is no other place."""
    diagnosis = found(shared((AliasOption("s"), AliasOption("s", 0, 1))), "no-alternative")
    assert "for the place of p is possible; in s: operations wait" in diagnosis.message
    assert "in s of iteration +1: operations wait" in diagnosis.message
    assert diagnosis.fix == "store p in memory of its own (alias: none) (starting from in s)"


def test_a_ring_that_is_too_short() -> None:
    """One operation needs both tiles of a ring with one slot."""

    def ringed(slots: int) -> Problem:
        members = [replace(tile(n, Space.SMEM, 8), ring="kv") for n in ("k", "v")]
        operations = [
            operation("LK", Kind.LOAD, [], "k"),
            operation("LV", Kind.LOAD, [], "v"),
            operation("F", Kind.MAP, [("k", 0), ("v", 0)], "t"),
        ]
        ring = Ring("kv", ("k", "v"), Depth(slots, slots), ((0, 0), (0, 1)))
        return problem([*members, tile("t", Space.TMEM, 8)], operations, rings=(ring,))

    diagnosis = found(ringed(1), "no-alternative")
    assert "for the ring kv is possible; 1 slot with lags 0, 0: operations" in diagnosis.message
    assert diagnosis.fix == "give ring kv 2 slots"
    assert works(ringed(2))


def test_two_tenants_of_one_host() -> None:
    """Each of p and q fits into s alone; own storage is too large for either."""
    inside = (AliasOption("s"), OWN_STORAGE)
    p, q = (replace(tile(name, Space.TMEM, 300), options=inside) for name in "pq")
    regions = [tile("s", Space.TMEM, 400), p, q, tile("r", Space.TMEM, 8)]
    operations = [
        operation("S", Kind.MAP, [], "s"),
        operation("P", Kind.MAP, [("s", 0)], "p"),
        operation("Q", Kind.MAP, [("p", 0)], "q"),
        operation("R", Kind.MAP, [("q", 0)], "r"),
    ]
    diagnosis = found(problem(regions, operations), "tmem-capacity")
    assert "708 columns of tensor memory, 196 more" in diagnosis.message


@pytest.mark.medium
@pytest.mark.parametrize("name", ["gemm", "gemm_chain", "gemm_symmetric", "attention_fwd"])
@pytest.mark.parametrize("target", ["b200", "h200"])
def test_nothing_is_wrong_with_what_is_shipped(name: str, target: str) -> None:
    assert diagnose(shipped(name, target)) is None


def test_says_when_z3_cannot_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(_: Problem, ii: int) -> Confirmation:
        return Confirmation(ii, "unknown", "Z3 gave up", 0.0)

    monkeypatch.setattr(infeasible, "confirm_infeasible", gives_up)
    diagnosis = diagnose(ordered())
    assert diagnosis is not None
    assert diagnosis.rule == "undecided"
