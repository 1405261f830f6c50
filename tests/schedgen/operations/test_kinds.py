"""Every kind of operation has all that stages ask of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from schedgen.codegen.kinds import WRITERS
from schedgen.kernel import Kind
from schedgen.machine_file import read_machine
from schedgen.operations import KINDS, Condition, OperationBase

ROOT = Path(__file__).parents[3]
ASKED = ("note", "fits", "work", "align", "compute")


def test_all_kinds_have_a_module() -> None:
    assert set(KINDS) == set(Kind)
    for kind, entry in KINDS.items():
        assert entry.__module__ == f"schedgen.operations.{kind.value}"
        assert get_args(entry.model_fields["kind"].annotation) == (kind.value,)
        assert all(getattr(entry, name) is not getattr(OperationBase, name) for name in ASKED)


def test_who_executes_them() -> None:
    """Threads write what engines do not do, nor a wait."""
    assert set(WRITERS) | {Kind.LOAD, Kind.STORE, Kind.MMA, Kind.LAND} == set(Kind)
    assert {kind for kind, entry in KINDS.items() if entry.CONDITION is Condition.ELEMENTS} == {
        Kind.MAP
    }


def test_machines_have_a_price_for_them() -> None:
    for name in ("abstract", "b200", "h200"):
        kinds = {kind for rule in read_machine(name).rules for kind in rule.kinds}
        assert kinds == set(Kind)


def test_documentation() -> None:
    """docs/spec.md has a row for each, in their words (docs/fill.py)."""
    text = (ROOT / "docs" / "spec.md").read_text("utf-8")
    for kind, entry in KINDS.items():
        assert f"| `{kind.value}` | {entry.KEYS} | {entry.MEANING} |" in text


def test_the_reference_shares_no_code() -> None:
    for path in (ROOT / "schedgen" / "reference").glob("*.py"):
        text = path.read_text("utf-8")
        assert not re.search(r"^ *(from|import) schedgen\.(operations|interpret)", text, re.M)
