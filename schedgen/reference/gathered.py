"""Rows that a list takes from a tensor, written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.reference.rounding import Array


def written_out(
    kernel: Kernel, inputs: Mapping[str, Array | float]
) -> tuple[Kernel, Mapping[str, Array | float]]:
    """The kernel of tensors that have a row for each element of a list, and these; zeros where the
    tensor has no such row.

    Raises SchedgenError if a list, or its tensor, is missing.
    """
    by_name = {argument.name: argument for argument in kernel.arguments}
    taken = [argument for argument in kernel.arguments if argument.index]
    found = dict(inputs)
    for argument in taken:
        if not {argument.name, argument.index} <= inputs.keys():
            raise SchedgenError(f"the input '{argument.name}' or '{argument.index}' is missing")
        rows = np.asarray(inputs[argument.name], np.float64)
        numbers = np.asarray(inputs[argument.index], np.float64)
        made = np.zeros((len(numbers), *rows.shape[1:]))
        for at, number in enumerate(numbers):
            if 0 <= number < len(rows):
                made[at] = rows[int(number)]
        found[argument.name] = made
        packed = (*by_name[argument.index].passed, *argument.passed[1:])
        stored = packed if packed != argument.shape else ()
        by_name[argument.name] = replace(argument, index="", stored=stored)
    for name in {argument.index for argument in taken}:
        del by_name[name], found[name]
    return replace(kernel, arguments=tuple(by_name.values())), found
