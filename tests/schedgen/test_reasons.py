"""Reasons are data: schedules, programs and verdicts are the same whatever the sentences say."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedgen import bounds, reasons
from schedgen.benchmarks.mutants.sites import sites
from schedgen.dependence import derive
from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.findings import Finding
from schedgen.kernel import (
    AliasOption,
    Depth,
    Kernel,
    Kind,
    Operation,
    Phase,
    Piece,
    Read,
    Region,
    Space,
)
from schedgen.machine_file import read_machine
from schedgen.ordering import reach
from schedgen.program.model import Arrive, Commit, Program, Step, Wait, WaitGroup
from schedgen.proof import explore, graph, smt
from schedgen.reasons import SENTENCES, Reason, ReasonKind, is_whole
from schedgen.schedule import Schedule, ScheduleError, read_schedule
from schedgen.solver.infeasible import diagnose
from schedgen.solver.problem import Problem, build_problem
from schedgen.spec.reader import read_spec
from schedgen.synchronize.pace import gains, pace
from schedgen.synchronize.synthesize import synthesize
from schedgen.visualize.report.proofs import proofs
from schedgen.visualize.report.reasons import helps, loads

ROOT = Path(__file__).parent.parent.parent
CASES = [
    pytest.param(spec, target, marks=() if spec == "gemm_chain" else pytest.mark.slow)
    for spec in ("attention_fwd", "gemm", "gemm_chain", "gemm_symmetric")
    for target in ("h200", "b200")
]


@contextmanager
def one_sentence(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Within it every reason, load, cycle, path and finding reads the same."""
    made: Callable[..., None] = Finding.__init__

    def same(*_: object) -> str:
        return "so it is"

    def path(*_: object) -> tuple[str, ...]:
        return ("so it is",)

    def finding(self: Finding, claim: Any, text: str, *rest: Any, **more: Any) -> None:
        made(self, claim, same(text), *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(reasons, "render", same)
        patch.setattr(bounds.Cycle, "render", same)
        patch.setattr(bounds.Load, "render", same)
        patch.setattr(reach.Reach, "explain", path)
        patch.setattr(Finding, "__init__", finding)
        yield


def solved(spec: str, target: str) -> tuple[Solution, Program]:
    solution = solve(read_spec(spec), read_machine(target))
    problem = solution.problem
    return solution, synthesize(problem.kernel, solution.schedule, problem.machine)


def plain_schedule(schedule: Schedule) -> Schedule:
    """Without the sentences."""
    return replace(schedule, certificate=replace(schedule.certificate, text="", units=()))


def plain_program(program: Program) -> Program:
    """Without the sentences."""

    def silent(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, why="") for step in steps)

    return replace(
        program,
        barriers=tuple(replace(barrier, protects=()) for barrier in program.barriers),
        removals=tuple(replace(removal, reason=()) for removal in program.removals),
        roles=tuple(
            replace(r, before=silent(r.before), loop=silent(r.loop), after=silent(r.after))
            for r in program.roles
        ),
    )


def objections(findings: tuple[Finding, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.claim.value, finding.subject) for finding in findings]


_TOLD = ("barriers", "trivial", "hazard")


def told(solution: Solution, program: Program) -> list[Any]:
    """What is said and drawn about a program, apart from sentences."""
    pages = proofs(program)
    rows = [
        {key: row[key] for key in (*("before", "after", "allocation"), *_TOLD)}
        for row in pages["orders"]
    ]
    cases = [len(row["cases"]) for row in pages["orders"]]
    paced = [pace(program, "low").cycles, pace(program), gains(program)]
    helped = helps(solution.schedule, program, solution.problem)
    return [rows, cases, paced, helped, loads(solution.schedule, program, solution.problem)]


def broken(program: Program) -> list[Program]:
    """Without the first wait, arrival, commit and wait_group of each role."""
    first = {(s.role.name, type(s.action)): s for s in reversed([*sites(program, *SYNC)])}
    return [site.without() for site in first.values()]


SYNC = (Wait, Arrive, Commit, WaitGroup)


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "target"), CASES)
def test_schedules_and_programs(spec: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is solved, synthesized, proven, objected to, and told without words."""
    solution, program = solved(spec, target)
    refuted = [graph.prove(one).findings for one in broken(program)]
    assert any(refuted)
    said = told(solution, program)
    with one_sentence(monkeypatch):
        other, silent = solved(spec, target)
        assert plain_schedule(other.schedule) == plain_schedule(solution.schedule)
        assert plain_program(silent) == plain_program(program)
        assert {step.why for role in silent.roles for step in role.steps} == {"", "so it is"}
        assert graph.prove(silent).findings == ()
        again = [graph.prove(one).findings for one in broken(silent)]
        assert {f.text for findings in again for f in findings} == {"so it is"}
        assert told(other, silent) == said
    assert list(map(objections, again)) == list(map(objections, refuted))


@pytest.mark.medium
def test_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more stage behind a barrier is found by the data of arcs."""
    _, program = solved("gemm_chain", "b200")
    found = gains(program)
    assert any(gain.what.startswith("one more stage") for gain in found)
    with one_sentence(monkeypatch):
        assert gains(program) == found


@pytest.mark.medium
@pytest.mark.parametrize(
    ("method", "every"),
    [
        pytest.param(smt.refute, 20, marks=pytest.mark.slow),
        pytest.param(explore.explore, 2, marks=pytest.mark.slow),
        (graph.prove, 1),
    ],
)
def test_verdicts(
    method: Callable[[Program], Any], every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All methods object to the same, and tell apart as much; Z3 gets some programs only."""
    _, program = solved("fa4_unit", "abstract")
    mutants = broken(program)[::every]
    found = [objections(method(one).findings) for one in mutants]
    assert any(found)
    with one_sentence(monkeypatch):
        assert [objections(method(one).findings) for one in mutants] == found


# -- without a schedule ------------------------------------------------------------------------


def toy(place: AliasOption | None, slots: int) -> Problem:
    """R reads s after P, which may live in it, was written; and x of the iteration before."""
    names = {"s": 1, "p": 1, "x": slots, "r": 1}
    regions = [
        Region(name, name, Space.TMEM, (128, 8), "f32", Depth(depth, depth))
        for name, depth in names.items()
    ]
    if place is not None:
        regions[1] = replace(regions[1], options=(place,))
    bodies: dict[str, tuple[list[tuple[str, int]], tuple[str, ...]]] = {
        "S": ([], ("s", "x")),
        "P": ([("s", 0)], ("p",)),
        "R": ([("s", 0), ("p", 0), ("x", 1)], ("r",)),
    }
    kernel = Kernel(
        *("toy", "b200", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(Piece(r.name, r.name, 0, r.rows, 0, r.row_bytes) for r in regions),
        rings=(),
        operations=tuple(
            Operation(
                name, name, Kind.MAP, Phase.BODY, tuple(Read(*r) for r in reads), writes, latency=4
            )
            for name, (reads, writes) in bodies.items()
        ),
        orders=(),
    )
    return build_problem(kernel, read_machine("b200"), derive(kernel), "high")


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        (toy(None, 1), "give x 2 slots"),
        (toy(AliasOption("s"), 2), "store p in memory of its own (alias: none)"),
    ],
)
def test_infeasible(problem: Problem, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = diagnose(problem)
    with one_sentence(monkeypatch):
        silent = diagnose(problem)
    assert plain is not None
    assert silent is not None
    assert (plain.rule, plain.fix) == ("dependence-cycle", fix)
    assert (silent.rule, silent.fix) == (plain.rule, plain.fix)
    assert silent.message != plain.message


# -- the data ----------------------------------------------------------------------------------


def test_every_kind_has_a_sentence() -> None:
    assert set(SENTENCES) == set(ReasonKind)
    for kind, sentence in SENTENCES.items():
        whole = [n for n in range(5) if is_whole(Reason(kind, tuple("ABCDE"[:n])))]
        assert whole == ([1, 2] if "{storage}" in sentence else [sentence.count("{")])
        for count in whole:
            text = Reason(kind, tuple("ABCDE"[:count])).text
            assert "{" not in text
            assert all(name in text for name in "ABCDE"[:count])


@pytest.mark.medium
def test_links_of_files() -> None:
    """What is read is what was written; a reason without its subjects is damage."""
    schedule = solved("fa4_unit", "abstract")[0].schedule
    data = json.loads(schedule.to_json())
    assert read_schedule(json.dumps(data)).critical_cycle == schedule.critical_cycle
    wrong: tuple[tuple[object, str], ...] = (
        ({"kind": "periods", "subjects": []}, "'periods' cannot be of 0 subjects"),
        ({"kind": "flow", "subjects": ["a", "b", "c"]}, "'flow' cannot be of 3 subjects"),
        ({"kind": "whim", "subjects": []}, "critical_cycle.0.reason.kind"),
        ("unit TENSOR", "critical_cycle.0.reason"),
    )
    for reason, message in wrong:
        link = data["critical_cycle"][0] | {"reason": reason}
        with pytest.raises(ScheduleError, match=re.escape(message)):
            read_schedule(json.dumps(data | {"critical_cycle": [link]}))


# -- the source --------------------------------------------------------------------------------

WORDING = {"why", "reason", "text", "message", "protects"}
PARSING = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"),
    *("split", "rsplit", "find", "index", "count"),
}


def looked_into(tree: ast.AST) -> Iterator[int]:
    """Lines that look into a sentence: ``x.why.startswith(...)``, ``"..." in x.text``, ``x.why ==
    "..."``.
    """

    def sentence(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in WORDING

    def words(node: ast.AST) -> bool:
        constant = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
        return bool(constant) or isinstance(node, ast.JoinedStr)

    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                known = {sub.attr for sub in ast.walk(value) if isinstance(sub, ast.Attribute)}
                name_of = value.id if isinstance(value, ast.Name) else ""
                if name in PARSING and (known & WORDING or name_of in WORDING):
                    yield node.lineno
            case ast.Compare(left=left, comparators=[right]):
                pair = (left, right)
                if any(map(words, pair)) and any(map(sentence, pair)):
                    yield node.lineno
            case ast.Match(subject=subject) if sentence(subject):
                yield node.lineno
            case _:
                pass


@pytest.mark.parametrize(
    "text",
    [
        'arc.why.startswith("order of")',
        'why.startswith("order of")',
        'c.reason.removeprefix("anti ")',
        'finding.text.split(":")[0]',
        'arc.why == f"barrier {deeper}"',
        '"unit" in link.reason',
        "match step.why:\n    case _: pass",
    ],
)
def test_what_looks_into_a_sentence_is_found(text: str) -> None:
    assert [*looked_into(ast.parse(text))] == [1]


@pytest.mark.parametrize("folder", ["solver", "program", "proof"])
def test_nothing_looks_into_sentences(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "schedgen" / folder).rglob("*.py"))
        for line in looked_into(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []
