"""How long synchronization and proof take, by spec and by size.

    python benchmarks/proof.py [--save]

For each shipped spec: steps and barriers of the program, seconds for synthesizing it and for each
of the three methods (of the graph method the least of three runs, which are short). For growth,
programs of 10 to 400 operations: copies of the GEMM and of attention that take turns step by step
in the same roles.
"""

from __future__ import annotations

from dataclasses import replace
from time import process_time

from report import keep, table
from variants import variants

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Arrive, Commit, Program, RoleProgram, Run, Step, Wait, WaitGroup
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize


def programs() -> list[tuple[str, str, Program, float]]:
    """Spec, target, program and the seconds that synthesis took."""
    found: list[tuple[str, str, Program, float]] = []
    for label, name, target, settings in variants():
        solution = solve(read_spec(name), read_machine(target), settings=settings)
        begin = process_time()
        problem = solution.problem
        program = synthesize(problem.kernel, solution.schedule, problem.machine)
        found.append((label, target, program, process_time() - begin))
    return found


def row(name: str, target: str, program: Program, seconds: float) -> dict[str, object]:
    """One spec on one target."""
    fastest = min((prove(program) for _ in range(3)), key=lambda verdict: verdict.seconds)
    verdicts = {"graph": fastest, "z3": refute(program), "execution": explore(program)}
    return {
        "spec": name,
        "target": target,
        "operations": len(program.operations),
        "steps": sum(len(role.steps) for role in program.roles),
        "barriers": len(program.barriers),
        "mbarriers": sum(barrier.slots for barrier in program.barriers),
        "synthesis s": f"{seconds:.2f}",
        **{f"{method} s": f"{verdict.seconds:.2f}" for method, verdict in verdicts.items()},
        "proven": all(verdict.proven for verdict in verdicts.values()),
    }


def copies(program: Program, count: int) -> Program:
    """``count`` copies of ``program`` that take turns in its roles, with storage of their own."""
    return replace(
        program,
        allocations=tuple(
            replace(s, name=_at(s.name, n)) for n in range(count) for s in program.allocations
        ),
        barriers=tuple(
            replace(b, name=_at(b.name, n)) for n in range(count) for b in program.barriers
        ),
        operations=tuple(
            replace(
                o,
                name=_at(o.name, n),
                accesses=tuple(replace(a, allocation=_at(a.allocation, n)) for a in o.accesses),
            )
            for n in range(count)
            for o in program.operations
        ),
        roles=tuple(_turns(role, count) for role in program.roles),
    )


def _turns(role: RoleProgram, count: int) -> RoleProgram:
    def of(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(_copy(step, n) for step in steps for n in range(count))

    return replace(role, before=of(role.before), loop=of(role.loop), after=of(role.after))


def _copy(step: Step, n: int) -> Step:
    match step.action:
        case Wait() | Arrive() | Commit():
            return replace(step, action=replace(step.action, barrier=_at(step.action.barrier, n)))
        case Run():
            run = step.action
            barrier = None if run.barrier is None else _at(run.barrier, n)
            operation = _at(run.operation, n)
            return replace(step, action=replace(run, operation=operation, barrier=barrier))
        case WaitGroup():
            return replace(
                step, action=replace(step.action, operation=_at(step.action.operation, n))
            )
        case _:
            return step


def _at(name: str, n: int) -> str:
    return f"{name} #{n}"


def growth(found: list[tuple[str, str, Program, float]]) -> list[dict[str, object]]:
    """Seconds of the graph method against the number of operations, whatever fits."""
    rows: list[dict[str, object]] = []
    for name, target, counts in (
        ("gemm_chain", "b200", (1, 2)),
        ("attention_fwd", "b200", (1, 2, 4, 8, 10)),
    ):
        program = next(p for n, t, p, _ in found if (n, t) == (name, target))
        for count in counts:
            larger = copies(program, count)
            verdict = prove(larger)
            races = [f for f in verdict.findings if f.claim.value != "capacities"]
            rows.append(
                {
                    "copies of": name,
                    "operations": len(larger.operations),
                    "steps": sum(len(role.steps) for role in larger.roles),
                    "barriers": len(larger.barriers),
                    "graph s": f"{verdict.seconds:.2f}",
                    "proven but for size": not races,
                }
            )
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def main() -> None:
    found = programs()
    rows: list[dict[str, object]] = []
    for name, target, program, seconds in found:
        rows.append(row(name, target, program, seconds))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    keep("proof", rows)
    more = growth(found)
    keep("proof_growth", more)
    print()
    print(table(rows))
    print()
    print(table(more))


if __name__ == "__main__":
    main()
