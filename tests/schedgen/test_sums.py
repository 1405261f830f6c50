"""Sums in global memory (``reduce: add`` of stores): what they mean, and what a spec has to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from schedgen.codegen.emit import emit
from schedgen.conform.actions import bulk_kind
from schedgen.driver.emulating import emulate
from schedgen.driver.inputs import compared, outputs, random_inputs
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.ptx.parse import parse as parse_ptx
from schedgen.extents import covered
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.kernels import layouts
from schedgen.kernels.of_spec import SpecKernel
from schedgen.machine_file import read_machine
from schedgen.reference.evaluate import evaluate
from schedgen.spec.bind import bind
from schedgen.spec.coverage import coverage_mistakes
from schedgen.spec.reader import read_spec
from schedgen.sums import part_of_sums, summed
from schedgen.tensors import GridAxis
from tests.codegen.examples import solved

SUMS = str(Path("tests/data/specs/sums.yaml"))
EXTENTS = {"m": 130, "n": 300, "k": 72}


def bound(name: str, target: str = "b200", **settings: str) -> Kernel:
    spec, space = read_spec(name), read_machine(target).accumulators
    return bind(spec.source, spec.file, target, settings, accumulators=space)[0]


def test_each_output_tile_adds_to_what_is_there() -> None:
    """Interpreter and reference: three tiles along n add the same rows."""
    kernel = bound(SUMS)
    assert summed(kernel) == {"e"}
    inputs = random_inputs(kernel, EXTENTS, 0)
    found = run(kernel, inputs, EXTENTS)
    before, a = torch.as_tensor(inputs["e"]), torch.as_tensor(inputs["a"])
    torch.testing.assert_close(found["e"], before + 6 * a.float())
    numbers = {n: torch.as_tensor(value).double().numpy() for n, value in inputs.items()}
    expected = evaluate(kernel, numbers, EXTENTS)
    assert (expected["e"].stores == 4).all()  # what was there, and three parts
    assert all(one.matches for one in compared(kernel, found, expected).values())
    wrong = compared(kernel, {"e": found["e"] + 2 * a.float()}, expected)  # a part too many
    assert not wrong["e"].matches


def test_what_a_sum_begins_with_has_to_be_passed() -> None:
    kernel = bound(SUMS)
    inputs = random_inputs(kernel, EXTENTS, 0)
    made = outputs(kernel, EXTENTS, inputs)
    assert made["d"].isnan().all()
    assert (made["e"] == inputs["e"]).all()
    with pytest.raises(InterpretationError, match="the input 'e' is missing"):
        run(kernel, {n: v for n, v in inputs.items() if n != "e"}, EXTENTS)


def test_order_is_nobodys_unless_parts_do_not_meet() -> None:
    """A sum of one part for each element has the same bits in each run."""
    kernel = bound(SUMS)

    def in_order(grid: tuple[GridAxis, ...], one_tile: tuple[str, ...] = ()) -> list[str]:
        operations = tuple(replace(o, unordered=False) for o in kernel.operations)
        changed = replace(kernel, operations=operations, grid=grid, one_tile=one_tile)
        return [mistake.rule for mistake in coverage_mistakes(changed)]

    assert coverage_mistakes(kernel) == []
    assert in_order(kernel.grid) == ["unordered-sum"]
    assert in_order(kernel.grid, one_tile=("n",)) == []


def test_products_that_are_parts_of_sums_cover_their_tile_only() -> None:
    """The gradient of queries adds up over keys, of which an output tile has a block."""
    kernel = bound("attention_bwd", head_dim="64")
    assert part_of_sums(kernel, kernel.operation["DSK[0,0]"]) == {"seq_k", "head_dim_v"}
    assert part_of_sums(kernel, kernel.operation["PDO[0]"]) == frozenset()
    assert covered(kernel) == {"head_dim": 64, "head_dim_v": 64}
    first = [axis.extent for axis in bound("attention_bwd_kv").grid]
    assert [axis.extent for axis in kernel.grid] == first


def test_functions_begin_sums_with_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sums.py"
    path.write_text(emit(*solved(SUMS, "h200")), "utf-8")
    made = SpecKernel(path)
    assert (made.facts.outputs, made.facts.sums) == (("d", "e"), ("e",))
    passed: list[Tensor] = []

    def launch(*given: Tensor) -> None:
        passed.extend(given)

    def room(like: Tensor, shape: Sequence[int]) -> Tensor:
        return like.new_full(shape, torch.nan)

    monkeypatch.setattr(made, "_launch", launch)
    monkeypatch.setattr(layouts, "room", room)
    made._run(torch.ones(8, 64).bfloat16(), torch.ones(16, 64).bfloat16())
    _, _, d, e = passed
    assert d.isnan().all()
    assert (e == 0).all()


@pytest.mark.parametrize(("operation", "kind"), [("add", "add"), ("min", None)])
def test_instructions_that_add(operation: str, kind: str | None) -> None:
    text = f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group
        [%rd1, {{%r1, %r1}}], [%r1];
    ret;
}}
"""
    assert bulk_kind(parse_ptx(text).kernels["k"].body[0]) == kind


def _gradients(q: Tensor, k: Tensor, v: Tensor, do: Tensor, causal: bool) -> list[Tensor]:
    """Of attention in float64: the output, base-2 logarithms of sums, gradients of q, k and v."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        scores = scores.masked_fill(~seen, -torch.inf)
    out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
    out.backward(do.double())
    lse = scores.logsumexp(-1) * math.log2(math.e)
    return [x.detach() for x in (out, lse, *(x.grad for x in (q, k, v) if x.grad is not None))]


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention_in_five_products(causal: bool) -> None:
    """What the interpreter makes of attention_bwd and attention_bwd_convert beside autograd."""
    torch.manual_seed(0)
    q, do = (torch.randn(1, 70, 2, 64).bfloat16() for _ in range(2))
    k, v = (torch.randn(1, 136, 2, 64).bfloat16() for _ in range(2))
    out, lse, *wanted = _gradients(q, k, v, do, causal)
    delta = (do.double() * out).sum(-1).mT.contiguous()
    inputs = {"q": q, "k": k, "v": v, "do": do, "lse": lse.float(), "delta": delta.float()}
    inputs |= {"done": torch.zeros(1, 2, dtype=torch.int32)}
    inputs |= {"dq": torch.zeros(q.shape), "scale": torch.tensor(math.log2(math.e) / 8)}
    found = run(bound("attention_bwd", causal=str(causal).lower()), inputs)
    convert = bound("attention_bwd_convert")
    dq = run(convert, {"sum": found["dq"], "scale": torch.tensor(1 / 8)})["dq"]
    for mine, right in zip((dq, found["dk"], found["dv"]), wanted, strict=True):
        error = (mine.double() - right).square().sum() / right.square().sum()
        assert error.sqrt().item() < 6e-3


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", ["64", "128"])
def test_gradients_in_the_emulator(head_dim: str) -> None:
    """Two tiles of keys add to the same rows of queries, under an order meant to break it."""
    proven, kernel = solved("attention_bwd", "h200", head_dim=head_dim)
    outcome = emulate(
        emit(proven, kernel),
        kernel,
        proven.program.arch,
        extents={"seq_q": 70, "seq_k": 136, "heads": 1},
        policy=Adversarial(1),
    )
    assert outcome.correct, outcome.reservations
    assert outcome.clean, outcome.report.text
