"""Registers belong to the threads of one role: no barrier hands them to another."""

from __future__ import annotations

from dataclasses import replace

from schedgen.findings import Claim
from schedgen.program.model import Program, RoleProgram, Run, Step
from schedgen.proof.graph import prove
from schedgen.proof.smt_static import capacities
from tests.codegen.examples import solved

SMALL = {"tile_n": "64", "tile_k": "16"}


def split(program: Program, base: str) -> Program:
    """Operations whose names begin with ``base`` go to a role of their own."""

    def moved(step: Step) -> bool:
        return isinstance(step.action, Run) and step.action.operation.startswith(base)

    def part(role: RoleProgram, name: str, wanted: bool) -> RoleProgram:
        parts = (role.before, role.loop, role.after)
        before, loop, after = (tuple(s for s in p if moved(s) == wanted) for p in parts)
        return replace(role, name=name, before=before, loop=loop, after=after)

    roles: list[RoleProgram] = []
    for role in program.roles:
        if any(map(moved, role.steps)):
            roles += [part(role, role.name, False), part(role, "stranger", True)]
        else:
            roles.append(role)
    return replace(program, roles=tuple(roles))


def test_both_methods_refuse_shared_registers() -> None:
    program = solved("gemm_symmetric", "b200", **SMALL)[0].program
    assert prove(program).proven
    assert not list(capacities(program))
    wrong = split(program, "PUT[")
    texts = [f.text for f in prove(wrong).findings if f.claim is Claim.CAPACITY]
    assert any("are used by two roles, epilogue0 and stranger" in text for text in texts)
    assert any("share registers of" in f.text for f in capacities(wrong))


def test_pinned_operations_keep_those_that_share_their_registers() -> None:
    """The epilogue is pinned to a role, what copies its result from registers is not."""
    program = solved("gemm_symmetric", "b200", **SMALL)[0].program
    (role,) = (role for role in program.roles if role.name == "epilogue0")
    runs = {s.action.operation for s in role.steps if isinstance(s.action, Run)}
    assert {name.partition("[")[0] for name in runs} == {"EPI", "PUT", "PUTT"}
