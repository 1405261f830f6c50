"""Level 1 for the shipped specs: synthesized programs compute what level 0 does, bit for bit; sums
in global memory, whose order is free, up to the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from schedgen import read_machine, solve
from schedgen.expressions import references
from schedgen.interpret.concurrent import Interpreter
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.program.model import Program
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec, shipped_specs
from schedgen.sums import summed
from schedgen.synchronize.synthesize import synthesize
from tests.schedgen.interpret.problems import full_size_inputs, parts_of, step_of

FILES = {name: read_spec(name).file for name in shipped_specs()}
SPECS = [name for name, file in FILES.items() if "h200" in file.targets and not file.ragged]
"""Those whose sizes are data have tests of their own (`test_ragged`)."""
TARGETS = ("b200", "h200")


def synthesized(name: str, target: str, **settings: str) -> tuple[Kernel, Program]:
    spec, machine = read_spec(name), read_machine(target)
    schedule = solve(spec, machine, settings=settings).schedule
    kernels = bind(
        spec.source,
        spec.file,
        target,
        dict(schedule.parameters),
        accumulators=machine.accumulators,
    )
    return kernels[0], synthesize(kernels[0], schedule, machine)


def along_keys(kernel: Kernel) -> list[str]:
    """Tensors that lie along the keys: the values of 8 bits on Hopper."""
    return [a.name for a in kernel.arguments if a.shape[-2:] == ("head_dim_v", "seq_k")]


def largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def check(name: str, kernel: Kernel, program: Program, trips: Sequence[int], runs: int) -> None:
    for count in trips if kernel.trip_count and references(kernel.trip_count) else [1]:
        inputs = full_size_inputs(name, count, step_of(kernel))
        inputs |= {key: inputs[key].mT for key in along_keys(kernel)}
        wanted = run(kernel, inputs, parts_of(name))
        interpreter = Interpreter(program, kernel, inputs, parts_of(name))
        assert interpreter.problem.trips == count
        assert len(interpreter.problem.tiles) > 1
        for seed in range(runs):
            found = interpreter.run(seed)
            for tensor, value in wanted.items():
                where = f"{tensor} with {count} iterations, seed {seed}"
                if tensor in summed(kernel):
                    worst = largest(found[tensor] - value)
                    assert worst <= 1e-5 * largest(value), where
                    continue
                bits = found[tensor].view(torch.uint8), value.view(torch.uint8)
                assert torch.equal(*bits), where


@pytest.mark.medium
@pytest.mark.parametrize("target", TARGETS)
def test_some_interleavings(target: str) -> None:
    kernel, program = synthesized("gemm_chain", target)
    check("gemm_chain", kernel, program, [0, 1, 3], 50)


@pytest.mark.medium
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["gemm", "gemm_fp8"])
def test_teams(name: str, target: str) -> None:
    """One may be at the loop of a tile while the other one is at the epilogue of that before."""
    width = {"tile_n": "128"} if target == "h200" else {}
    kernel, program = synthesized(name, target, teams="2", **width)
    assert program.role["epilogue"].teams == 2
    check(name, kernel, program, [0, 1, 5], 20)


@pytest.mark.medium
def test_three_consumers() -> None:
    settings = {"factors_b": "rows", "tile_m": "192", "consumers": "3", "steps": "1"}
    kernel, program = synthesized("gemm_fp8_blocks", "h200", **settings)
    check("gemm_fp8_blocks", kernel, program, [0, 1, 5], 20)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SPECS)
def test_many_interleavings(name: str, target: str) -> None:
    kernel, program = synthesized(name, target)
    depth = max(allocation.slots for allocation in program.allocations)
    check(name, kernel, program, sorted({0, 1, 2, depth - 1, depth, depth + 1}), 150)
