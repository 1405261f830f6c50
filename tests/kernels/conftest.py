"""What tests of the kernels share."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.standin import install


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are computed on the CPU; the names of the files that were launched."""
    return install(monkeypatch)


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random tensors each time: what is right to some tolerance is so always, or never."""
    torch.manual_seed(0)
