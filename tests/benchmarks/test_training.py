"""The transformer that is trained with these functions and with torch's, without a GPU."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.standin import install

ROOT = Path(__file__).parents[2]


@pytest.mark.medium
def test_both_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses fall, alike; ours are the same in a second run, and come of our kernels."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    training: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "training.py"))
    calls = install(monkeypatch)
    size = training["Size"](128, 2, 1, 32, 4, 8, 4)
    data, functions = training["corpus"](), training["FUNCTIONS"]
    assert not calls
    ours, again = (training["trained"](functions["schedgen"], data, size, "cpu") for _ in range(2))
    launched = {name.split("_sm_90a")[0] for name in calls}
    assert launched >= {"attention_fwd", "attention_bwd_delta", "gemm", "gemm_epilogue"}
    del calls[:]
    theirs, _ = training["trained"](functions["torch"], data, size, "cpu")
    assert not calls
    assert ours[0] == again[0]
    assert ours[0][-1] < ours[0][0] - 0.5
    assert ours[0] == pytest.approx(theirs, rel=0.01)
