"""Styles that were measured to be faster."""

from __future__ import annotations

from schedgen.driver import lock_file
from schedgen.kernels import styles


def test_locks_have_them() -> None:
    """What a table says is what is shipped, and each of its entries is of a kernel."""
    seen: set[tuple[str, str, int]] = set()
    for one in lock_file.every():
        spec, settings = one.lock.spec, one.kernel.settings
        words = styles.styled(one.kernel.style, spec, one.lock.target, settings)
        assert words == set(one.kernel.style), one.name
        if one.lock.target != styles.MEASURED:
            continue
        for word in words & styles.FASTER.keys():  # others are peeled where machine code says so
            for number, wanted in enumerate(styles.FASTER[word].get(spec, ())):
                if styles.fits(settings, wanted):
                    seen.add((word, spec, number))
    assert seen == {
        (word, spec, number)
        for word, kernels in styles.FASTER.items()
        for spec, every in kernels.items()
        for number in range(len(every))
    }


def test_what_is_not_measured_stays() -> None:
    assert styles.styled(("peeled",), "rms_factors", "h200", {}) == {"peeled", "prompt"}
    assert styles.styled(("peeled", "prompt"), "rms_factors", "b200", {}) == {"peeled"}
    assert styles.styled((), "gemm_mixed", "h200", {"weights": "i8"}) == set()


def test_what_is_mixed_has_no_blocks() -> None:
    settings = {"head_dim": "128"}
    found = styles.styled(("blocks",), "attention_bwd", "h200", settings)
    assert found == {"shared", "prompt", "loose", "late"}
    settings["causal"] = "true"  # an entry with an empty value is of kernels that have none
    found = styles.styled(("blocks",), "attention_bwd", "h200", settings)
    assert found == {"shared", "prompt", "peeled", "loose"}
