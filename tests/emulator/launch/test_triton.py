"""Kernels that Triton compiled, as its driver launches them; Triton itself is not needed here.

``triton_add.ptx`` is what Triton 3.9 made of ``add_kernel`` in benchmarks/race_programs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import target
from schedgen.emulator.launch.tensor_map import Element, Fill
from schedgen.emulator.launch.tensor_map_bits import decode
from schedgen.emulator.launch.triton_arguments import values_of
from schedgen.emulator.launch.triton_driver import Launcher, Loaded, Utilities
from schedgen.emulator.layouts.swizzle import Swizzle

PTX = (Path(__file__).parent / "triton_add.ptx").read_text("utf-8")
GPU = target("sm_90a", 4)
SIGNATURE = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32", "BLOCK": "constexpr"}


def metadata(**more: Any) -> Any:
    return SimpleNamespace(**{"num_warps": 4, "num_ctas": 1, "shared": 0, **more})


def described(**more: Any) -> Any:
    base = torch.zeros(64, 128, dtype=torch.float16)
    return SimpleNamespace(
        **{"base": base, "shape": [64, 128], "strides": [128, 1], "padding": "zero", **more}
    )


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("i32", -2, b"\xfe\xff\xff\xff"),
        ("u8", 200, b"\xc8"),
        ("i1", True, b"\x01"),
        ("i64", -(1 << 40), (-(1 << 40)).to_bytes(8, "little", signed=True)),
        ("fp16", 1.5, struct.pack("<e", 1.5)),
        ("bf16", 1.005, struct.pack("<f", 1.005)[2:]),
        ("fp32", 1e300, struct.pack("<f", float("inf"))),
        ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("*fp32", None, bytes(8)),
        ("*i8", 1 << 40, (1 << 40).to_bytes(8, "little")),
    ],
)
def test_values(kind: str, value: Any, expected: bytes) -> None:
    assert list(values_of([kind], [value], ())) == [expected]


def test_tuples_and_constants() -> None:
    found = values_of(["constexpr", ("i32", ("constexpr", "i8")), "i16"], [0, (1, (2, 3)), 4], ())
    assert list(found) == [b"\1\0\0\0", b"\3", b"\4\0"]
    with pytest.raises(LaunchError, match="str as void, which the emulator cannot pass"):
        list(values_of(["void"], ["x"], ()))


def test_descriptor_in_a_tensor_map() -> None:
    one = described(padding="nan")
    meta = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [16, 64], "fp4_padded": 0}
    data, *rest = values_of(["tensordesc<fp16[16, 64]>"], [one], [meta])
    found = decode(data)
    assert (found.address, found.element) == (one.base.data_ptr(), Element.F16)
    assert (found.dims, found.strides, found.box) == ((128, 64), (256,), (64, 16))
    assert (found.swizzle, found.fill) == (Swizzle.B128, Fill.NAN)
    assert [int.from_bytes(part, "little") for part in rest] == [64, 128, 128, 1]
    assert [len(part) for part in rest] == [4, 4, 8, 8]
    wrong = described(strides=[100, 1])
    with pytest.raises(LaunchError, match="stride 200 of dimension 1 is not a multiple of 16"):
        list(values_of(["tensordesc<fp16[16, 64]>"], [wrong], [meta]))
    with pytest.raises(LaunchError, match="no im2col tensor maps"):
        list(values_of(["tensordesc_im2col<fp16[16, 64]>"], [one], [{"is_im2col": True}]))


def test_descriptor_in_parts() -> None:
    one = described()
    found = list(values_of(["tensordesc<fp16[16, 64]>"], [one], ()))
    assert [len(part) for part in found] == [8, 8, 8, 8, 8, 1, 1, 4, 4, 8, 8]
    assert int.from_bytes(found[0], "little") == one.base.data_ptr()


class Receiver:
    """Executes launches on an emulator, as `Device` does, and keeps what they were."""

    def __init__(self, run: Callable[[Launch, Sequence[tuple[str, Any]]], None]) -> None:
        self.run = run

    def launch(self, launch: Launch, arguments: Sequence[tuple[str, Any]]) -> None:
        self.run(launch, arguments)


def test_a_kernel_is_executed() -> None:
    emulator = Emulator()
    a, b = torch.randn(2, 1000)
    c = torch.empty(1000)
    with device("sm_90a", run=emulator.run) as opened:
        launcher = Launcher(
            GPU, opened, lambda: False, SimpleNamespace(signature=SIGNATURE), metadata()
        )
        _, function, registers, _, threads = Utilities(GPU).load_binary(
            "add_kernel", PTX.encode(), 0, 0
        )
        launcher(4, 1, 1, 0, function, None, None, None, None, a, b, c, 1000, 256)
    assert torch.equal(c, a + b)
    assert (registers, threads) == (255, 1024)
    (report,) = emulator.reports
    assert (report.grid, report.block, report.clean) == ((4, 1, 1), (128, 1, 1), True)


def test_what_a_launch_is() -> None:
    seen: list[Launch] = []
    heard: list[object] = []
    source = SimpleNamespace(signature=SIGNATURE)
    receiver = Receiver(lambda launch, _: seen.append(launch))
    told = metadata(num_ctas=2, launch_pdl=True, shared=256)
    launcher = Launcher(GPU, receiver, lambda: False, source, told)
    arguments = 0, 0, 0, 1000, 256
    function = Loaded("add_kernel", PTX)
    launcher(3, 2, 1, 0, function, None, "m", heard.append, heard.append, *arguments)
    launcher(0, 2, 1, 0, function, None, "m", heard.append, heard.append, *arguments)
    (launch,) = seen
    assert (launch.grid, launch.cluster, launch.shared_bytes) == ((6, 2, 1), (2, 1, 1), 256)
    assert (launch.programmatic, launch.cooperative) == (True, False)
    assert heard == ["m", "m"]
    with pytest.raises(LaunchError, match="only while the launch is handled"):
        launch.parameter(0, 8)
    Launcher(GPU, receiver, lambda: True, source, told)(
        1, 1, 1, 0, function, None, None, None, None, *arguments
    )
    assert len(seen) == 1


def test_other_parameters_than_the_kernel_has() -> None:
    source = SimpleNamespace(signature=SIGNATURE | {"n": "i64"})
    launcher = Launcher(GPU, Receiver(lambda launch, _: None), lambda: False, source, metadata())
    with pytest.raises(LaunchError, match=r"\[8, 8, 8, 4, 8, 8\] bytes, its launch gives \[8, 8, "):
        launcher(1, 1, 1, 0, Loaded("add_kernel", PTX), None, None, None, None, 0, 0, 0, 1, 256)
