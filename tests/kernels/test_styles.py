"""Styles that were measured to be faster, or with which registers suffice."""

from __future__ import annotations

from schedgen.driver import lock_file
from schedgen.kernels import styles


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
    assert styles.styled(("o1",), "attention_fwd", "h200", settings) == set()


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
