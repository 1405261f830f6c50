"""FlashAttention-4's hand-written synchronization as a Program, to be proven like any other.

Storage and operations are those of our own program for the same storage map and product order;
roles, barriers and where each wait and arrival stands are FA4's (`flash_fwd_sm100.py`, two query
tiles, one CTA, a ring of 3). What had to change, and why:

Numbers. A phase of a Program has a number that iterations or tiles count, so that it is the same
formula in every tile. FA4 gives `s_p_o empty` a credit before its first tile, n - 1 arrivals of
CR(1) ... CR(n - 1), and one after EPI, which lets the first PV of the next tile write O. These are
n for n iterations; here CR(0), which has nothing to rescale, makes the arrival that was the credit.
It comes after EPI of the tile before, because one role does both, and PV(0) loses nothing: it
waits for STPa(0), which comes after the statistics that CR(0) waits for.

`sm_stats` has n + 1 phases per tile: one per iteration, one for the final sum. No number counts
that, so the last one is a barrier of its own here (``final``), in both directions. `in_hardware`
counts it as FA4 does.

Order of the releases. `sm_stats empty` of tile 1 is given one iteration later, after CR_0(j + 1)
or behind the loop; that is a step with shift 1. In iteration 0 FA4 releases tile 0 before CR_1(0),
here it is after, as in all other iterations.

Threads. FA4 pairs softmax and correction warps through eight named barriers of 64 threads; a role
is the finest grain here, so there are two. Threads that wait at a named barrier do not count.

LSE. FA4's correction threads write it to global memory; our spec sends it through shared memory, so
INV and STL need an order: STL follows `o_epi full`, and INV waits for `o_epi empty`.

Fences. `tcgen05.wait::ld/st` and the fences around thread synchronization stand before the arrivals
and behind the waits that FA4 has; there is none before QK, which waits for no thread.

Empty tiles. A tile without iterations has no place in this protocol: all that ties `o_acc full` to
the correction is the wait of PV for CR, so that the tensor role, which meets none in such a tile,
could commit for tile after tile before anybody has looked. FA4 skips the tile in all roles instead.
``empty_tiles`` adds one wait per tile of the tensor role for `o_epi full` of the tile before, the
way our own program does it. It costs no time where tiles have iterations: by then CR(0) has come
after that, in the same role. Without it, `prove_filled` has the proof for all other tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import (
    FIRST,
    LAST,
    Arrive,
    Barrier,
    Commit,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Number
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

SETTINGS = {
    "head_dim": "128",
    "exp2_polynomial": "3/16",
    "p_storage": "own",
    "product_order": "pv_first",
    "kv_lag": "0",
}
"""FA4's storage map and order of products, and its ring of 3 (the solver's choice as well)."""

STAGES = (0, 1)
THREADS = 128
RING = 3
EACH, TILE = Number(), Number(per_tile=True)
KEYS, VALUES = Number(2), Number(2, 1)
"""Turns of the ring that K and V share."""

LOADED = Fence(FenceKind.TMEM_LOADED)
STORED = Fence(FenceKind.TMEM_STORED)
BEFORE = Fence(FenceKind.TMEM_BEFORE)
AFTER = Fence(FenceKind.TMEM_AFTER)
PROXY = Fence(FenceKind.ASYNC_PROXY)


FINAL = " final"
"""Ends the names of barriers that FA4 has not: phase n + 1 of a tile of the one without it."""


def our_program() -> Program:
    """What we make of FA4's storage map and product order."""
    solution = solve(read_spec("attention_fwd"), read_machine("b200"), settings=SETTINGS)
    problem = solution.problem
    return synthesize(problem.kernel, solution.schedule, problem.machine)


def fa4_program(ours: Program, *, empty_tiles: bool = True) -> Program:
    """The operations and the storage of ``ours`` with FA4's roles and barriers."""
    if ours.allocation["kv"].slots != RING:
        raise ValueError(
            f"FA4 has a ring of {RING}, the program one of {ours.allocation['kv'].slots}"
        )
    roles = (_load(), _tensor(empty_tiles), _softmax(0), _softmax(1), _correction(), _epilogue())
    return replace(ours, barriers=tuple(_barriers()), roles=roles, removals=())


def in_hardware(barriers: Iterable[Barrier]) -> list[Barrier]:
    """Each barrier once that FA4 has: phase n + 1 of a tile needs none of its own there."""
    return [barrier for barrier in barriers if not barrier.name.endswith(FINAL)]


def _barriers() -> Iterator[Barrier]:
    """The table of FA4's barriers; what nobody waits for there is left out."""

    def barrier(
        name: str, arrivals: int, *protects: str, named: bool = False, slots: int = 1, size: int = 0
    ) -> Barrier:
        kind = "named" if named else "mbarrier"
        return Barrier(name, kind, slots, arrivals, size, protects=protects)

    yield barrier(
        *("load_KV full", 1, "QK[0] uses K after LK", "PV[0,0] uses V after LV"),
        slots=RING,
        size=32768,
    )
    yield barrier(
        *("load_KV empty", 1, "LV writes over K after QK[1]", "LK writes over V after PV[1,1]"),
        slots=RING,
    )
    for s in STAGES:
        yield barrier(f"load_Q[{s}] full", 1, f"QK[{s}] uses sQ[{s}] after LQ[{s}]", size=32768)
        yield barrier(f"load_Q[{s}] empty", 1, f"LQ[{s}] writes over sQ[{s}] after QK[{s}]")
        yield barrier(f"s_p_o[{s}] full", 1, f"LDS[{s}] uses S[{s}] after QK[{s}]")
        yield barrier(
            f"s_p_o[{s}] empty",
            2 * THREADS,
            f"PV[{s},0] uses P[{s},0] after STP[{s},0]",
            f"PV[{s},0] uses O[{s}] after CR[{s}]",
            f"PV[{s},0] writes over O[{s}] after EPI[{s}]",
        )
        yield barrier(f"p_lastsplit[{s}] full", 4, f"PV[{s},1] uses P[{s},1] after STP[{s},1]")
        yield barrier(f"o_acc[{s}] full", 1, f"EPI[{s}] uses O[{s}] after PV[{s},1]")
        text = f"CR[{s}] uses sAlpha[{s}] after PUB[{s}]"
        yield barrier(f"sm_stats[{s}] full", THREADS, text, named=True)
        text = f"EPI[{s}] uses sAlpha[{s}] after INV[{s}]"
        yield barrier(f"sm_stats[{s}] full{FINAL}", THREADS, text, named=True)
        yield barrier(
            f"sm_stats[{s}] empty",
            THREADS,
            f"PUB[{s}] writes over sAlpha[{s}] after CR[{s}]",
            f"INV[{s}] writes over sAlpha[{s}] after CR[{s}]",
        )
        text = f"PUB[{s}] writes over sAlpha[{s}] after EPI[{s}]"
        yield barrier(f"sm_stats[{s}] empty{FINAL}", THREADS, text)
        yield barrier(f"o_epi[{s}] full", THREADS, f"STO[{s}] uses sO[{s}] after EPI[{s}]")
        yield barrier(f"o_epi[{s}] empty", 32, f"EPI[{s}] writes over sO[{s}] after STO[{s}]")


def _load() -> RoleProgram:
    """FA4 loads K0 before Q0 and Q1; copies are not ordered, so this is a matter of speed."""
    before: list[Step] = []
    for s in STAGES:
        full = f"load_Q[{s}] full"
        before += [
            Step(Wait(f"load_Q[{s}] empty", TILE.moved(-1))),
            Step(Arrive(full, TILE, 1, 32768)),
            Step(Run(f"LQ[{s}]", full, TILE, 32768)),
        ]
    loop: list[Step] = []
    for operation, number in (("LK", KEYS), ("LV", VALUES)):
        loop += [
            Step(Wait("load_KV empty", number.moved(-RING))),
            Step(Arrive("load_KV full", number, 1, 32768)),
            Step(Run(operation, "load_KV full", number, 32768)),
        ]
    return RoleProgram("load", 1, 48, tuple(before), tuple(loop))


def _tensor(empty_tiles: bool) -> RoleProgram:
    """PV_0(j - 1), QK_0(j), PV_1(j - 1), QK_1(j); the first and the last turn are FA4's prologue
    and epilogue.
    """
    loop: list[Step] = [Step(Wait("load_KV full", VALUES), 1)]
    for s in STAGES:
        loop += [
            Step(Wait(f"s_p_o[{s}] empty", EACH), 1, why="P is there and O is rescaled"),
            Step(AFTER, 1),
            Step(Run(f"PV[{s},0]"), 1),
            # In FA4 this wait is inside of the assembly of PV, after 6 of 8 steps.
            Step(Wait(f"p_lastsplit[{s}] full", EACH), 1),
            Step(AFTER, 1),
            Step(Run(f"PV[{s},1]"), 1),
            *([Step(Wait(f"o_epi[{s}] full", TILE.moved(-1)), 1, LAST)] if empty_tiles else []),
            Step(Commit(f"o_acc[{s}] full", TILE), 1, LAST),
        ]
        if s == STAGES[-1]:
            loop.append(Step(Commit("load_KV empty", VALUES), 1))
        if s == 0:
            loop.append(Step(Wait("load_KV full", KEYS)))
        loop += [
            Step(Wait(f"load_Q[{s}] full", TILE), 0, FIRST),
            Step(Run(f"QK[{s}]"), why="PV was issued before: S is read and P is used up"),
            Step(Commit(f"s_p_o[{s}] full", EACH)),
        ]
    loop.append(Step(Commit("load_KV empty", KEYS)))
    loop += [Step(Commit(f"load_Q[{s}] empty", TILE), 0, LAST) for s in STAGES]
    return RoleProgram("mma", 1, 48, loop=tuple(loop))


def _softmax(s: int) -> RoleProgram:
    before = (Step(Wait(f"sm_stats[{s}] empty{FINAL}", TILE.moved(-1))),)
    loop = (
        Step(Wait(f"s_p_o[{s}] full", EACH)),
        Step(AFTER),
        Step(Run(f"LDS[{s}]")),
        Step(LOADED),
        Step(Run(f"MASK[{s}]")),
        Step(Run(f"MAX[{s}]")),
        Step(Run(f"PUB[{s}]")),
        Step(Arrive(f"sm_stats[{s}] full", EACH, THREADS)),
        Step(Run(f"SUB[{s}]")),
        Step(Run(f"EXP[{s},0]")),
        Step(Run(f"EXP[{s},1]")),
        Step(Run(f"STP[{s},0]")),
        Step(STORED),
        Step(BEFORE),
        Step(Arrive(f"s_p_o[{s}] empty", EACH, THREADS)),
        Step(Run(f"STP[{s},1]")),
        Step(STORED),
        Step(BEFORE),
        # One elected lane of each warp.
        Step(Arrive(f"p_lastsplit[{s}] full", EACH, 4)),
        Step(Wait(f"sm_stats[{s}] empty", EACH)),
        Step(Run(f"SUM[{s}]")),
    )
    after = (
        # Ours, for the LSE in shared memory.
        Step(Wait(f"o_epi[{s}] empty", TILE.moved(-1)), why=f"INV[{s}] writes over sLse[{s}]"),
        Step(Run(f"INV[{s}]")),
        Step(PROXY),
        Step(Arrive(f"sm_stats[{s}] full{FINAL}", TILE, THREADS)),
    )
    return RoleProgram(f"softmax{s}", 4, 192, before, loop, after)


def _correction() -> RoleProgram:
    loop: list[Step] = []
    for s in STAGES:
        other = STAGES[-1] - s
        loop += [
            Step(Wait(f"sm_stats[{s}] full", EACH)),
            Step(AFTER),
            Step(Run(f"CR[{s}]")),
            Step(LOADED),
            Step(STORED),
            Step(BEFORE),
            Step(Arrive(f"s_p_o[{s}] empty", EACH, THREADS)),
            # Each CR releases the statistics of the other tile. After CR_0 those of the iteration
            # before are released: SUM_1(j) waits for CR_0(j + 1), the last one for the last turn.
            Step(Arrive(f"sm_stats[{other}] empty", EACH, THREADS), other),
        ]
    after: list[Step] = []
    for s in STAGES:
        after += [
            Step(Wait(f"sm_stats[{s}] full{FINAL}", TILE)),
            Step(Wait(f"o_acc[{s}] full", TILE)),
            Step(Wait(f"o_epi[{s}] empty", TILE.moved(-1))),
            Step(AFTER),
            Step(Run(f"EPI[{s}]")),
            Step(LOADED),
            Step(BEFORE),
            # FA4 has the sum in a register and releases it before it waits for O.
            Step(Arrive(f"sm_stats[{s}] empty{FINAL}", TILE, THREADS)),
            Step(PROXY),
            Step(Arrive(f"o_epi[{s}] full", TILE, THREADS)),
        ]
    return RoleProgram("correction", 4, 80, loop=tuple(loop), after=tuple(after))


def _epilogue() -> RoleProgram:
    after: list[Step] = []
    for s in STAGES:
        after += [
            Step(Wait(f"o_epi[{s}] full", TILE)),
            Step(Run(f"STO[{s}]")),
            Step(Run(f"STL[{s}]")),
        ]
    for s in STAGES:
        after += [
            Step(WaitGroup(f"STO[{s}]")),
            Step(WaitGroup(f"STL[{s}]")),
            Step(Arrive(f"o_epi[{s}] empty", TILE, 32)),
        ]
    return RoleProgram("epilogue", 1, 48, after=tuple(after))
