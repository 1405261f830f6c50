"""What nodes use follows from their values, and is all that their text uses."""

from __future__ import annotations

import ast
import builtins

import pytest

from schedgen.codegen.ir import (
    Block,
    Call,
    Comment,
    Fence,
    Function,
    Line,
    Loop,
    Name,
    Phase,
    Stage,
    Uses,
    Wait,
    called,
    code,
    functions,
    joined,
    names,
    rings,
)
from schedgen.codegen.printing import expression, lines_of
from schedgen.codegen.running import Carried, Iteration, PipelineState, Running
from schedgen.program.model import FenceKind
from schedgen.program.operations import Number
from tests.codegen.examples import ARCHITECTURES, GEMM, SPECS, text_of

NUMBER = Running(Number(), 3, Iteration("turn", -1), ("kv",))
STATE = PipelineState(Carried(3, 2, 1), "kv_stage_before", "kv_phase_before")
WAIT = Wait(code("{} + {}", Name("bar_kv_full"), Stage(NUMBER)), code("{}", Phase(NUMBER)))


def test_code() -> None:
    found = code("{}[({}, {})]", Name("sK"), 1, called("part_of", Name("x"), "3"))
    assert expression(found) == "sK[(1, part_of(x, 3))]"
    assert expression(found.renamed({"sK": "sV"})) == "sV[(1, part_of(x, 3))]"
    assert expression(joined(" + ", [])) == ""
    with pytest.raises(ValueError, match=r"2 values for '\{\}'"):
        code("{}", 1, 2)


def test_names_and_functions() -> None:
    """Of what is inside too; comments are no code, and ends of loops are counted from ``trips``."""
    last = Iteration("trips", -1)
    nodes = [
        Comment(code("not bar_x, not twice(y)")),
        Block(code("if {}:", Name("a")), (Line(called("twice", Name("b"))), Uses(("row_max",)))),
        Call(code("copy"), (code("{}", Name("c")),)),
        Fence(FenceKind.TMEM_AFTER, called("tmem_after_sync")),
        Line(code("x = {}", last)),
    ]
    assert names(nodes) == {"a", "b", "c", "trips"}
    assert functions(nodes) == {"twice", "row_max", "tmem_after_sync"}


def test_loops_carry_what_their_turns_use() -> None:
    loop = Loop(1, (WAIT,), (), (STATE,))
    assert list(rings([loop])) == [NUMBER, NUMBER]
    assert functions([loop]) == {"slot", "phase", "advance"}
    assert names([loop]) == {"trips", "turn", "bar_kv_full"}
    assert lines_of([loop]) == [
        "kv_stage_before, kv_phase_before = slot(first + 3, 3), phase(first + 3, 3)",
        "for turn in cutlass.range(1, trips, unroll=1):",
        "    cute.arch.mbarrier_wait(bar_kv_full + kv_stage_before, 1 - kv_phase_before)",
        "    kv_stage_before, kv_phase_before = advance(kv_stage_before, kv_phase_before, 3)",
    ]
    assert functions([WAIT]) == {"slot", "phase"}


def test_functions_have_names_of_their_own() -> None:
    made = Function("@cute.jit", "load", (("tiles", "Int32"),), (Line(code("pass")),))
    assert lines_of([made]) == ["@cute.jit", "def load(tiles: Int32):", "    pass"]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("spec", "target", "settings"),
    [
        *(
            ("attention_fwd", target, {"head_dim": "64", "causal": "true"})
            for target in ARCHITECTURES
        ),
        ("gemm", "b200", GEMM),
        ("gemm_symmetric", "h200", {"tile_m": "64", "consumers": "1"}),
        *((SPECS / "product_softmax.yaml", target, {}) for target in ARCHITECTURES),
        *((SPECS / "gated_attention.yaml", target, {}) for target in ARCHITECTURES),
        *((SPECS / "clashing_names.yaml", target, {}) for target in ARCHITECTURES),
    ],
)
def test_everything_that_is_used_is_declared(
    spec: str, target: str, settings: dict[str, str]
) -> None:
    """Each function knows all names that it reads; no function of the library is left over."""
    tree = ast.parse(text_of(spec, target, **settings))
    known = {name for node in tree.body for name in _defined(node)} | set(dir(builtins))
    used: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            used |= read - {node.name}
            local = {name for n in ast.walk(node) for name in _stored(n)}
            local |= {a.arg for n in ast.walk(node) if isinstance(n, ast.arguments) for a in n.args}
            assert read <= known | local, (node.name, sorted(read - known - local))
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert made - used == {"launch"}, sorted(made - used)


def _stored(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case _:
            return []


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name):
            return [name]
        case ast.Import(names=found) | ast.ImportFrom(names=found):
            return [(each.asname or each.name).split(".")[0] for each in found]
        case _:
            return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
