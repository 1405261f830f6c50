"""Roles whose output tiles several teams of warps compute in turn (ping-pong).

One team multiplies while another one is at what comes after its loop, so that tensor cores do not
wait for an epilogue. Each team has all registers of a role; team i takes tiles i, i + teams, ...
Two barriers of ``teams`` slots keep them in turn:

    before the loop of tile t    wait for the loops of tiles t - teams and t - 1
    behind that loop             say that it is over
    after that                   wait for what comes after the loop of tiles t - teams and t - 1
    at the end of tile t         say that it is over

So there are two sequences: the loops of all tiles, and what comes after them. `apart` is a program
in which each sequence is a role of its own, which hand registers to each other by the same
barriers. What that program orders, the teams order too:

    * steps of one of the two roles: by the waits for tile t - 1, and within a tile by the team;
    * what comes after a loop, behind that loop, and the loop of tile t behind what came after that
      of tile t - teams: one team does both.

And they wait for nothing else, so a schedule of the teams is one of that program. Its proof is
theirs. Only the team of tile t arrives for number t, in a slot that is its own, and it has waited
for number t - teams before: no warp takes one phase for another (docs/adr/0020).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from schedgen.kernel import Space
from schedgen.program.model import (
    Arrive,
    Barrier,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Number

_LOOP, _TILE = "loop turn", "tile turn"
_LANES = 32


def in_turn(program: Program, teams: Mapping[str, int]) -> Program:
    """``program`` with so many teams for each role in ``teams``."""
    for name, count in teams.items():
        if count > 1:
            program = _taken(program, program.role[name], count)
    return program


def out_of_turn(program: Program) -> Iterator[str]:
    """Why the teams of a role would not take tiles in turn: it lacks a step that `in_turn` adds, or
    another role has one.
    """
    for role in program.roles:
        if role.teams == 1:
            continue
        barriers = _barriers(role, role.teams)
        names = {barrier.name for barrier in barriers}
        before, loop, after = (
            tuple(step for step in section if _barrier_of(step) not in names)
            for section in (role.before, role.loop, role.after)
        )
        alone = replace(role, before=before, loop=loop, after=after, teams=1)
        again = _taken(replace(program, roles=(alone,)), alone, role.teams).roles[0]
        if role.teams < 1 or _sections(again) != _sections(role):
            yield f"the {role.teams} teams of {role.name} do not take its tiles in turn"
        elif {*map(_kind, barriers)} - {*map(_kind, program.barriers)}:
            yield f"the barriers by which teams of {role.name} take turns are others"
        elif any(_barrier_of(s) in names for r in program.roles if r is not role for s in r.steps):
            yield f"another role uses the barriers by which teams of {role.name} take turns"


def _barrier_of(step: Step) -> str:
    return getattr(step.action, "barrier", None) or ""


def _sections(role: RoleProgram) -> list[list[Step]]:
    """What a role does, whatever for."""
    sections = (role.before, role.loop, role.after)
    return [[replace(step, why="") for step in section] for section in sections]


def _kind(barrier: Barrier) -> Barrier:
    return replace(barrier, protects=(), allocations=())


def apart(program: Program) -> Program:
    """The program to prove: what comes after the loop of roles with several teams is a role of its
    own, and registers that it has from the loop have a slot for each team.

    Nothing is said about programs for which `out_of_turn` says something.
    """
    for role in program.roles:
        if role.teams > 1:
            program = _apart(program, role)
    return program


# -- teams -----------------------------------------------------------------------------------------


def _taken(program: Program, role: RoleProgram, teams: int) -> Program:
    loop, tile = _barriers(role, teams)
    loop_end, rest = _split(program, role)
    arrivals = _LANES * role.warps
    before = (*_turn(loop.name, teams), *role.before)
    after = (
        *loop_end,
        Step(Arrive(loop.name, _number(), arrivals)),
        *_turn(tile.name, teams),
        *rest,
        Step(Arrive(tile.name, _number(), arrivals)),
    )
    found = replace(role, before=before, after=after, teams=teams)
    program = replace(program, barriers=(*program.barriers, loop, tile))
    return _with(program, role, found)


def _barriers(role: RoleProgram, teams: int) -> tuple[Barrier, Barrier]:
    says = {
        _LOOP: f"teams of {role.name} multiply in turn",
        _TILE: f"teams of {role.name} do in turn what comes after their loops",
    }
    loop, tile = (
        Barrier(f"{role.name} {name}", "mbarrier", teams, _LANES * role.warps, 0, protects=(why,))
        for name, why in says.items()
    )
    return loop, tile


def _turn(barrier: str, teams: int) -> Iterator[Step]:
    """The team waits for its tile before this one, and for the tile before this one."""
    yield Step(Wait(barrier, _number(-teams)), why="all warps of this team have come here")
    yield Step(Wait(barrier, _number(-1)), why="the team before this one has gone on")


def _number(offset: int = 0) -> Number:
    return Number(offset=offset, per_tile=True)


def _split(program: Program, role: RoleProgram) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """What stands behind the loop: up to the last wait for an operation of the loop, and then."""
    inside = {s.action.operation for s in role.loop if isinstance(s.action, Run)}
    ends = [
        number
        for number, step in enumerate(role.after, 1)
        if isinstance(step.action, WaitGroup) and step.action.operation in inside
    ]
    at = max(ends, default=0)
    return role.after[:at], role.after[at:]


def _with(program: Program, role: RoleProgram, *instead: RoleProgram) -> Program:
    at = program.roles.index(role)
    return replace(program, roles=(*program.roles[:at], *instead, *program.roles[at + 1 :]))


# -- the program to prove --------------------------------------------------------------------------


def _behind(role: RoleProgram, loop: str) -> int:
    """Steps of ``after`` up to the arrival that lets the next team multiply."""
    return next(
        number
        for number, step in enumerate(role.after, 1)
        if isinstance(step.action, Arrive) and step.action.barrier == loop
    )


def _apart(program: Program, role: RoleProgram) -> Program:
    loop, tile = _barriers(role, role.teams)
    behind, turn = _behind(role, loop.name), len(list(_turn(loop.name, role.teams)))
    freed = Step(Wait(tile.name, _number(-role.teams)), why="its registers are free again")
    ready = Step(Wait(loop.name, _number()), why="its loop is over")
    first = replace(
        role,
        before=(freed, *role.before[turn:]),
        after=role.after[:behind],
        teams=1,
        threads_of=role.name,
    )
    second = RoleProgram(
        f"{role.name} after its loop",
        role.warps,
        role.registers,
        after=(ready, *role.after[behind + turn :]),
        enter=role.enter,
        threads_of=role.name,
    )
    both = _touched(program, first) & _touched(program, second)
    allocations = tuple(
        replace(one, slots=role.teams, size=one.size * role.teams) if one.name in both else one
        for one in program.allocations
    )
    return _with(replace(program, allocations=allocations), role, first, second)


def _touched(program: Program, role: RoleProgram) -> set[str]:
    """The registers that a role's operations use."""
    return {
        access.allocation
        for step in role.steps
        if isinstance(step.action, Run)
        for access in program.operation[step.action.operation].accesses
        if program.allocation[access.allocation].space is Space.REGISTERS
    }
