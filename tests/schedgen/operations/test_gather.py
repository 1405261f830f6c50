"""Rows that threads take through a list, from a spec to the emulator: whatever the list says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.driver.emulating import compiled, emulate
from schedgen.driver.inputs import (
    compared,
    default_extents,
    outputs,
    random_inputs,
    shapes,
    wanted,
)
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.emulator.machine.policies import Adversarial
from schedgen.errors import SchedgenError
from schedgen.interpret.concurrent import run_program
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel, Kind
from schedgen.machine_file import read_machine
from schedgen.reference.evaluate import evaluate
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec
from schedgen.tensors import Argument, Place
from tests.codegen.examples import ARCHITECTURES, SPECS, solved

PATH = SPECS / "gathered.yaml"
TEXT = PATH.read_text("utf-8")
EXTENTS = {"m": 70, "n": 50, "k": 72, "heads": 2, "sources": 9}
NOWHERE = (-1, 9, 2**31 - 1, -(2**31))


def kernel(text: str = TEXT, target: str = "h200", **settings: str) -> Kernel:
    spec = parse_spec(text)
    return bind(spec.source, spec.file, target, settings)[0]


def given(made: Kernel, seed: int = 0) -> dict[str, torch.Tensor | float]:
    return random_inputs(made, default_extents(made, EXTENTS), seed)


def numbers(inputs: dict[str, torch.Tensor | float]) -> dict[str, np.ndarray | float]:
    return {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}


# -- what it means --------------------------------------------------------------------------------


def test_a_tensor_means_the_rows_that_are_taken() -> None:
    made = kernel()
    arguments = {argument.name: argument for argument in made.arguments}
    meant, passed = ("m", "heads", "k"), ("sources", "heads", "k")
    assert arguments["a"] == Argument("a", meant, "bf16", stored=passed, index="index")
    assert arguments["a"].passed == passed
    assert arguments["index"] == Argument("index", ("m",), "i32")
    rows, head, columns = made.operation["GA[0]"].places
    assert rows == Place("m", "rows", 64, along="m", block=64)
    assert (head.extent, head.along, head.block) == ("heads", "heads", 1)
    assert (columns.extent, columns.step) == ("k", 64)


def test_packed_rows_are_taken_for_each_group() -> None:
    spec = parse_spec((SPECS.parents[2] / "specs" / "gemm_gathered.yaml").read_text("utf-8"))
    made = bind(spec.source, spec.file, "h200", {"accumulator": "registers"})[0]
    arguments = {argument.name: argument for argument in made.arguments}
    assert arguments["a"].shape == ("group", "m", "k")
    assert arguments["a"].stored == ("sources", "k")
    assert arguments["index"] == Argument("index", ("group", "m"), "i32", stored=("total",))


def test_its_work() -> None:
    (gather,) = (o for o in kernel().operations if o.kind is Kind.GATHER)
    assert (gather.work.bytes, gather.work.smem_out, gather.work.smem_in) == (8192, 8192, 0)
    assert not gather.reads


def test_both_evaluations_agree_with_torch() -> None:
    made = kernel()
    inputs = given(made)
    a, index, b = (torch.as_tensor(inputs[name]) for name in ("a", "index", "b"))
    there = (index >= 0) & (index < len(a))
    assert set(NOWHERE) <= {int(row) for row in index}
    assert there.any()
    taken = a.double()[torch.where(there, index, 0).long()] * there[:, None, None]
    exact = torch.einsum("mhk,hnk->hmn", taken.nan_to_num(), b.double())
    sizes = default_extents(made, EXTENTS)
    found = run(made, inputs, sizes)["d"]
    assert torch.allclose(found.double(), exact, atol=1e-3)
    program = solved(PATH, "h200")[0].program
    assert torch.equal(run_program(program, made, inputs, 1, sizes)["d"], found)
    for sizes in shapes(made).values():
        drawn = wanted(made, sizes, seed=1)
        assert all(result.differ == 0 for result in drawn.interpreted.values())


def test_inputs_have_nan_in_rows_that_nobody_takes() -> None:
    made = kernel()
    inputs = given(made)
    a, index = (torch.as_tensor(inputs[name]) for name in ("a", "index"))
    used = {int(row) for row in index if 0 <= int(row) < len(a)}
    assert {n for n, row in enumerate(a) if row.isfinite().all()} == used
    assert used < set(range(9))


@pytest.mark.parametrize("name", ["a", "index"])
def test_both_are_needed(name: str) -> None:
    made = kernel()
    inputs = {key: value for key, value in given(made).items() if key != name}
    with pytest.raises(InterpretationError, match=f"the input '{name}' is missing"):
        run(made, inputs)
    with pytest.raises(SchedgenError, match="is missing"):
        evaluate(made, numbers(inputs))


# -- what threads do ------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("h200", {}),
        ("b200", {}),
        ("h200", {"tile_k": "32"}),
        ("h200", {"tile_k": "96"}),
        ("h200", {"parts": "2"}),
        ("b200", {"parts": "4"}),
        ("h200", {"dtype": "e4m3"}),
    ],
)
def test_right_and_clean(target: str, settings: dict[str, str]) -> None:
    """In panels of 128 and 64 bytes, one or several, or parts of one; also of 8 bits."""
    proven, made = solved(PATH, target, **settings)
    text = emit(proven, made)
    outcome = emulate(text, made, ARCHITECTURES[target], extents=EXTENTS)
    assert outcome.correct, outcome.errors
    assert outcome.clean


FENCE = 'cute.arch.fence_proxy("async.shared", space="cta")'


@pytest.mark.medium
@pytest.mark.parametrize(
    ("lost", "what"),
    [("copies_done(", "cp.async.wait_group"), (FENCE, "fence.proxy.async")],
)
def test_copies_that_nobody_waits_for_or_fences_are_races(lost: str, what: str) -> None:
    """To the race checker, which knows nothing of the program."""
    proven, made = solved(PATH, "h200")
    text = emit(proven, made)
    lines = text.splitlines()
    found = [n for n, line in enumerate(lines) if lost in line and "def " not in line]
    assert found
    for n in found:
        lines[n] = lines[n].partition(lost)[0] + "pass"
    changed = "\n".join(lines)
    outcome = emulate(changed, made, "sm_90a", extents=EXTENTS)
    assert any(what in str(error) for error in outcome.report.errors), outcome.report.errors


ONE = "one row"
LISTS: dict[str, Callable[[int], list[int]]] = {
    ONE: lambda count: [3] * count,
    "nowhere": lambda count: [NOWHERE[n % 4] for n in range(count)],
    "backwards": lambda count: [8 - n % 9 for n in range(count)],
}
"""What lists may say of 9 rows."""


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_whatever_a_list_says(target: str) -> None:
    """An access outside of the tensors would end it."""
    proven, made = solved(PATH, target)
    with compiled(emit(proven, made), made, ARCHITECTURES[target]) as built:
        for what, sources in product(LISTS, (9, 1)):
            sizes = default_extents(made, {**EXTENTS, "sources": sources})
            inputs = random_inputs(made, sizes, 3)
            inputs["a"] = torch.as_tensor(inputs["a"]).nan_to_num(1.0)
            inputs["index"] = torch.tensor(LISTS[what](sizes["m"]), dtype=torch.int32)
            found = outputs(made, sizes)
            built.execute({**inputs, **found}, policy=Adversarial(seed=5))
            expected = evaluate(made, numbers(inputs), sizes)
            assert all(one.matches for one in compared(made, found, expected).values())
            assert bool(found["d"].any()) == (what != "nowhere" and (what, sources) != (ONE, 1))


# -- what has to wait for copies ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: land, over: [part], role: gather", "kind: land, over: [part], role: other", "'GL"),
        ("kind: land, over: [part]", "kind: land", "'GL"),
        ("kind: gather, over: [part], role: gather", "kind: gather, over: [part]", "'GL"),
        ("    - {id: GL,", "    - {id: LATE,", ""),
        ("    - {id: GL, kind: land, over: [part], role: gather, to: sA}\n", "", "nothing waits"),
    ],
)
def test_copies_are_waited_for_by_their_role(old: str, new: str, message: str) -> None:
    assert old in TEXT
    changed = TEXT.replace(old, new)
    if not message:
        assert kernel(changed).operation["LATE[0]"].kind is Kind.LAND
        return
    with pytest.raises(SchedgenError, match=rf"rows-in-flight(.|\n)*{message}"):
        kernel(changed, parts="2")


def test_nothing_touches_rows_on_their_way() -> None:
    between = "    - {id: GL, kind: land, role: gather, to: sA}\n"
    store = "    - {id: STD, kind: store, from: sA, to: d}\n"
    with pytest.raises(SchedgenError, match="before 'STD' touches them"):
        kernel(MOVED.replace(between + store, store + between))


def test_a_wait_without_a_gather_is_refused() -> None:
    gather = "    - {id: GA, kind: gather, role: gather, from: a, index: index, to: sA}\n"
    load = "    - {id: GA, kind: load, from: a, to: sA}\n"
    text = MOVED.replace(gather, load).replace("  index: {shape: [m], dtype: i32}\n", "")
    with pytest.raises(SchedgenError, match="no gather before 'GL'"):
        kernel(text.replace("[sources, k]", "[m, k]"))


# -- what there is no emitter for -----------------------------------------------------------------


MOVED = """
schedgen: 1
kernel: taken
about: rows that a list takes, written out
targets: [h200]
arguments:
  a: {shape: [sources, k], dtype: bf16}
  index: {shape: [m], dtype: i32}
  d: {shape: [m, k], dtype: bf16}
buffers:
  sA: {space: smem, shape: [64, 64], dtype: bf16, depth: 2}
loops:
  trips: ceil(k / 64)
operations:
  body:
    - {id: GA, kind: gather, role: gather, from: a, index: index, to: sA}
    - {id: GL, kind: land, role: gather, to: sA}
    - {id: STD, kind: store, from: sA, to: d}
parameters:
  k: {default: 256}
"""


def emitted(text: str) -> tuple[str, Kernel]:
    solution = solve(parse_spec(text), read_machine("h200"))
    made = solution.problem.kernel
    return emit(prove_solution(solution).proven, made), made


@pytest.mark.medium
def test_rows_that_are_stored_as_they_are() -> None:
    """By a bulk copy, which is fenced and told as a product is."""
    outcome = emulate(*emitted(MOVED), "sm_90a", extents={"m": 70, "k": 136})
    assert outcome.correct, outcome.errors
    assert outcome.clean


def test_short_rows_are_refused() -> None:
    """Each thread copies 16 bytes: 64 rows have no more than 64 of these."""
    text = MOVED.replace("[64, 64]", "[64, 8]").replace("k / 64", "k / 8")
    with pytest.raises(EmitError, match="128 threads load 16 bytes each of 128 rows of 16 bytes"):
        emitted(text)


def test_rows_beside_the_list_are_refused() -> None:
    text = TEXT
    for old, new in (
        ("tiled: [sources, k]", "tiled: [heads, k]"),
        ("[heads, m, n]", "[m, heads, n]"),
        ("[heads, n, k]", "[n, k]"),
    ):
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(EmitError, match=r"rows of the tile do not lie along the list"):
        emitted(text)
