"""Warpgroups that hand turns to each other: proven as they are, never with a mistake in it."""

from __future__ import annotations

import json

import pytest

from schedgen.benchmarks.mutants.kernels import mutants
from schedgen.emulator.ptx.parse import parse
from schedgen.lift.examine import NOT_LIFTED, PROVEN, REFUTED, Examined, data_of, examine, lines_of
from schedgen.program.model import Grant, Guard
from tests.schedgen.lift.one_tile import STAGE, STAGES
from tests.schedgen.lift.turns import DIVIDED, FIRST, ONCE, PTX, RING, THREADS, copy

OWN, OTHERS = f"bar.sync %own, {THREADS};", f"bar.arrive %next, {THREADS};"


def examined(text: str, methods: tuple[str, ...] = ("graph",)) -> Examined:
    module = parse(text)
    (code,) = module.kernels.values()
    return examine(module, code, methods)


def changed(*changes: tuple[str, str], text: str = PTX) -> Examined:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return examined(text)


@pytest.fixture(scope="module")
def proven() -> Examined:
    return examined(PTX, ("graph", "z3", "execution"))


def test_it_is_proven_by_all_methods(proven: Examined) -> None:
    assert proven.status == PROVEN, list(lines_of(proven))
    (lifted,) = proven.programs
    given = {turn.owner: (turn.giver, turn.first) for turn in lifted.turns}
    assert given == {"warps0": ("warps4", "warps0"), "warps4": ("warps0", "")}
    assert any("given by warps4" in line for line in lines_of(proven))
    assert '"from": "warps4"' in json.dumps(data_of(proven))


def test_one_program_is_without_turns_and_one_has_all(proven: Examined) -> None:
    (lifted,) = proven.programs
    fewer, more = lifted.without_turns, lifted.program
    assert fewer is not None
    names = {turn.barrier for turn in lifted.turns}
    assert not names & {getattr(s.action, "barrier", None) for r in fewer.roles for s in r.steps}
    assert [barrier.skipped for barrier in more.barriers if barrier.kind == "pace"] == [(0,), ()]
    assert [step for role in more.roles for step in role.enter] == [
        Grant("turns at named barrier 2 of 256", 0)
    ]
    kernels = [turn.guard for turn in lifted.turns]
    assert kernels == [Guard(high=1), Guard(high=1)], "the first iteration has no turn"


def test_what_a_tile_has_once_is_loaded_behind_the_first_stage(proven: Examined) -> None:
    (lifted,) = proven.programs
    loop = lifted.program.role["warp8"].loop
    assert sum(step.action.do == "run" and step.guard.kind == "first" for step in loop) == 2


REFUTED_ONES = {
    "nobody begins": ((FIRST, ""),),
    "both begin": (("@%more bra BEGUN;", ""),),
    "turns are kept": ((OTHERS, ""),),
    "turns are given to oneself": ((OTHERS, OTHERS.replace("%next", "%own")),),
    "others' turns are taken": ((OWN, OWN.replace("%own", "%next")),),
    "turns are given before they are taken": ((OTHERS, ""), (OWN, OTHERS + OWN)),
    "a barrier takes more": ((OTHERS, OTHERS.replace(f"{THREADS}", "384")),),
    "the first stage is not awaited": (("@!%done bra WAIT_FIRST;", ""),),
    "other stages are not awaited": (("@!%done bra WAIT_FULL;", ""),),
    "what there is once is not awaited": (("@!%done bra WAIT_ONCE;", ""),),
    "stages are filled too early": (("@!%done bra WAIT_AGAIN;", ""),),
}
SCRATCH = RING + STAGES * STAGE
DOUBTFUL = {
    "a barrier takes fewer": ((OWN, OWN.replace(f"{THREADS}", "128")),),
    "nobody waits for a turn": ((OWN, ""),),
    "turns are not awaited": ((OWN, OWN.replace("sync", "arrive")),),
    "it begins when it has waited": (
        (FIRST, ""),
        (
            "@!%done bra WAIT_ONCE;",
            f"@!%done bra WAIT_ONCE; @%more bra LATE; {FIRST} LATE:",
        ),
    ),
    "only turns order what threads write": (
        (f"_, [%at], {2 * STAGE};", f"_, [%at], {3 * STAGE};"),
        (
            f"add.u32 %a, %shared, {ONCE};",
            f"add.u32 %a, %shared, {SCRATCH};" + copy("a", "%a") + f"add.u32 %a, %shared, {ONCE};",
        ),
        (
            OWN,
            f"{OWN} and.b32 %b, %tid, 127; shl.b32 %b, %b, 2; add.u32 %b, %b, %shared;"
            f"st.shared.f32 [%b+{SCRATCH}], %f0;",
        ),
    ),
}


@pytest.mark.parametrize("name", REFUTED_ONES)
def test_a_mistake_is_refuted(name: str) -> None:
    found = changed(*REFUTED_ONES[name])
    assert found.status == REFUTED, found.reason
    assert any(place.ptx for finding in found.findings for place in finding.places)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_may_be_a_mistake_is_not_lifted(name: str) -> None:
    found = changed(*DOUBTFUL[name])
    assert found.status == NOT_LIFTED, found.findings
    assert ("without the turns" in found.reason) == ("only turns" in name)


@pytest.mark.slow
def test_no_mutant_is_proven() -> None:
    """But for one: nothing accesses the registers of products, so that no fence is missed."""
    module = parse(PTX)
    (code,) = module.kernels.values()
    found = {
        (mutant.operator, mutant.instruction.line): examine(
            mutant.module(module), mutant.kernel, ("graph",)
        ).status
        for mutant in mutants(code)
    }
    proven = {operator for (operator, _), status in found.items() if status == PROVEN}
    assert proven == {"wgmma.fence removed"}
    assert sum(status == REFUTED for status in found.values()) > len(found) // 2


def test_turns_may_be_given_behind_what_follows_the_product() -> None:
    end = "add.u32 %i, %i, 1;\n    setp.lt.s32 %more, %i, %n;\n    @%more bra MULTIPLY;"
    assert changed((OTHERS, ""), (end, OTHERS + end)).status == PROVEN


# -- a loop that is divided ------------------------------------------------------------------------


@pytest.mark.medium
def test_data_may_divide_the_loop() -> None:
    found = examined(DIVIDED)
    assert found.status == PROVEN, list(lines_of(found))
    (lifted,) = found.programs
    assert len(lifted.breaks) == 1
    assert lifted.limits.parts == 2
    assert any("divided at" in line for line in lines_of(found))


TURN = "%i, {};\n    @%more bra AGAIN;"
WRONG_PARTS = {
    "its second part waits for nothing": ("@!%done bra WAIT_AGAIN_FULL;", ""),
    "its second part goes on too long": (TURN.format("%n"), TURN.format("%m")),
    "its second part has one turn": ("@%more bra AGAIN;", ""),
    "its second part may be more than all": ("max.s32 %m, %m, 0;", ""),
}


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_what_is_wrong_with_one_part_is_not_proven(name: str) -> None:
    """Nobody knows where a loop is divided: it may be wrong in no case that there is."""
    found = changed(WRONG_PARTS[name], text=DIVIDED)
    assert found.status == NOT_LIFTED, found.findings
    assert found.places[0].ptx


@pytest.mark.medium
def test_what_is_wrong_wherever_the_loop_is_divided_is_refuted() -> None:
    found = changed(("@!%done bra WAIT_ONCE;", ""), text=DIVIDED)
    assert found.status == REFUTED, found.reason


# -- other ways to wait ----------------------------------------------------------------------------

_TEST = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [%at], {};"
PLAIN = """WAIT_ONCE:
    mbarrier.try_wait.parity.shared.b64 %done, [%at], 0;
    @!%done bra WAIT_ONCE;"""


def with_tests(parity: int) -> str:
    """Two tests in front of the loop that waits, which ends where a test was no failure."""
    return f"""
    {_TEST.format(0)}
    @%done bra LOADED;
    {_TEST.format(parity)}
    @%done bra LOADED;
WAIT_ONCE:
    {_TEST.format(0)}
    not.pred %more, %done;
    @%more bra WAIT_ONCE;
LOADED:"""


def test_a_wait_may_begin_with_tests_of_its_phase() -> None:
    assert changed((PLAIN, with_tests(0))).status == PROVEN
    other = changed((PLAIN, with_tests(1)))
    assert other.status == NOT_LIFTED
    assert "another phase" in other.reason
