"""What is known of an iteration's cycles when a kernel was compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schedgen.cycles import predict
from schedgen.cycles.predict import Cycles
from schedgen.driver.emitting import Emission, emission
from schedgen.driver.pricing import SHARE, cycles_of
from schedgen.errors import SchedgenError
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

REPORT: Any = SimpleNamespace(built=SimpleNamespace(cubin="nowhere"))


def made(target: str) -> Emission:
    return emission(read_spec("gemm_chain"), read_machine(target), {})


@pytest.mark.medium
@pytest.mark.parametrize(("share", "known"), [(1.0, 1234.5), (SHARE, 1234.5), (SHARE - 0.01, None)])
def test_code_that_is_recognized(
    monkeypatch: pytest.MonkeyPatch, share: float, known: float | None
) -> None:
    def priced(*_: object) -> Cycles:
        return Cycles(1234.5, {}, {}, share, {})

    monkeypatch.setattr(predict, "cycles", priced)
    assert cycles_of(REPORT, made("h200")) == known


@pytest.mark.medium
def test_nothing_is_known_without_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Cycles:
        raise SchedgenError("there is no nvdisasm")

    monkeypatch.setattr(predict, "cycles", fails)
    assert cycles_of(REPORT, made("h200")) is None


@pytest.mark.medium
def test_other_architectures_are_not_priced() -> None:
    assert cycles_of(REPORT, made("b200")) is None
