"""Level 1: role programs under random legal interleavings, on physical storage.

Roles go step by step. An asynchronous operation reads its operands at some moment after it was
issued and writes at a later one; products go through their queue in order, bulk copies in any
order. Nothing that is not written is a number: storage starts as poison, goes back to poison when
the last read that a content is meant for has happened, and holds poison while an asynchronous
operation is about to write it. So a missing wait gives another result than level 0, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from random import Random

import torch

from schedgen.execution.events import unroll
from schedgen.execution.machine import Setup
from schedgen.interpret.gathered import in_order
from schedgen.interpret.instances import Instances
from schedgen.interpret.interleave import Agents, effects, interleaved
from schedgen.interpret.problem import InterpretationError, Problem
from schedgen.interpret.ragged import Numbers
from schedgen.kernel import Kernel, Space
from schedgen.program.added import of_kernel
from schedgen.program.model import Program, Run
from schedgen.program.operations import Access
from schedgen.program.pingpong import apart


def run_program(
    program: Program,
    kernel: Kernel,
    inputs: Mapping[str, torch.Tensor | float],
    seed: int = 0,
    extents: Mapping[str, int] | None = None,
) -> dict[str, torch.Tensor]:
    """What one CTA that computes all tiles stores, under the interleaving of ``seed``; of sizes
    that are data the tiles of one number after the other.

    ``extents`` are those of results that no input has.

    Raises:
        InterpretationError: the program does not fit the kernel, or this interleaving ends in a
            deadlock or breaks a barrier.
    """
    kernel, inputs = in_order(kernel, inputs)
    if kernel.ragged:
        numbers = Numbers(kernel, inputs, extents)
        for one in numbers.parts():
            made = Interpreter(program, numbers.kernel, one.inputs, one.extents)
            one.put(made.run(seed))
        return numbers.outputs
    return Interpreter(program, kernel, inputs, extents).run(seed)


class Interpreter:
    """A program with its inputs; what operations compute is remembered from run to run. Roles with
    several teams are run as they are proven (`schedgen.program.pingpong.apart`); output tiles that
    are claimed are those of one CTA, in their order.

    Attributes:
        problem: the tiles and trip counts that the inputs amount to.

    Raises:
        InterpretationError: the program does not fit the kernel.
    """

    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        inputs: Mapping[str, torch.Tensor | float],
        extents: Mapping[str, int] | None = None,
    ) -> None:
        kernel, inputs = in_order(kernel, inputs)
        program = of_kernel(apart(program))
        _check_registers(program)
        self.program = program
        self.problem = Problem(kernel, inputs, extents)
        trips = [self.problem.trips_of(tile) for tile in self.problem.tiles]
        made = Instances(program, self.problem)
        self._cells = made.cells.total
        instances = made.make(trips)
        _check_barriers(program)
        case = unroll(program, trips, begins=True)
        self._effects = effects(case, instances)
        self._agents = Agents(case)
        self._setup = Setup(case)

    def run(self, seed: int) -> dict[str, torch.Tensor]:
        """What is stored under the interleaving of ``seed``.

        Raises:
            InterpretationError: a deadlock, or a barrier that is not used as it can be.
        """
        stored = interleaved(self._setup, self._effects, self._agents, self._cells, Random(seed))
        outputs = self.problem.outputs()
        for instance, tile in stored:
            what = self.problem.kernel.operation[instance.operation.name]
            at = instance.moment
            self.problem.store(what, tile, at.coordinates, at.iteration, outputs)
        return outputs


def _check_barriers(program: Program) -> None:
    """Steps name barriers that there are, and each of them completes."""
    for barrier in program.barriers:
        if barrier.arrivals < 1:
            raise InterpretationError(f"no phase of barrier '{barrier.name}' ever ends")
    for role in program.roles:
        for step in role.steps:
            name = getattr(step.action, "barrier", None)
            if name is not None and name not in program.barrier:
                raise InterpretationError(f"there is no barrier '{name}'")


def _check_registers(program: Program) -> None:
    """Registers belong to one role, each row or column of them."""
    owned: dict[str, list[tuple[Access, str]]] = {}
    for role in program.roles:
        for step in role.steps:
            if isinstance(step.action, Run):
                for access in program.operation[step.action.operation].accesses:
                    if program.allocation[access.allocation].space is Space.REGISTERS:
                        owned.setdefault(access.allocation, []).append((access, role.owner))
    for allocation, accesses in owned.items():
        for (first, owner), (second, other) in combinations(accesses, 2):
            if owner != other and first.overlaps(second):
                message = f"roles {owner} and {other} share registers of '{allocation}'"
                raise InterpretationError(message)
