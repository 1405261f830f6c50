"""What CUDA would refuse, and parameters."""

import ctypes
from dataclasses import replace

import pytest

from schedgen.emulator.launch.capture import Launch, Parameters
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import target

LAUNCH = Launch(
    kernel="k",
    grid=(4, 2, 1),
    block=(128, 1, 1),
    cluster=(2, 1, 1),
    shared_bytes=232_448,
    ptx=".version 8.8\n.target sm_100a\n",
    target=target("sm_100a", 4),
    allocations=(),
    attributes={2: b"\x01\0\0\0\xee\xee\xee\xee", 6: b"\0\0\0\0\xee\xee\xee\xee"},
    parameters=Parameters(0),
)


def test_a_legal_launch() -> None:
    LAUNCH.check()
    assert LAUNCH.cooperative
    assert not LAUNCH.programmatic


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": (4, 0, 1)}, "grid dimension y is 0"),
        ({"grid": (4, 1, 1 << 16)}, "grid dimension z is 65536"),
        ({"block": (32, 1, 65)}, "block dimension z is 65"),
        ({"block": (1024, 2, 1)}, "a block of 2048 threads, at most 1024"),
        ({"cluster": (3, 1, 1)}, r"the grid is not a multiple of the cluster \(3, 1, 1\)"),
        ({"cluster": (0, 1, 1)}, "a cluster of 0 CTAs"),
        ({"cluster": (4, 2, 4)}, "a cluster of 32 CTAs, at most 16"),
        ({"shared_bytes": 232_449}, "232449 bytes of shared memory, at most 232448"),
        ({"ptx": ".target sm_90a"}, "compiled for sm_90a, the device is sm_100a"),
        ({"ptx": ""}, "compiled for no target"),
    ],
)
def test_launches_that_cuda_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(LaunchError, match=f"launch of k: .*{message}"):
        replace(LAUNCH, **change).check()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["sm_100a", "sm_100f", "sm_100"])
def test_code_for_the_family_runs(name: str) -> None:
    replace(LAUNCH, ptx=f"\t.target {name}, debug\n").check()


def test_parameters() -> None:
    value = ctypes.c_uint64(0x0123456789ABCDEF)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(value), None)
    parameters = Parameters(ctypes.addressof(pointers))
    launch = replace(LAUNCH, parameters=parameters)
    assert launch.parameter(0, 4) == bytes.fromhex("efcdab89")
    with pytest.raises(LaunchError, match="no parameter 1"):
        launch.parameter(1, 4)
    parameters.close()
    with pytest.raises(LaunchError, match="only while"):
        launch.parameter(0, 4)
