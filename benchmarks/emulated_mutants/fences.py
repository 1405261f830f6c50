"""Fences in front of products that need none: `wgmma.fence` between products of one shape.

Threads of a warpgroup need a fence between an access to registers and a product that uses them, but
for accumulators of several products of one shape, which are in order by themselves (PTX ISA
9.7.15.7.1). Whether threads touch them in between is looked at where products are executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from emulated_mutants.run import SEEDS, Campaign

from schedgen.benchmarks.mutants.kernels import Mutant
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.instructions.wgmma_mma import Mma
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial

_CHECK = "_preceding"
"""Says whether the accumulators of a warp are those that the product before left in them."""


def untouched(campaign: Campaign, mutant: Mutant, launches: Iterable[int]) -> str:
    """Why products behind a fence that is gone are in order; empty if they may not be."""
    lines = _products(mutant)
    found: set[bool] = set()
    preceding: Any = getattr(Mma, _CHECK)

    def looked_at(product: Mma, member: Any, accumulator: Any) -> bool:
        same = preceding(product, member, accumulator)
        if product.where.line in lines:
            found.add(same)
        return same

    with patch.object(Mma, _CHECK, looked_at):
        for number in launches:
            emulator = Emulator(
                Adversarial(SEEDS[0]), "first", campaign.capture.switches,
                rewrite=lambda module: replace(
                    module, kernels={**module.kernels, mutant.kernel.name: mutant.kernel}
                ),
            )  # fmt: skip
            try:
                campaign.execute(number, emulator)
            except EmulationError:
                return ""
    if found != {True}:
        return ""
    return (
        "no thread touches the accumulators between the products behind it and those before, of "
        "one shape, which are in order by themselves"
    )


def _products(mutant: Mutant) -> frozenset[int]:
    """Lines of the products of the group behind the fence; of none if one has A in registers."""
    body = mutant.original.body
    begin = next(at for at, one in enumerate(body) if one.line == mutant.instruction.line)
    lines: set[int] = set()
    for one in body[begin + 1 :]:
        if one.name.startswith(("wgmma.commit_group", "wgmma.fence")):
            break
        if one.name.startswith("wgmma.mma_async"):
            if not hasattr(one.operands[1], "name"):
                return frozenset()
            lines.add(one.line)
    return frozenset(lines)
