"""Tensors whose rows are taken through a list, as ones whose rows lie one behind the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from schedgen.interpret.problem import InterpretationError
from schedgen.kernel import Kernel
from schedgen.tensors import Argument

Inputs = Mapping[str, torch.Tensor | float]


def in_order(kernel: Kernel, inputs: Inputs) -> tuple[Kernel, Inputs]:
    """``kernel`` without lists, and inputs with the rows that these take: zeros for one that is not
    there.

    Raises:
        InterpretationError: a tensor or its list is missing.
    """
    lists = {argument.index for argument in kernel.arguments if argument.index}
    if not lists:
        return kernel, inputs
    passed = {argument.name: argument.passed for argument in kernel.arguments}
    found = {name: value for name, value in inputs.items() if name not in lists}
    arguments: list[Argument] = []
    for one in (argument for argument in kernel.arguments if argument.name not in lists):
        if not one.index:
            arguments.append(one)
            continue
        for name in (one.name, one.index):
            if name not in inputs:
                raise InterpretationError(f"the input '{name}' is missing")
        rows = torch.as_tensor(inputs[one.name])
        found[one.name] = _taken(rows, torch.as_tensor(inputs[one.index]).long())
        stored = (*passed[one.index], *one.passed[1:])
        arguments.append(replace(one, stored=() if stored == one.shape else stored, index=""))
    return replace(kernel, arguments=tuple(arguments)), found


def _taken(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    there = (index >= 0) & (index < len(rows))
    nothing = torch.zeros_like(rows[:1]) if len(rows) else rows.new_zeros(1, *rows.shape[1:])
    return torch.cat([rows, nothing])[torch.where(there, index, len(rows))]
