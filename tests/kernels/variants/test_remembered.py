"""What the compiler refuses is kept, so that nobody waits twice; that it was ended is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedgen import read_spec
from schedgen.codegen.compiling import CompileError, CompilerEnded
from schedgen.driver import attempts, emitting
from schedgen.kernels.errors import GradientError
from schedgen.kernels.variants import calling, gradients
from schedgen.stored import Store

SETTINGS = {"head_dim": "128"}
SPEC = read_spec("attention_fwd")

Outcome = Exception | bool


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What compiling kernels with fewer and fewer keys leads to, the next one last."""
    listed: list[Outcome] = []

    def compiled(*_: Any, **__: Any) -> Any:
        outcome = listed.pop()
        if isinstance(outcome, Exception):
            raise outcome
        return SimpleNamespace(report=outcome)

    monkeypatch.setattr(emitting, "emission", lambda *_, **__: None)  # pyright: ignore
    monkeypatch.setattr(attempts, "compiled", compiled)
    monkeypatch.setattr(attempts, "acceptable", bool)
    return listed


def size(store: Store) -> str:
    return calling._size(SPEC, "h200", SETTINGS, "keys", store)  # pyright: ignore


def test_sizes_of_an_iteration(outcomes: list[Outcome], tmp_path: Path) -> None:
    store, refused = Store(tmp_path), CompileError("too much to compute")
    outcomes[:] = [True]
    assert size(store) == ""
    outcomes[:] = [True, refused, False]
    assert size(store) == str(calling.SMALLER[1])
    outcomes[:] = [CompilerEnded("SIGKILL")]
    with pytest.raises(CompilerEnded):
        size(store)


@pytest.fixture
def or_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Exception], list[str]]:
    """Asks for a kernel that raises an error, or others: which of them were made."""
    source = SimpleNamespace(source=SimpleNamespace(sha256="of a spec"))
    monkeypatch.setattr(gradients, "_derived", lambda *_: source)  # pyright: ignore
    monkeypatch.setattr(gradients, "Store", lambda: Store(tmp_path))  # pyright: ignore
    made: list[str] = []

    def ask(error: Exception) -> list[str]:
        def kernel(*_: Any) -> Any:
            made.append("asked for")
            raise error

        def others() -> tuple[Any, ...]:
            made.append("others")
            return ()

        made.clear()
        monkeypatch.setattr(gradients, "_kernel", kernel)
        given: Any = None
        gradients._or_else(given, "h200", (), others, "have two kernels")  # pyright: ignore
        return list(made)

    return ask


def test_kernels_that_are_refused(or_else: Callable[[Exception], list[str]]) -> None:
    with pytest.raises(CompilerEnded):
        or_else(CompilerEnded("SIGKILL"))
    refused = GradientError("registers do not suffice")
    assert or_else(refused) == ["asked for", "others"]
    assert or_else(refused) == ["others"]
