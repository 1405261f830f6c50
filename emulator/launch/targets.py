"""What host code is told about the GPU that is not there."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.emulator.launch.errors import LaunchError
from schedgen.errors import suggest

MOST_SHARED_BYTES = 232_448
"""Shared memory that one CTA may have, 227 KiB (CUDA programming guide, compute capabilities)."""


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU.

    Attributes:
        name: as in ``.target`` of PTX.
        capability: major and minor number.
        sms: streaming multiprocessors, of which persistent kernels make their grid.
    """

    name: str
    capability: tuple[int, int]
    sms: int

    def runs(self, name: str) -> bool:
        """Return whether this GPU executes machine code of PTX with ``.target name``.

        Source: PTX ISA 11.1.2 (.target): ``sm_100f`` is for the family, ``sm_100`` for all later.
        """
        return name in (self.name, self.name[:-1], f"{self.name[:-1]}f")

    def attribute(self, number: int) -> int | None:
        """Return the value of attribute `number` of ``cudaDeviceAttr``, None if it is not known."""
        return {
            10: 32,  # threads of a warp
            16: self.sms,
            39: 2048,  # threads per SM
            75: self.capability[0],
            76: self.capability[1],
            81: MOST_SHARED_BYTES + 1024,  # shared memory per SM, with what the system reserves
            97: MOST_SHARED_BYTES,
            120: 1,  # clusters
        }.get(number)

    def clusters(self, size: int) -> int:
        """Return how many clusters of `size` CTAs run at a time, at least one."""
        return max(1, self.sms // size)


_CAPABILITIES = {"sm_90a": (9, 0), "sm_100a": (10, 0)}


def target(name: str, sms: int) -> Target:
    """Return the GPU called `name`.

    Raises:
        LaunchError: it is not one that the emulator has, or has no SM.
    """
    if name not in _CAPABILITIES:
        hint = suggest(name, _CAPABILITIES)
        raise LaunchError(
            f"there is no target '{name}'; {hint or 'take ' + ' or '.join(_CAPABILITIES)}"
        )
    if sms < 1:
        raise LaunchError(f"a GPU with {sms} SMs runs nothing; give at least one")
    return Target(name, _CAPABILITIES[name], sms)
