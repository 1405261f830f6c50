"""Names of barriers say what for, and who, where several do the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from schedgen.program.operations import Number
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.naming import Guard, names_of
from schedgen.synchronize.parts import Handoff, Signal

OPERATIONS = ["QK[0]", "STP[0,0]", "STP[0,1]", "PV[0]", "PV[1]", "LDS[0]"]
ROLES = ["tensor", "softmax", "softmax", "tensor", "tensor", "softmax"]
LAYOUT = cast(
    "Layout",
    SimpleNamespace(
        role_of=dict(zip(OPERATIONS, ROLES, strict=True)),
        kernel=SimpleNamespace(
            operation={name: SimpleNamespace(base=name.partition("[")[0]) for name in OPERATIONS},
            operations=OPERATIONS,
        ),
    ),
)


def guard(source: str, target: str, allocation: str = "S", *, fills: bool = True) -> Guard:
    signal = Signal(source, Number(), 1)
    return Guard((signal,), (Handoff(signal, target, Number(), allocation, fills),))


def joined(*guards: Guard) -> Guard:
    """All of them in one barrier."""
    return Guard(
        tuple(s for one in guards for s in one.signals),
        tuple(h for one in guards for h in one.handoffs),
    )


def test_stores() -> None:
    both = joined(guard("STP[0,0]", "PV[0]"), guard("STP[0,0]", "PV[0]", "O", fills=False))
    guards = [guard("QK[0]", "LDS[0]"), both, guard("LDS[0]", "QK[0]", fills=False)]
    assert names_of(LAYOUT, guards) == ["S full", "S full O empty", "S empty"]


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([("QK[0]", "LDS[0]"), ("STP[0,0]", "PV[0]")], ["by tensor", "by softmax"]),
        ([("STP[0,0]", "PV[0]"), ("LDS[0]", "PV[0]")], ["by STP", "by LDS"]),
        ([("STP[0,0]", "PV[0]"), ("STP[0,1]", "PV[0]")], ["by STP[0,0]", "by STP[0,1]"]),
        ([("STP[0,0]", "PV[0]"), ("STP[0,0]", "LDS[0]")], ["for tensor", "for softmax"]),
        ([("STP[0,0]", "PV[0]"), ("STP[0,0]", "PV[1]")], ["for PV[0]", "for PV[1]"]),
        ([("QK[0]", "PV[0]"), ("QK[0]", "PV[0]")], ["", "2"]),
    ],
)
def test_who(pairs: list[tuple[str, str]], wanted: list[str]) -> None:
    """In the shortest way that tells them apart."""
    found = names_of(LAYOUT, [guard(*pair) for pair in pairs])
    assert found == [f"S full {who}".strip() for who in wanted]


def test_several_signals() -> None:
    """One name for all of them, where there is one."""
    band = joined(guard("STP[0,0]", "PV[0]"), guard("STP[0,1]", "PV[0]"))
    assert names_of(LAYOUT, [guard("QK[0]", "PV[0]"), band])[1] == "S full by softmax"
    two = joined(band, guard("QK[0]", "PV[0]"))
    found = names_of(LAYOUT, [guard("QK[0]", "PV[0]"), two])
    assert found == ["S full by tensor", "S full by softmax tensor"]
