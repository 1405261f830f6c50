"""Only what all methods accept becomes a proven program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.findings import Claim
from schedgen.proof.prove import Proof, ProvenProgram, Refuted, check, prove
from tests.schedgen.program.examples import gemm


def test_all_methods_accept_the_gemm() -> None:
    proven = prove(gemm(2))
    assert [v.method for v in proven.proof.verdicts] == ["graph", "z3", "execution"]
    summary = proven.proof.summary()
    assert all(summary[claim.value] for claim in Claim)
    assert summary["unbounded"]
    assert summary["methods_agree"]


@pytest.mark.medium
def test_a_refuted_program_is_not_handed_on() -> None:
    program = gemm(2)
    role = program.role["tensor"]
    bad = replace(
        program, roles=tuple(replace(r, loop=r.loop[3:]) if r is role else r for r in program.roles)
    )
    with pytest.raises(Refuted) as refuted:
        prove(bad)
    assert not refuted.value.proof.holds(Claim.RACE)
    assert check(bad, ("graph",)).summary()["unbounded"] is False


def test_nobody_else_makes_a_proven_program() -> None:
    with pytest.raises(TypeError, match="comes from prove"):
        ProvenProgram(gemm(2), Proof(()))


def test_small_cases_alone_are_no_proof() -> None:
    with pytest.raises(ValueError, match="small cases only"):
        prove(gemm(2), ("execution",))
