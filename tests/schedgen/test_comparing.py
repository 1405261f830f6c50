"""Results beside their reference: bounds of elements, NaN and infinity at the same places."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from schedgen.comparing import Compared, compare


def compared(
    found: list[float], value: list[float], error: list[float], stored: list[bool] | None = None
) -> Compared:
    one, other, bound = (np.array([row]) for row in (found, value, error))
    everywhere = np.array([stored or [True] * len(found)])
    return compare(one, other, bound, everywhere, ("m", "n"))


def test_each_element_has_its_own_bound() -> None:
    """The norm of the difference is small beside the large element; the small one is wrong."""
    result = compared([1000.0, 2.0], [1000.0, 1.0], [4.0, 0.01])
    assert not result.matches
    assert result.differ == 1
    assert result.worst is not None
    assert result.worst.at == (0, 1)
    assert result.ratio == pytest.approx(100)
    assert result.error < 2.0**-7
    text = result.text("d")
    assert text.startswith(
        "d: 1 of 2 elements differ (50 %), the worst at (m=0, n=1): 2 instead of 1"
    )


def test_within_bounds() -> None:
    result = compared([1.0, 2.5], [1.0, 2.0], [0.0, 0.5])
    assert result.matches
    assert result.defined
    assert result.ratio == 1.0
    assert "all 2 elements within their bounds" in result.text("d")


@pytest.mark.parametrize(
    ("found", "value"),
    [(nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (-inf, inf), (nan, inf), (inf, nan)],
)
def test_what_is_no_number_is_at_the_same_places(found: float, value: float) -> None:
    assert compared([found, 1.0], [value, 1.0], [0.0, 0.0]).differ == 1
    assert compared([value, 1.0], [value, 1.0], [0.0, 0.0]).matches


def test_nan_in_the_reference_is_reported() -> None:
    result = compared([nan, nan, 1.0, inf], [nan, nan, 1.0, inf], [0.0] * 4)
    assert result.matches
    assert not result.defined
    assert (result.nan, result.nan_wanted) == (2, 2)
    assert "2 of 4 elements of 'o' are NaN in the reference, too" in result.reservation("o")
    assert "NaN are 50 %, in the reference 50 %" in result.text("o")


def test_infinity_is_defined() -> None:
    assert compared([inf], [inf], [0.0]).defined


def test_what_nothing_is_known_of_is_not_compared_and_reported() -> None:
    result = compared([3.0, 1.0], [1.0, 1.0], [inf, 0.0])
    assert result.matches
    assert result.unknown == 1
    assert "1 of 2 elements of 'o' were not compared" in result.reservation("o")


def test_what_should_not_be_stored() -> None:
    assert compared([nan, 1.0], [nan, 1.0], [inf, 0.0], [False, True]).defined
    assert compared([0.0, 1.0], [nan, 1.0], [inf, 0.0], [False, True]).differ == 1


def test_no_bound_is_exact() -> None:
    result = compared([1.0 + 2.0**-40], [1.0], [0.0])
    assert result.differ == 1
    assert result.ratio == inf


def test_empty() -> None:
    empty = np.zeros((0, 3))
    assert compare(empty, empty, empty, empty == 0, ("m", "n")).matches
