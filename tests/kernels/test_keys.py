"""Kernels of attention with more keys in an iteration, and for which lengths they are taken."""

from __future__ import annotations

import pytest
import torch

from schedgen.driver import lock_file
from schedgen.kernels import keys
from schedgen.kernels.keys import KEYS, OWN


@pytest.mark.parametrize(
    ("causal", "seq_q", "seq_k", "wanted"),
    [
        (False, 4096, 4096, 160),
        (False, 1, 4096, 160),
        (False, 300, 128, 128),  # one iteration is enough
        (False, 4096, 384, 128),  # three of 128 are all needed, of three with 160 less
        (False, 4096, 300, 160),
        (False, 1024, 1024, 128),  # pipelines fill and drain more slowly with more
        (True, 16384, 16384, 128),
        (True, 2048, 2048, 128),
        (True, 1024, 1024, 128),  # more above the diagonal than is saved
        (True, 4096, 128, 128),  # most rows see nothing
    ],
)
def test_lengths(causal: bool, seq_q: int, seq_k: int, wanted: int) -> None:
    assert keys.keys("sm_90a", 128, causal, seq_q, seq_k) == wanted
    assert keys.keys("sm_90a", 64, causal, seq_q, seq_k) == OWN
    assert keys.keys("sm_100a", 128, causal, seq_q, seq_k) == OWN


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing where the spec says the same."""
    monkeypatch.setattr(keys, "architecture", lambda device: "sm_90a")  # pyright: ignore
    device = torch.device("cuda")
    assert keys.settings(device, 128, False, 4096, 4096) == {"keys": "160"}
    assert keys.settings(device, 128, True, 1024, 1024) == {}


def test_all_are_shipped() -> None:
    for (arch, head_dim, causal), there in KEYS.items():
        for one in there:
            settings = {"head_dim": str(head_dim), "dtype": "fp16"}
            settings |= {"causal": "true"} if causal else {}
            settings |= {} if one == OWN else {"keys": str(one)}
            assert lock_file.locked("attention_fwd", arch, settings) is not None
