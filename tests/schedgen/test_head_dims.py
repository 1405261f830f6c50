"""Gradients of attention with a head_dim of which no kernel is shipped, executed in the emulator.

What `schedgen emit` tries, so that the compiler accepts a kernel, is not asked for here: the
emulator has registers enough.
"""

from __future__ import annotations

import pytest

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import emulate
from schedgen.emulator.machine.policies import Adversarial
from tests.codegen.examples import solved

KERNELS = [
    ("kv", "h200", "head_dim=96 causal=true"),
    ("kv", "h200", "head_dim=192 head_dim_v=128 of=values causal=true"),
    ("kv", "h200", "head_dim=256 of=keys"),
    ("q", "h200", "head_dim=256 causal=true"),
    ("kv", "b200", "head_dim=96"),
    ("kv", "b200", "head_dim=192 head_dim_v=128 of=keys"),
    ("kv", "b200", "head_dim=256 of=values causal=true"),
    ("q", "b200", "head_dim=192 head_dim_v=128 causal=true"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("of", "target", "settings"), KERNELS)
def test_gradients(of: str, target: str, settings: str) -> None:
    """Two output tiles, several iterations, and ends that fill none of them."""
    named = dict(one.split("=") for one in settings.split())
    proven, kernel = solved(f"attention_bwd_{of}", target, **named)
    outcome = emulate(
        emit(proven, kernel),
        kernel,
        proven.program.arch,
        extents={"seq_q": 150, "seq_k": 140, "heads": 1},
        policy=Adversarial(1),
    )
    assert outcome.correct, outcome.reservations
    assert outcome.clean, outcome.report.text
