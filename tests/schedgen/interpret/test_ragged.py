"""Sizes that are data, in both evaluations of a spec, beside plain numpy."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch

from schedgen.driver.solution import solve
from schedgen.interpret.concurrent import run_program
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.reference.evaluate import evaluate
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize
from tests.schedgen.interpret.problems import kernel, random

SETTINGS = {"rows": "16", "keys": "16", "head_dim": "64"}
QUERIES, KEYS = (37, 0, 1, 33, 20), (20, 5, 0, 70, 16)
"""Lengths of sequences; what lies before the first and behind the last one belongs to nobody."""
BEFORE, BEHIND = 2, 3


def inputs(heads: int, heads_k: int) -> dict[str, torch.Tensor]:
    q, k = (BEFORE + sum(lengths) + BEHIND for lengths in (QUERIES, KEYS))
    starts = (list(accumulate(n, initial=BEFORE)) for n in (QUERIES, KEYS))
    begin_q, begin_k = (torch.tensor(one, dtype=torch.int32) for one in starts)
    return {
        "q": random(q, heads, 64, seed=1),
        "k": random(k, heads_k, 64, seed=2),
        "v": random(k, heads_k, 64, seed=3),
        "cu_seqlens_q": begin_q,
        "cu_seqlens_k": begin_k,
        "scale": torch.tensor(0.18),
    }


def attention(given: dict[str, torch.Tensor], *, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Results and logarithms in float64, NaN where there is none."""
    q, k, v = (given[name].double().numpy() for name in ("q", "k", "v"))
    heads, group = q.shape[1], q.shape[1] // k.shape[1]
    o = np.full((len(q), heads, v.shape[2]), np.nan)
    lse = np.full((len(QUERIES), heads, max(QUERIES)), np.nan)
    begin_q, begin_k = ([int(n) for n in given[name]] for name in ("cu_seqlens_q", "cu_seqlens_k"))
    segments = zip(pairwise(begin_q), pairwise(begin_k), strict=True)
    for number, ((q0, q1), (k0, k1)) in enumerate(segments):
        row, column = np.arange(q1 - q0)[:, None], np.arange(k1 - k0)[None, :]
        seen = column <= row + (k1 - k0) - (q1 - q0) if causal else column >= 0
        for head in range(heads):
            scores = q[q0:q1, head] @ k[k0:k1, head // group].T * float(given["scale"])
            weights = np.where(seen, np.exp2(scores), 0.0)
            total = weights.sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(total[:, None] > 0, weights / total[:, None], 0.0)
                lse[number, head, : q1 - q0] = np.log(total)
            o[q0:q1, head] = shares @ v[k0:k1, head // group]
    return o, lse


@pytest.mark.medium
@pytest.mark.parametrize("target", ["b200", "h200"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_packed_sequences(target: str, causal: bool) -> None:
    made = kernel("attention_varlen", target, causal=str(causal).lower(), **SETTINGS)
    given, extents = inputs(2, 1), {"batch": 5, "seq_q": max(QUERIES)}
    o, lse = attention(given, causal=causal)
    wanted: dict[str, np.ndarray] = {"o": o, "lse": lse}
    numbers = {name: value.double().numpy() for name, value in given.items()}
    expected = evaluate(made, numbers, extents)
    for name, value in run(made, given, extents).items():
        found = value.double().numpy()
        right = wanted[name]
        assert (np.isnan(found) == np.isnan(right)).all()
        assert ((expected[name].stores > 0) == ~np.isnan(right)).all()
        there = np.isfinite(right)
        assert (found[~there & ~np.isnan(right)] == -np.inf).all()
        assert np.abs(found[there] - right[there]).max() < 0.02
        assert np.abs(expected[name].number.value[there] - right[there]).max() < 0.02


def test_rows_that_see_no_key() -> None:
    """More queries than keys under a causal mask: the first queries see none."""
    made = kernel("attention_varlen", "h200", causal="true", **SETTINGS)
    found = run(made, inputs(1, 1), {"batch": 5, "seq_q": max(QUERIES)})
    assert (found["o"][BEFORE : BEFORE + 17] == 0).all()
    assert (found["lse"][0, :, :17] == -torch.inf).all()


def small() -> Kernel:
    return kernel("attention_varlen", "h200", **SETTINGS)


@pytest.mark.slow
def test_programs_do_the_same() -> None:
    """Under a random interleaving, the tiles of a sequence one after the other."""
    settings = {"head_dim": "64", "keys": "64"}
    solution = solve(read_spec("attention_varlen"), read_machine("h200"), settings=settings)
    made = solution.problem.kernel
    program = synthesize(made, solution.schedule, solution.problem.machine)
    extents = {"batch": 5, "seq_q": max(QUERIES)}
    wanted = run(made, inputs(1, 1), extents)
    for name, value in run_program(program, made, inputs(1, 1), 3, extents).items():
        assert torch.equal(value.nan_to_num(7), wanted[name].nan_to_num(7))


def test_missing_arrays_and_extents() -> None:
    given = inputs(1, 1)
    with pytest.raises(InterpretationError, match="no input has the extent 'seq_q'"):
        run(small(), given, {"batch": 5})
    del given["cu_seqlens_k"]
    with pytest.raises(InterpretationError, match="the input 'cu_seqlens_k' is missing"):
        run(small(), given, {"batch": 5, "seq_q": 37})
