"""What tests of the kernels share."""

from __future__ import annotations

from typing import Any

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


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for Hopper run in the emulator, with the race checker."""
    from schedgen.driver.emulating import launched
    from schedgen.kernels import layouts, of_file

    class Launcher:
        def __init__(self, path: Any, device: torch.device) -> None:
            del device
            self.text = path.read_text("utf-8")

        def launch(self, tensors: Any, scalars: Any) -> None:
            views = [t.detach().as_strided(t.shape, (*layouts.strides(t), 1)) for t in tensors]
            report = launched(self.text, "sm_90a", views, scalars)
            assert not report.errors, report.text

    monkeypatch.setattr(of_file, "launcher", Launcher)
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.attention_decode_kvcache.multiprocessors", lambda _: 132)  # pyright: ignore
