"""Tensor maps that a kernel writes: the fences of the tensormap proxy (X11)."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.launch.tensor_map import Element, TensorMap
from schedgen.emulator.launch.tensor_map_bits import encode
from schedgen.emulator.machine.policies import Seeded
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Missing, Race
from tests.emulator.instructions.launches import aligned, launch

RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;"
HAND_OFF = "bar.sync 0;"
PARTS = ("release", "hand-off", "acquire")

PROGRAM = """
mov.u32 %r0, smem; add.u32 %r1, %r0, 8192; mov.u32 %r2, %tid.x; ld.param.u64 %rd0, [map];
setp.eq.u32 %p0, %r2, 0; setp.eq.u32 %p2, %r2, {issuer}; mov.b32 %r4, 0; mov.b32 %r5, 1024;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1; bar.sync 0;
{write}
{between}
@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r5;
@%p2 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes \
[%r0], [%rd0, {{%r4, %r4}}], [%r1];
W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W;
"""
REPLACE = "@%p0 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd0], 1, 4;"
COPY = """shl.b32 %r6, %r2, 2; add.u32 %r6, %r6, %r0; mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd2, %rd0; setp.lt.u32 %p3, %r2, 32; @!%p3 bra WRITTEN;
ld.global.b32 %r7, [%rd2]; st.shared.b32 [%r6], %r7; bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
[%rd0], [%r0], 128;
fence.proxy.async.shared::cta; WRITTEN:"""


def races(issuer: int, write: str, between: str, seed: int = 0) -> list[Race]:
    """Thread 0 changes the map, thread ``issuer`` copies through it."""
    source, map_ = aligned((8, 64), np.uint16), aligned((128,), np.uint8)
    tensor = TensorMap(
        int(source.ctypes.data), Element.F16, (64, 8), (128,), (64, 8), (1, 1)
    )  # fmt: skip
    map_[...] = np.frombuffer(encode(tensor), np.uint8)
    checker = Checker(2)
    text = PROGRAM.format(issuer=issuer, write=write, between=between)
    launch(text, {"map": map_, "a": source}, threads=64, target="sm_90a", tracker=checker,
           policy=lambda: Seeded(seed))  # fmt: skip
    return [finding for finding in checker.findings if isinstance(finding, Race)]


@pytest.mark.parametrize("issuer", [0, 32])
@pytest.mark.parametrize("missing", [None, *PARTS])
def test_each_part_is_needed(issuer: int, missing: str | None) -> None:
    texts = dict(zip(PARTS, (RELEASE, HAND_OFF, ACQUIRE), strict=True))
    between = " ".join(text for name, text in texts.items() if name != missing)
    if missing == "hand-off":  # found where the issuer comes later
        tries = (races(issuer, REPLACE, between, seed) for seed in range(8))
        found = next((one for one in tries if one), list[Race]())
    else:
        found = races(issuer, REPLACE, between)
    if missing is None or (missing == "hand-off" and issuer == 0):
        assert not found
        return
    (race,) = found
    assert race.rule == "X11"
    assert race.missing is (Missing.HAND_OFF if missing == "hand-off" else Missing.MAP_FENCE)
    assert f"generic.{missing}" in race.needs or missing == "hand-off"
    assert race.later.warp == issuer // 32


@pytest.mark.parametrize("issuer", [0, 32])
def test_copying_a_map_is_a_release(issuer: int) -> None:
    assert not races(issuer, COPY, f"{HAND_OFF} {ACQUIRE}")
    (race,) = races(issuer, COPY, HAND_OFF)
    assert "generic.acquire of the map" in race.needs
    assert "release" not in race.needs


def test_fences_in_the_wrong_order() -> None:
    assert races(32, REPLACE, f"{RELEASE} {ACQUIRE} {HAND_OFF}")
    assert races(32, f"{RELEASE} {REPLACE}", f"{HAND_OFF} {ACQUIRE}")


def test_a_map_that_nobody_writes_needs_no_fence() -> None:
    assert not races(32, "", "")
