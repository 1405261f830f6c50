"""What tests of the benchmarks share."""

from __future__ import annotations

import pytest

from tests.kernels.standin import install


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are computed on the CPU; the names of the files that were launched."""
    return install(monkeypatch)
