"""Kernels of a spec on a machine."""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import Spec


def kernels_of(spec: Spec, machine: Machine, settings: Mapping[str, str]) -> tuple[Kernel, ...]:
    """Every kernel that ``spec`` stands for on ``machine``, preferred choices first.

    Raises what `schedgen.spec.bind.bind` raises.
    """
    return bind(spec.source, spec.file, machine.name, settings, accumulators=machine.accumulators)
