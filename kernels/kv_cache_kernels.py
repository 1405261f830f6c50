"""Finds the kernels of specs over caches; those that are not shipped are made on first use."""

from __future__ import annotations

from functools import lru_cache

from schedgen.kernels.of_spec import SpecKernel, spec_kernel

Settings = tuple[tuple[str, str], ...]

_made: dict[tuple[str, str, Settings], SpecKernel] = {}


def keep(spec: str, target: str, settings: Settings, function: SpecKernel) -> None:
    """A kernel that was made elsewhere, for machines on which nothing is solved."""
    _made[spec, target, settings] = function


@lru_cache(maxsize=512)
def kernel_of(spec: str, target: str, settings: Settings) -> SpecKernel:
    """The kernel of a spec for a machine model and parameters.

    Raises:
        EmitError, CompileError: there is no kernel that the compiler accepts.
    """
    made = _made.get((spec, target, settings))
    return made or spec_kernel(spec, dict(settings), target)
