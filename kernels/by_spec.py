"""From a spec to a torch function in one call: `kernel`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.of_plan import PlanKernel, plan_kernel
from schedgen.kernels.of_spec import SpecKernel, spec_kernel


def kernel(
    spec: str | os.PathLike[str],
    *,
    target: str | None = None,
    tuned: str | os.PathLike[str] | None = None,
    pace: Sequence[str] = (),
    **settings: Any,
) -> SpecKernel | PlanKernel:
    """The kernel of ``spec``, a shipped one or a file, as a function of torch tensors.

        product = schedgen.kernels.kernel("my_product.yaml", tile_n=128)
        d = product(a, b)

    The first call for a spec, target and settings solves, proves, emits and compiles, which takes
    some ten seconds; what comes of it is kept on disk by content (`schedgen.stored`), and taken
    from there the next time. Of a kernel that is shipped the schedule is known.

    Args:
        spec: a name or a path. ``file#name`` is one spec of a file that has several; without
            ``#name`` it is the plan in it: several kernels, called one after the other.
        target: a machine model; the one of the GPU that is there by default.
        tuned: what 'schedgen tune -o' wrote: its winner is taken, and nothing is solved. It has
            settings of its own, and no plan.
        pace: units of the machine model, such as ``("TENSOR",)``, on which roles are kept to the
            order of the schedule (`schedgen emit --pace`).
        settings: parameters of the spec: numbers, words, or truth values.

    Raises:
        SpecError: the spec is wrong. SchedgenError: a setting is, or there is no schedule.
        DeviceError: there is no GPU to tell the target by, or the spec is not written for it.
        EmitError, CompileError: there is no kernel that the compiler accepts.
        KernelError: the file cannot be written.
    """
    from schedgen.spec.reader import find_source, is_plan

    name = os.fspath(spec)
    if not is_plan(find_source(name)):
        given = None if tuned is None else Path(tuned)
        return spec_kernel(name, settings, target, tuned=given, pace=pace)
    if tuned is not None:
        got, allowed = f"{name} is a plan", "a spec of one kernel"
        raise ArgumentValueError("tuned", got, allowed, "tune its kernels one by one")
    return plan_kernel(name, settings, target, pace=pace)
