"""Styles that were measured to be faster, or with which registers suffice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schedgen.codegen.style import Style
from schedgen.driver import attempts, emitting, lock_file
from schedgen.kernels import styles
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec


def test_locks_have_them() -> None:
    """What tables say is what is shipped, and each of their entries is of a kernel."""
    seen: set[tuple[str, str, str, int]] = set()
    for one in lock_file.every():
        spec, settings = one.lock.spec, one.kernel.settings
        words = styles.styled(one.kernel.style, spec, one.lock.target, settings)
        assert words == set(one.kernel.style), one.name
        taken = styles.TAKEN.get(one.lock.target, {})
        for word in words & taken.keys():  # others are peeled where machine code says so
            for number, wanted in enumerate(taken[word].get(spec, ())):
                if styles.fits(settings, wanted):
                    seen.add((one.lock.target, word, spec, number))
    assert seen == {
        (target, word, spec, number)
        for target, taken in styles.TAKEN.items()
        for word, kernels in taken.items()
        for spec, every in kernels.items()
        for number in range(len(every))
    }


def test_what_is_not_measured_stays() -> None:
    assert styles.styled(("peeled",), "rms_factors", "h200", {}) == {"peeled", "prompt"}
    assert styles.styled(("peeled", "prompt"), "rms_factors", "b200", {}) == {"peeled"}
    assert styles.styled((), "gemm_mixed", "h200", {"weights": "i8"}) == set()


def test_what_suffices_is_of_blackwell() -> None:
    settings = {"head_dim": "256", "causal": "true"}
    assert styles.styled((), "attention_fwd", "b200", settings) == {"o1"}
    assert styles.styled((), "attention_fwd", "b200", {"head_dim": "256"}) == set()
    assert "o1" not in styles.styled(("o1",), "attention_fwd", "h200", settings)


def test_what_is_mixed_has_no_blocks() -> None:
    settings = {"head_dim": "128"}
    found = styles.styled(("blocks",), "attention_bwd", "h200", settings)
    assert found == {"shared", "prompt", "loose", "late"}
    settings["causal"] = "true"  # an entry with an empty value is of kernels that have none
    found = styles.styled(("blocks",), "attention_bwd", "h200", settings)
    assert found == {"shared", "prompt", "peeled", "loose"}


def test_edits_are_written_as_what_they_are_of() -> None:
    """Such as kernels of packed sequences; a variant has a mask."""
    settings = {"head_dim": "128", "ordered": "true"}
    found = styles.styled((), "attention_varlen_bwd", "h200", settings)
    assert found == styles.styled((), "attention_bwd", "h200", settings)
    found = styles.styled((), "attention_variant_bwd", "h200", settings)
    assert found == {"shared", "prompt", "peeled", "loose", "o1"}
    assert {spec for spec, _ in styles.LIKE.values()} <= {lock.spec for lock in locks()}
    assert not styles.LIKE.keys() & {lock.spec for lock in locks()}


def locks() -> list[lock_file.Lock]:
    return [one.lock for one in lock_file.every()]


def test_the_compiler_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule as it was planned first, where that was measured; what it refuses stays."""
    spec, machine = read_spec("attention_bwd"), read_machine("h200")
    made = SimpleNamespace(style=Style.of(["blocks"]), what="selected")
    refused = {"planned", "selected"}
    seen: list[tuple[str, tuple[str, ...]]] = []

    def compiled(emitted: Any, *_: object, conform: bool) -> Any:
        seen.append((emitted.what, emitted.style.words))
        return SimpleNamespace(report=emitted.what not in refused)

    def restyled(emitted: Any, style: Style) -> Any:
        return SimpleNamespace(style=style, what=emitted.what)

    monkeypatch.setattr(attempts, "compiled", compiled)
    monkeypatch.setattr(attempts, "acceptable", bool)
    monkeypatch.setattr(emitting, "restyled", restyled)
    planned = SimpleNamespace(style=Style(), what="planned")
    monkeypatch.setattr(emitting, "emission", lambda *_, **__: planned)  # pyright: ignore

    def found() -> Any:
        given: Any = made, spec, machine, {"head_dim": "128"}, None
        return styles.in_style(*given)

    assert found() is made
    words = ("shared", "prompt", "loose", "late")
    assert seen == [("planned", words), ("selected", words)]
    refused.remove("selected")
    assert (found().what, found().style.words) == ("selected", words)
    refused.clear()
    assert found().what == "planned"


def test_what_a_spec_says_by_itself_need_not_be_given() -> None:
    own = lock_file.by_itself(read_spec("attention_bwd"), "h200")
    assert (own["dtype"], own["causal"]) == ("bf16", "false")
    said = {"head_dim": "64", "dtype": "bf16", "ordered": "true"}
    wanted = styles.styled((), "attention_bwd", "h200", said)
    assert "o1" in wanted
    for less in ({"head_dim": "64", "ordered": "true"}, {**said, "causal": "false"}):
        assert styles.styled((), "attention_bwd", "h200", less, own) == wanted
    other = {**said, "dtype": "fp16"}
    assert "o1" not in styles.styled((), "attention_bwd", "h200", other, own)
