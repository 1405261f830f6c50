"""One kernel launch, as the emulator gets it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import MOST_SHARED_BYTES, Target

Dimensions = tuple[int, int, int]

_MOST_BLOCK = (1024, 1024, 64)
_MOST_GRID = (2**31 - 1, 2**16 - 1, 2**16 - 1)
_MOST_THREADS = 1024
_MOST_CLUSTER = 16  # with the attribute for sizes above 8, which CuTe DSL always sets


@dataclass(frozen=True, slots=True)
class Allocation:
    """Global memory that a kernel may access: `size` bytes from host address `start` on.

    With ``released`` it may not, although the memory is still there, and not either the ``slack``
    bytes behind it, which belong to no tensor.
    """

    start: int
    size: int
    name: str
    released: bool = False
    slack: int = 0

    @property
    def end(self) -> int:
        """Address behind the last byte."""
        return self.start + self.size


class Parameters:
    """The array of pointers to parameters, in memory of the host code as long as the launch."""

    def __init__(self, address: int) -> None:
        self._address: int | None = address

    def read(self, index: int, size: int) -> bytes:
        """Return `size` bytes of parameter `index`."""
        if self._address is None:
            raise LaunchError("parameters can be read only while the launch is handled")
        pointers = ctypes.cast(self._address, ctypes.POINTER(ctypes.c_void_p))
        address = pointers[index]
        if address is None:
            raise LaunchError(f"the launch has no parameter {index}")
        return ctypes.string_at(address, size)

    def close(self) -> None:
        """Refuse reads from now on, because the host code frees the memory."""
        self._address = None


class Copied(Parameters):
    """Parameters that outlive the launch."""

    def __init__(self, values: Sequence[bytes]) -> None:
        super().__init__(0)
        self._values = tuple(values)

    def read(self, index: int, size: int) -> bytes:
        """Return `size` bytes of parameter `index`."""
        return self._values[index][:size]


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel launch.

    Attributes:
        kernel: name of the entry in `ptx`.
        grid: CTAs along x, y, z.
        block: threads of a CTA along x, y, z.
        cluster: CTAs of a cluster along x, y, z; (1, 1, 1) if the launch names none.
        shared_bytes: dynamic shared memory of a CTA.
        ptx: text of the module, with all its kernels.
        target: the GPU.
        allocations: memory that belongs to the arguments of the call and what was registered;
            ascending and disjoint.
        attributes: all launch attributes by number (``cudaLaunchAttributeID``), 64 bytes each, of
            which those behind the value are arbitrary.
        parameters: what the kernel is called with.
    """

    kernel: str
    grid: Dimensions
    block: Dimensions
    cluster: Dimensions
    shared_bytes: int
    ptx: str
    target: Target
    allocations: tuple[Allocation, ...]
    attributes: Mapping[int, bytes]
    parameters: Parameters

    @property
    def cooperative(self) -> bool:
        """Whether all CTAs are resident at once, so that the grid may synchronize."""
        return self._flag(2)

    @property
    def programmatic(self) -> bool:
        """Whether the kernel may begin before its predecessor ends (griddepcontrol)."""
        return self._flag(6)

    def parameter(self, index: int, size: int) -> bytes:
        """Return the `size` bytes of parameter `index`; both are as the PTX declares.

        Raises:
            LaunchError: the launch is over. While it lasts, an index or size beyond those declared
                reads memory of somebody else.
        """
        return self.parameters.read(index, size)

    def check(self) -> None:
        """Check what CUDA checks.

        Raises:
            LaunchError: CUDA would refuse the launch; the text has all reasons.
        """
        problems: list[str] = []
        for name, values, most in (
            ("grid", self.grid, _MOST_GRID),
            ("block", self.block, _MOST_BLOCK),
        ):
            problems += [
                f"{name} dimension {axis} is {value}, possible are 1 to {limit}"
                for axis, value, limit in zip("xyz", values, most, strict=True)
                if not 1 <= value <= limit
            ]
        if prod(self.block) > _MOST_THREADS:
            problems.append(f"a block of {prod(self.block)} threads, at most {_MOST_THREADS} fit")
        if not 1 <= prod(self.cluster) <= _MOST_CLUSTER:
            problems.append(f"a cluster of {prod(self.cluster)} CTAs, at most {_MOST_CLUSTER} fit")
        elif any(size % part for size, part in zip(self.grid, self.cluster, strict=True)):
            problems.append(f"the grid is not a multiple of the cluster {self.cluster}")
        if self.shared_bytes > MOST_SHARED_BYTES:
            problems.append(
                f"{self.shared_bytes} bytes of shared memory, at most {MOST_SHARED_BYTES} fit"
            )
        if not self.target.runs(found := _target(self.ptx)):
            problems.append(f"it was compiled for {found}, the device is {self.target.name}")
        if problems:
            raise LaunchError(f"launch of {self.kernel}: {'; '.join(problems)}")

    def _flag(self, attribute: int) -> bool:
        return any(self.attributes.get(attribute, b"")[:4])  # an int


def _target(ptx: str) -> str:
    found = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    return found[1] if found else "no target"
