"""Conversions against definitions written out here, and against torch's types."""

import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from schedgen.emulator.layouts.formats import FORMATS, from_float32, to_float32

TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
SMALL = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue4m3")


def samples() -> NDArray[np.float32]:
    """Values of all magnitudes, ties included, and special ones."""
    random = np.random.default_rng(0)
    raw = random.integers(0, 1 << 32, 20000, np.uint32)
    near = random.integers(0, 1 << 16, 20000).astype(np.float32) * np.float32(2.0**-12)
    ties = (raw & np.uint32(0xFFFF8000)).view(np.float32)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 65504, 65520, 448, 464, 465]
    parts = [raw.view(np.float32), near, -near, ties, np.array(special, np.float32)]
    return np.concatenate(parts)


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_comes_back(name: str) -> None:
    form = FORMATS[name]
    if name == "tf32":
        codes = np.arange(1 << 19, dtype=np.uint32) << np.uint32(13)
    else:
        codes = np.arange(1 << form.bits, dtype=form.stored)
    values = to_float32(codes, name)
    rounding = "rz" if name == "ue8m0" else "rn"
    back = from_float32(values, name, rounding)
    finite = np.isfinite(values)
    assert np.array_equal(back[finite], codes[finite])
    if form.nan is not None:
        assert (back[np.isnan(values)] == form.nan).all()


@pytest.mark.parametrize("name", TORCH)
def test_small_formats_agree_with_torch(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(codes).view(TORCH[name]).float().numpy()
    assert np.array_equal(to_float32(codes, name), expected, equal_nan=True)
    top = to_float32(np.array([FORMATS[name].top], np.uint8), name)[0]
    values = samples()
    values = values[np.abs(values) <= top]
    expected = torch.from_numpy(values).to(TORCH[name]).view(torch.uint8).numpy()
    assert np.array_equal(from_float32(values, name, satfinite=True), expected)


def test_bf16_and_f16_agree_with_torch() -> None:
    values = samples()
    values = values[~np.isnan(values)]
    for name, type_ in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        expected = torch.from_numpy(values).to(type_).view(torch.uint16).numpy()
        assert np.array_equal(from_float32(values, name), expected)
        decoded = torch.from_numpy(expected).view(type_).float().numpy()
        assert np.array_equal(to_float32(expected, name), decoded)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("rounding", ["rn", "rz", "rna"])
def test_rounding_picks_a_neighbour_by_its_definition(name: str, rounding: str) -> None:
    form = FORMATS[name]
    grid = to_float32(np.arange(form.top + 1, dtype=np.uint8), name).astype(np.float64)
    values = np.random.default_rng(1).uniform(0, grid[-1], 500).astype(np.float32)
    values = np.concatenate([values, ((grid[1:] + grid[:-1]) / 2).astype(np.float32)])
    codes = from_float32(values, name, rounding, satfinite=True)
    for value, code in zip(values.tolist(), codes.tolist(), strict=True):
        below = bisect_right(grid.tolist(), value) - 1
        if grid[below] == value or rounding == "rz" or below == form.top:
            assert code == below
            continue
        low, high = value - grid[below], grid[below + 1] - value
        tie = {"rn": below + (below & 1), "rna": below + 1}[rounding]
        assert code == (tie if low == high else below + (high < low))


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32"])
def test_rounding_toward_zero_never_grows(name: str) -> None:
    values = samples()
    values = values[np.abs(values) <= 65504]
    down = to_float32(from_float32(values, name, "rz"), name)
    near = to_float32(from_float32(values, name, "rn"), name)
    assert (np.abs(down) <= np.abs(values)).all()
    assert np.isfinite(down).all()
    assert (np.abs(near - values) <= np.abs(down - values)).all()


def test_tf32_ties_go_away_from_zero() -> None:
    one_and_half_step = np.array([0x3F801000, 0xBF801000], np.uint32)
    away = from_float32(one_and_half_step.view(np.float32), "tf32", "rna")
    assert away.tolist() == [0x3F802000, 0xBF802000]
    even = from_float32(one_and_half_step.view(np.float32), "tf32", "rn")
    assert even.tolist() == [0x3F800000, 0xBF800000]


def test_saturation_nan_and_relu() -> None:
    values = np.array([np.inf, -np.inf, 1e30, np.nan, -2.0, -0.0], np.float32)
    assert from_float32(values, "e4m3").tolist() == [0x7E, 0xFE, 0x7E, 0x7F, 0xC0, 0x80]
    assert from_float32(values, "e2m1").tolist() == [0x7, 0xF, 0x7, 0x7, 0xC, 0x8]
    assert from_float32(values, "e5m2").tolist() == [0x7C, 0xFC, 0x7C, 0x7F, 0xC0, 0x80]
    assert from_float32(values, "e5m2", satfinite=True)[:3].tolist() == [0x7B, 0xFB, 0x7B]
    assert from_float32(values, "f16", "rz")[:4].tolist() == [0x7C00, 0xFC00, 0x7BFF, 0x7FFF]
    assert from_float32(values, "f16", satfinite=True)[:3].tolist() == [0x7BFF, 0xFBFF, 0x7BFF]
    assert from_float32(values, "bf16", satfinite=True)[:2].tolist() == [0x7F7F, 0xFF7F]
    relu = from_float32(values, "bf16", relu=True)
    assert relu[1:2].tolist() + relu[3:].tolist() == [0, 0x7FFF, 0, 0]


def test_scale_factors_are_powers_of_two() -> None:
    assert to_float32(np.array([0, 127, 254], np.uint8), "ue8m0").tolist() == [
        2.0**-127,
        1.0,
        2.0**127,
    ]
    values = np.array([1.0, 1.5, 2.0**-127, 1.1 * 2.0**-127, 1.9 * 2.0**127, np.inf], np.float32)
    assert from_float32(values, "ue8m0", "rz").tolist() == [127, 127, 0, 0, 254, 255]
    assert from_float32(values, "ue8m0", "rp").tolist() == [127, 128, 0, 1, 255, 255]
    assert from_float32(values, "ue8m0", "rp", satfinite=True).tolist()[4:] == [254, 254]
    assert math.isnan(to_float32(np.array([255], np.uint8), "ue8m0")[0])


def test_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="no rounding rp"):
        from_float32(np.zeros(1, np.float32), "f16", "rp")
