"""FlashAttention-4's hand-written barriers beside those that we make for the same products.

    python benchmarks/fa4_barriers.py [--save]

Storage map, operations and the order of products are FA4's in both. `fa4_program` says how its
barriers became a Program. Printed are both tables, how many barriers and waits each set has, what
the three methods say about them, and the waits that FA4's authors left out, with the reasons that
the prover finds in both. Each wait is also taken out by itself, to see if the rest would do; in
FA4's set EPI's wait for `o_epi empty` can go only because INV waits for that here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fa4_compare import (
    LEFT_OUT,
    arrays,
    counterparts,
    family,
    prove_filled,
    reason,
    translated,
    waits_per_iteration,
    words,
)
from fa4_program import STAGES, fa4_program, in_hardware, our_program
from report import keep, table

from schedgen.findings import Verdict
from schedgen.ordering.orders import Orders
from schedgen.program.model import Arrive, Barrier, Commit, Program, Run, Step, Wait
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute

Row = dict[str, object]
FILLED = ((1,), (2,), (1, 1, 1), (2, 1), (4,), (3, 4), (7,), (2, 2, 2), (5, 1, 3))
"""Trip counts without empty tiles."""


def barrier_rows(program: Program) -> list[Row]:
    """A line for each array: barriers of both query tiles are one."""
    rows: dict[str, Row] = {}
    for barrier in program.barriers:
        name = family(barrier.name)
        row = rows.setdefault(
            name,
            {
                "barrier": name,
                "kind": barrier.kind,
                "slots": barrier.slots,
                "tiles": 0,
                "count": barrier.arrivals,
                "producer -> consumer": f"{_producers(program, barrier)} -> "
                f"{', '.join(_consumers(program, barrier))}",
                "protects": "; ".join(dict.fromkeys(map(family, barrier.protects))),
            },
        )
        row["tiles"] = int(str(row["tiles"])) + 1
    return list(rows.values())


def _producers(program: Program, barrier: Barrier) -> str:
    found: dict[str, None] = {}
    for role in program.roles:
        for step in role.steps:
            match step.action:
                case Run(_, barrier.name, _, size):
                    found[f"{size} bytes"] = None
                case Arrive(barrier.name, _, count):
                    found[f"{family(role.name)} {count}"] = None
                case Commit(barrier.name):
                    found[f"{family(role.name)} commit"] = None
                case _:
                    pass
    return " + ".join(found)


def _consumers(program: Program, barrier: Barrier) -> list[str]:
    return [
        family(role.name)
        for role in program.roles
        if any(_waits_for(step, barrier) for step in role.steps)
    ]


def _waits_for(step: Step, barrier: Barrier) -> bool:
    return isinstance(step.action, Wait) and step.action.barrier == barrier.name


def correspondence(ours: Program, fa4: Program) -> list[Row]:
    """Which of our arrays hand over between the same operations as one of FA4's."""
    pairs = counterparts(ours, fa4)
    rows: list[Row] = []
    for name in dict.fromkeys(family(barrier.name) for barrier in fa4.barriers):
        mine = [m for m, names in pairs.items() if name in map(family, names)]
        rows.append({"FA4": name, "ours": ", ".join(dict.fromkeys(map(family, mine))) or "none"})
    more = dict.fromkeys(family(mine) for mine, names in pairs.items() if not names)
    return [*rows, *({"FA4": "none", "ours": name} for name in more)]


def total_row(name: str, program: Program, barriers: Iterable[Barrier]) -> Row:
    """How much one set takes."""
    listed = list(barriers)
    steps = [step for role in program.roles for step in role.steps]
    waits = sum(isinstance(step.action, Wait) for step in steps)
    return {
        "set": name,
        "arrays": arrays(listed),
        "mbarriers": words(listed, "mbarrier"),
        "named": words(listed, "named"),
        "waits per iteration": waits_per_iteration(program),
        "waits per tile": waits - waits_per_iteration(program),
    }


def proof_rows(name: str, program: Program, *, filled_only: bool = False) -> list[Row]:
    """What the methods say; only two of them can be told that no tile is empty."""
    graph: Callable[[Program], Verdict] = prove_filled if filled_only else prove
    verdicts = [graph(program), explore(program, FILLED if filled_only else None)]
    if not filled_only:
        verdicts.append(refute(program))
    return [
        {
            "set": name,
            "method": verdict.method,
            "covers": verdict.bound or "all trip counts",
            "proven": verdict.proven,
            "s": round(verdict.seconds, 2),
            "findings": len(verdict.findings),
            "first": verdict.findings[0].text if verdict.findings else "",
        }
        for verdict in verdicts
    ]


def left_out_rows(ours: Program, fa4: Program) -> Iterator[Row]:
    """Waits that are left out, with the reason in FA4's steps, and whether ours is the same."""
    names = counterparts(ours, fa4)
    of_ours, of_fa4 = Orders(ours), Orders(fa4)
    for what, (before, after, _) in LEFT_OUT.items():
        theirs = [reason(of_fa4, what, s) for s in STAGES]
        mine = [reason(of_ours, what, s) for s in STAGES]
        same = [tuple(translated(line, names) for line in lines) for lines in mine] == theirs
        yield {
            "left out": f"{after} waits for {before}".replace("{s}", "s"),
            "because": what,
            "same reason": same,
            "FA4": "\n".join(f"    {line}" for line in theirs[0]),
            "ours": "\n".join(f"    {line}" for line in mine[0]),
        }


def superfluous(program: Program) -> Iterator[str]:
    """Waits without which the rest would still be proven."""
    for role in program.roles:
        for section in ("before", "loop", "after"):
            steps: tuple[Step, ...] = getattr(role, section)
            for place, step in enumerate(steps):
                if not isinstance(step.action, Wait):
                    continue
                less = replace(role, **{section: steps[:place] + steps[place + 1 :]})
                roles = tuple(less if r.name == role.name else r for r in program.roles)
                if prove(replace(program, roles=roles)).proven:
                    yield f"{role.name}: {step.action.barrier}"


if __name__ == "__main__":
    own = our_program()
    hand = fa4_program(own)
    as_written = fa4_program(own, empty_tiles=False)
    result: list[Row] = []

    def show(title: str, key: str, rows: Iterable[Row]) -> None:
        listed = list(rows)
        print(f"\n{title}\n\n{table(listed)}")
        result.extend({"table": key, **row} for row in listed)

    show("FlashAttention-4", "FA4", barrier_rows(hand))
    show("Synthesized", "ours", barrier_rows(own))
    show("Which takes the place of which", "correspondence", correspondence(own, hand))
    totals = [
        total_row("FA4, phases as it counts them", as_written, in_hardware(as_written.barriers)),
        total_row("FA4 as a Program", hand, hand.barriers),
        total_row("synthesized", own, own.barriers),
    ]
    show("Totals", "totals", totals)
    proofs = [
        *proof_rows("FA4 as a Program", hand),
        *proof_rows("FA4 as written, no empty tiles", as_written, filled_only=True),
        *proof_rows("FA4 as written", as_written),
        *proof_rows("synthesized", own),
    ]
    show("Proofs", "proofs", proofs)
    print("\nWaits left out, one iteration later, and why they need none (query tile 0 of FA4)")
    for row in left_out_rows(own, hand):
        result.append({"table": "left out", **row})
        same = "the same" if row["same reason"] else "another"
        print(f"\n{row['left out']}: {row['because']}; {same} reason in both sets")
        print(row["FA4"])
    for name, program in (("FA4", hand), ("ours", own)):
        found = list(superfluous(program))
        result.append({"table": "superfluous waits", "set": name, "waits": found})
        print(f"\nWaits of {name} that could still go: {', '.join(found) or 'none'}")
    keep("fa4_barriers", result)
