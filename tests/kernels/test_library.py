"""Files of shipped kernels: found, made from their locks once, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from schedgen.driver import lock_file, locked
from schedgen.driver.lock_file import Locked, LockError
from schedgen.kernels import KernelError, library, load
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.launcher import architecture

NAME = "gemm_sum_sm_90a_fp16.py"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for what is kept."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


def one() -> Locked:
    found = lock_file.named(NAME)
    assert found is not None
    return found


def test_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library.file(one())
    assert path.is_relative_to(cache)
    assert path.name == NAME

    def text_of(kernel: Locked) -> str:
        raise AssertionError(f"{kernel.name} is made again")

    monkeypatch.setattr(locked, "text_of", text_of)
    assert library.file(one()) == library.named(NAME) == path


def test_examples_are_taken_as_they_lie() -> None:
    path = library.named("gemm_sm_90a_bf16.py")
    assert path.parent == library.EXAMPLES


def test_a_kernel_that_would_be_another_is_not_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked, "digest", lambda plain: "0" * 64)  # pyright: ignore
    with pytest.raises(LockError, match="another text than its lock says"):
        library.file(one())
    assert not list(cache.rglob("*.py"))


def test_by_name() -> None:
    assert load(NAME).facts.kernel == "gemm_sum"
    with pytest.raises(KernelError, match=r"'gemm_sum_sm_90a_fp6.py' is no shipped kernel; fix: "
                       r"did you mean 'gemm_sum_sm_90a_fp16.py'"):  # fmt: skip
        load("gemm_sum_sm_90a_fp6.py")
    with pytest.raises(KernelError, match="such as gemm_sm_90a_fp16"):
        library.named("x")


def test_by_settings() -> None:
    path = library.path_of("gemm", "sm_90a", {"dtype": "bf16"})
    assert path == library.named("gemm_sm_90a_bf16.py")
    with pytest.raises(DeviceError, match=r"there is no gemm_sm_90a_fp6\.py among the shipped"):
        library.path_of("gemm", "sm_90a", {"dtype": "fp6"})


def test_a_kernel_that_is_not_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert architecture is library.architecture
    monkeypatch.setattr(library, "architecture", lambda device: "sm_90a")  # pyright: ignore
    with pytest.raises(library.DeviceError, match=r"there is no gemm_sum_sm_90a_f32\.py among"):
        library.launcher(torch.device("cpu"), "gemm_sum", dtype="f32")
