"""Sizes of problems, and what the model says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen import read_machine, read_spec
from schedgen.driver.binding import kernels_of
from schedgen.errors import SchedgenError
from schedgen.execution.launched import SHARED
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.tuning.basics import mean
from schedgen.tuning.estimating import Pace, cycles
from schedgen.tuning.shapes import complete, distinct, name_of, parsed, tensor_bytes, tiles, trips


def kernel(spec: str, **settings: str) -> Kernel:
    return kernels_of(read_spec(spec), read_machine("h200"), settings)[0]


def unmeasured() -> Machine:
    """A model of which nobody measured what surrounds main loops."""
    machine = read_machine("h200")
    kept = tuple(c for c in machine.constants if c.name not in SHARED)
    return replace(machine, constants=kept)


def test_parsed() -> None:
    assert parsed("m=4096, n=512,beta=0.5") == {"m": 4096, "n": 512, "beta": 0.5}
    assert name_of({"m": 4096.0, "beta": 0.5}) == "m=4096,beta=0.5"
    for text, message in (
        ("m", "'m' is no size"),
        ("m=4k", "'4k' is no number"),
        ("m=1,m=2", "'m' is given twice"),
        ("", "'' is no size"),
    ):
        with pytest.raises(SchedgenError) as caught:
            parsed(text)
        assert message in str(caught.value)
        assert "fix: " in str(caught.value)


def test_complete() -> None:
    found = complete(kernel("gemm"), {"m": 512, "beta": 0})
    assert found == {"batch": 1, "m": 512, "k": 4096, "n": 4096, "alpha": 1, "beta": 0}
    attention = complete(kernel("attention_fwd", head_dim="64"), {"heads": 16})
    assert attention["head_dim"] == 64
    assert attention["seq_q"] == attention["seq_k"] == 4096
    for given, message in (
        ({"l": 3.0}, "'l' is not an extent of gemm"),
        ({"m": 0.5}, "an extent is a whole number"),
        ({"m": 0.0}, "an extent is a whole number"),
    ):
        with pytest.raises(SchedgenError) as caught:
            complete(kernel("gemm"), given)
        assert message in str(caught.value)
    with pytest.raises(SchedgenError, match="given twice"):
        distinct([{"m": 1.0}, {"m": 1.0}])


def test_tiles_and_trips() -> None:
    shape = complete(kernel("gemm"), {"m": 1000, "n": 1000, "k": 100})
    assert tiles(kernel("gemm"), shape) == 8 * 4
    assert trips(kernel("gemm"), shape) == 2
    symmetric = kernel("gemm_symmetric")
    extent = symmetric.tile_extents[0]
    sizes = complete(symmetric, dict.fromkeys((extent, symmetric.tile_extents[1]), 1024.0))
    assert tiles(symmetric, sizes) == 1 + 1 + 2 + 2 + 3 + 3 + 4 + 4  # of 128 x 256


def test_bytes_of_tensors() -> None:
    """All but C, which is loaded on the condition that beta is not 0."""
    shape = {"batch": 2.0, "m": 100.0, "n": 200.0, "k": 300.0}
    assert tensor_bytes(kernel("gemm"), shape) == 2 * 2 * (100 * 300 + 200 * 300 + 100 * 200)


def test_estimates() -> None:
    """Turns of one tile for each SM; an iteration takes no less than its loads."""
    one, machine = kernel("gemm"), unmeasured()
    shape = complete(one, {"m": 4096, "n": 4096})
    assert cycles(one, Pace(1024, 100), shape, machine, 132) == 4 * (64 * 1024 + 100)
    small = kernel("gemm", tile_n="128")
    assert cycles(small, Pace(512), shape, machine, 132) == 8 * 64 * (256 * 64 * 2 / 48)
    measured = read_machine("h200")
    assert cycles(one, Pace(1024, 100), shape, measured, 132) > 4 * (64 * 1024 + 100)
    assert mean([1.0, 4.0]) == 2.0
