"""What two methods make of a mutant: killed, equivalent, survived or unproven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schedgen.benchmarks.mutants.programs import Mutant
from schedgen.benchmarks.mutants.sites import Site
from schedgen.findings import Claim, Finding
from schedgen.ordering.conflicts import Conflict, conflicts
from schedgen.ordering.orders import Orders, Way
from schedgen.program.model import Program
from schedgen.proof.explore import explore
from schedgen.proof.graph import all_findings
from schedgen.proof.smt_static import capacities


class Outcome(StrEnum):
    KILLED = "killed"
    """Both methods object, for a reason that fits."""
    EQUIVALENT = "equivalent"
    """Proven, and no execution goes wrong."""
    SURVIVED = "survived"
    """Proven, but an execution goes wrong."""
    UNPROVEN = "unproven"
    """Refused by the proof, though no execution that was tried goes wrong: only too careful."""
    UNRELATED = "unrelated"
    """Both object, but what the proof says has nothing to do with the mistake."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``graph`` and ``execution`` are what the methods say first, '' for nothing; ``reason`` is why
    an equivalent mutant is as good as the original.
    """

    outcome: Outcome
    graph: str = ""
    execution: str = ""
    reason: str = ""


def judge(mutant: Mutant) -> Judgement:
    """Asks both methods."""
    orders = Orders(mutant.program)
    proof = _fitting(all_findings(mutant.program), mutant.operator.claims)
    execution = _refutation(mutant.program, proof)
    graph, other = _text(proof), _text(execution)
    if proof is None and execution is None:
        return Judgement(Outcome.EQUIVALENT, reason=reason(mutant, orders))
    if proof is None:
        return Judgement(Outcome.SURVIVED, graph, other)
    if execution is None:
        return Judgement(Outcome.UNPROVEN, graph, other)
    fits = proof.claim in mutant.operator.claims
    return Judgement(Outcome.KILLED if fits else Outcome.UNRELATED, graph, other)


def _fitting(findings: Iterator[Finding], claims: frozenset[Claim]) -> Finding | None:
    """The first finding with one of the claims, or else the first one."""
    first: Finding | None = None
    for finding in findings:
        if finding.claim in claims:
            return finding
        first = first or finding
    return first


def _refutation(program: Program, proof: Finding | None) -> Finding | None:
    """What an execution shows. Capacities show in none: another sum of them has to do."""
    if proof is None or proof.claim is Claim.CAPACITY:
        found: Sequence[Finding] = tuple(capacities(program))
        if found:
            return found[0]
    found = explore(program, first=True).findings
    return found[0] if found else None


def _text(finding: Finding | None) -> str:
    return "" if finding is None else f"{finding.claim}: {finding.text}"


# -- why a mutant is equivalent ----------------------------------------------------------------


def reason(mutant: Mutant, orders: Orders) -> str:
    """What still gives an order that rested on the changed step, or why none does."""
    if mutant.site is None:
        return _spare(mutant)
    barrier = getattr(mutant.site.action, "barrier", None)
    if barrier and mutant.original.barrier[barrier].kind == "pace":
        return "an order of pace: nothing but speed rests on it"
    resting = sorted(_resting(Orders(mutant.original), mutant.site), key=lambda pair: pair[0])
    for _, conflict in resting:
        ways = orders.ordered(conflict)
        if ways:
            way = " <- ".join(reversed(_steps(ways[0])))
            return f"{conflict.text}: still ordered, {way}"
    return "no order between accesses rests on this step alone"


def _spare(mutant: Mutant) -> str:
    """Why sizes may differ."""
    reasons = {
        "barrier depth": "the waits keep the phases of a slot apart with that many slots as well",
        "allocation depth": "the waits let no more slots be used than there are",
        "pace removed": "nothing but speed rests on an order of pace",
        "address": "no other store lies there",
        "slot": "another version is used, but in order: wrong data without a race",
    }
    return reasons.get(mutant.operator.name, "every access is in order with this change, too")


def _resting(orders: Orders, site: Site) -> Iterator[tuple[tuple[bool, int], Conflict]]:
    """Conflicts whose order goes through a step, with how directly that is (smallest first)."""
    graph = orders.graph
    here = {
        number
        for number, event in enumerate(graph.events)
        if event.step is site.step and event.role == site.role.name
    }
    for conflict in conflicts(orders.program):
        for way in orders.ordered(conflict) or ():
            if here & {*way.events(), way.reach.source}:
                length = len(way.reach.way(way.point))
                yield (way.reach.source not in here, length), conflict
                break


def _steps(way: Way) -> tuple[str, ...]:
    """The way in words; one without arcs is the order of one role."""
    return way.explain() or ("one follows the other in the same role",)
