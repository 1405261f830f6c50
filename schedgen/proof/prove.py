"""Puts the three methods together: only what all of them accept becomes a `ProvenProgram`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from schedgen.errors import SchedgenError
from schedgen.findings import Claim, Finding, Verdict
from schedgen.program.claims import unclaimed
from schedgen.program.digest import program_digest
from schedgen.program.following import out_of_place
from schedgen.program.model import Program
from schedgen.program.pingpong import apart, out_of_turn
from schedgen.program.taking_turns import out_of_order

METHODS = ("graph", "z3", "execution")


# Events for `explore` where a second or two is too much.
_QUICK_EVENTS = 250_000


def _graph(program: Program, quick: bool) -> Verdict:
    from schedgen.proof.graph import prove

    return prove(program)


def _z3(program: Program, quick: bool) -> Verdict:
    from schedgen.proof.smt import refute

    return refute(program)


def _execution(program: Program, quick: bool) -> Verdict:
    from schedgen.proof.explore import BUDGET, explore

    return explore(program, budget=_QUICK_EVENTS if quick else BUDGET)


_RUN: Mapping[str, Callable[[Program, bool], Verdict]] = {
    "graph": _graph,
    "z3": _z3,
    "execution": _execution,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdicts of all methods that were asked."""

    verdicts: tuple[Verdict, ...]

    @property
    def proven(self) -> bool:
        return all(verdict.proven for verdict in self.verdicts)

    @property
    def methods_agree(self) -> bool:
        return len({verdict.proven for verdict in self.verdicts}) == 1

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for verdict in self.verdicts for finding in verdict.findings)

    def holds(self, claim: Claim) -> bool:
        """Whether no method objects to ``claim``."""
        return all(finding.claim is not claim for finding in self.findings)

    def summary(self) -> dict[str, object]:
        """The keys that `schedgen solve --json` reports."""
        unbounded = any(verdict.proven and not verdict.bound for verdict in self.verdicts)
        return {
            **{claim.value: self.holds(claim) for claim in Claim},
            "unbounded": self.proven and unbounded,
            "methods": [verdict.method for verdict in self.verdicts],
            "methods_agree": self.methods_agree,
            "seconds": {verdict.method: round(verdict.seconds, 3) for verdict in self.verdicts},
        }


class Refuted(SchedgenError, ValueError):
    """A program that is not proven; ``proof`` has the findings."""

    status = 1

    def __init__(self, proof: Proof) -> None:
        first = proof.findings[0]
        super().__init__(f"{first.text} ({first.claim.value})")
        self.proof = proof


_TOKEN = object()


class ProvenProgram:
    """A program with its proof. `prove` is the only way to get one, or `proven_before` for the same
    program again, which has no verdicts then; emission takes nothing else.
    """

    __slots__ = ("_program", "_proof")

    def __init__(self, program: Program, proof: Proof, token: object = None) -> None:
        if token is not _TOKEN or not proof.proven:
            raise TypeError("a ProvenProgram comes from prove(), not from its constructor")
        self._program = program
        self._proof = proof

    @property
    def program(self) -> Program:
        return self._program

    @property
    def proof(self) -> Proof:
        return self._proof


def check(program: Program, methods: tuple[str, ...] = METHODS, *, quick: bool = False) -> Proof:
    """What each of ``methods`` says about ``program``, whether it is right or wrong.

    What surrounds the roles is a list to look through, the same for all of them. Roles with several
    teams are proven as `schedgen.program.pingpong.apart` has them.

    ``quick`` executes fewer cases; the verdict says which. The other methods are what they are.
    """
    from schedgen.proof.frame import frame_findings

    turns = [Finding(Claim.FRAME, text, ("teams",)) for text in out_of_turn(program)]
    claims = [Finding(Claim.FRAME, text, ("claims",)) for text in unclaimed(program)]
    adding = [Finding(Claim.FRAME, text, ("turns",)) for text in out_of_order(program)]
    tiles = [Finding(Claim.FRAME, text, ("tiles",)) for text in out_of_place(program)]
    around = (*frame_findings(program), *turns, *claims, *adding, *tiles)
    program = program if turns else apart(program)
    verdicts = (_RUN[method](program, quick) for method in methods)
    return Proof(tuple(replace(v, findings=(*v.findings, *around)) for v in verdicts))


def prove(
    program: Program, methods: tuple[str, ...] = METHODS, *, quick: bool = False
) -> ProvenProgram:
    """``program``, proven by each of ``methods``. Raises Refuted if one of them objects."""
    if "graph" not in methods and "z3" not in methods:
        raise ValueError("execution covers small cases only; ask graph or z3 as well")
    proof = check(program, methods, quick=quick)
    if not proof.proven:
        raise Refuted(proof)
    return ProvenProgram(program, proof, _TOKEN)


def proven_before(program: Program, digest: str) -> ProvenProgram:
    """``program`` without another proof, because ``digest`` is that of one that was proven, as a
    lock of kernels says (`schedgen.driver.locked`). Raises ValueError if it is another program.
    """
    if program_digest(program) != digest:
        raise ValueError(f"the program of {program.kernel} is not the one with digest {digest}")
    return ProvenProgram(program, Proof(()), _TOKEN)
