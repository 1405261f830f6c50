"""Teams that take output tiles in turn, and the program that is proven for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.machine_file import read_machine
from schedgen.program.digest import program_digest
from schedgen.program.model import Arrive, Program, RoleProgram, Step, Wait
from schedgen.program.pingpong import apart, in_turn, out_of_turn
from schedgen.program.warpgroups import Warpgroups
from schedgen.proof.prove import check
from schedgen.spec.reader import read_spec

ROLE = "epilogue"
Change = Callable[[RoleProgram], RoleProgram]


@cache
def program(target: str = "h200") -> Program:
    """A product in tiles that two warpgroups compute in turn."""
    settings = {"teams": "2", "dtype": "bf16"} | ({"tile_n": "192"} if target == "h200" else {})
    return solved(target, settings)


def solved(target: str, settings: dict[str, str]) -> Program:
    solution = solve(read_spec("gemm"), read_machine(target), settings=settings)
    return prove_solution(solution).proven.program


def changed(change: Change, of: Program | None = None) -> Program:
    found = of or program()
    roles = (change(role) if role.name == ROLE else role for role in found.roles)
    return replace(found, roles=tuple(roles))


def without(section: str, at: int) -> Change:
    def change(role: RoleProgram) -> RoleProgram:
        steps = getattr(role, section)
        return replace(role, **{section: (*steps[:at], *steps[at + 1 :])})

    return change


def test_two_warpgroups_have_a_role() -> None:
    role = program().role[ROLE]
    assert (role.warps, role.teams, role.all_warps) == (4, 2, 8)
    warps = Warpgroups(program().roles)
    assert list(warps.groups(role)) == [0, 1]
    assert warps.first == {ROLE: 0, "load": 8, "store": 9}
    assert role.registers + role.registers + 24 <= 512


def test_what_is_proven_has_two_roles() -> None:
    found = apart(program())
    loop, after = (found.role[name] for name in (ROLE, f"{ROLE} after its loop"))
    assert not after.loop
    assert loop.owner == after.owner == ROLE
    shared = [a for a in found.allocations if a.space is Space.REGISTERS and a.slots == 2]
    assert [one.name for one in shared] == ["acc"]
    assert program().allocation["acc"].slots == 1


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_all_methods_prove_it(target: str) -> None:
    found = check(program(target))
    assert found.proven, [finding.text for finding in found.findings]
    assert found.methods_agree


@pytest.mark.parametrize(
    ("section", "at"), [("before", 0), ("before", 1), ("after", 0), ("after", 1), ("after", -1)]
)
def test_a_missing_turn_is_a_finding(section: str, at: int) -> None:
    wrong = changed(without(section, at if at >= 0 else len(program().role[ROLE].after) - 1))
    (text,) = out_of_turn(wrong)
    assert "in turn" in text
    found = check(wrong, ("graph",))
    assert not found.holds(Claim.FRAME)


def test_more_teams_are_not_what_was_made() -> None:
    assert list(out_of_turn(changed(lambda role: replace(role, teams=3))))


def test_barriers_of_teams_are_theirs() -> None:
    name = f"{ROLE} tile turn"
    barriers = (replace(b, slots=1) if b.name == name else b for b in program().barriers)
    assert "are others" in next(out_of_turn(replace(program(), barriers=tuple(barriers))))

    def waits(role: RoleProgram) -> RoleProgram:
        wait = next(s for s in program().role[ROLE].after if isinstance(s.action, Wait))
        return replace(role, after=(wait, *role.after)) if role.name == "store" else role

    more = replace(program(), roles=tuple(map(waits, program().roles)))
    assert "another role" in next(out_of_turn(more))


@pytest.mark.medium
def test_registers_that_are_not_free_are_a_race() -> None:
    """A hand-off between the parts is needed: without it the proof of the two roles fails."""
    found = apart(program())
    role = found.role[ROLE]
    hurried = replace(role, before=role.before[1:])
    roles = tuple(hurried if one is role else one for one in found.roles)
    for method in ("graph", "z3"):
        assert not check(replace(found, roles=roles), (method,)).proven


@pytest.mark.medium
def test_a_fence_is_needed_across_tiles() -> None:
    """Threads read registers of the tile before, then products write them."""

    def bare(role: RoleProgram) -> RoleProgram:
        fences = [s for s in role.loop if s.action.do == "fence"]
        return replace(role, loop=tuple(s for s in role.loop if s not in fences))

    for method in ("graph", "z3", "execution"):
        methods = (method,) if method != "execution" else ("graph", "execution")
        assert not check(changed(bare), methods).proven


@pytest.mark.medium
def test_one_team_is_none() -> None:
    plain = solved("h200", {"dtype": "bf16"})
    assert in_turn(plain, {ROLE: 1}) is plain
    assert apart(plain) is plain
    assert '"teams"' not in program_digest(plain)
    assert program_digest(changed(lambda role: replace(role, teams=1))) != program_digest(program())


def test_arrivals_are_of_one_team() -> None:
    role = program().role[ROLE]
    counts = {s.action.count for s in role.steps if isinstance(s.action, Arrive)}
    assert counts == {128}
    assert isinstance(role.after[-1], Step)
