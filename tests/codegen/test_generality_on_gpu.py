"""Kernels of specs that the emitter was not written for, on a GPU.

Where the solver is, and then where the GPU is:

    python -m tests.codegen.write_generality DIR
    SCHEDGEN_GENERALITY=DIR python -m pytest tests/codegen/test_generality_on_gpu.py -m gpu
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from schedgen.codegen.facts import file_name
from schedgen.kernels import load
from schedgen.kernels.launcher import architecture
from schedgen.kernels.of_file import GeneratedKernel
from tests.codegen.generality import OUTPUTS, PROBLEMS, Problem
from tests.kernels.gpu_cases import BF16, FP16, assert_as_good, random

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)
if "SCHEDGEN_GENERALITY" not in os.environ:
    pytest.skip("SCHEDGEN_GENERALITY does not say where the kernels are", allow_module_level=True)

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda", 0)
DTYPES = {"bf16": BF16, "fp16": FP16}
SCALARS = {"scale": 0.18, "alpha": 0.05}


def kernel(problem: Problem) -> GeneratedKernel:
    name = file_name(problem.spec, architecture(GPU), dict(problem.settings))
    return load(Path(os.environ["SCHEDGEN_GENERALITY"]) / name)


def arguments(run: GeneratedKernel, problem: Problem) -> dict[str, Any]:
    """Normal numbers; what the kernel writes is full of NaN."""
    torch.manual_seed(0)
    dtype = DTYPES[dict(problem.settings)["dtype"]]
    found: dict[str, Any] = {}
    for parameter in run.facts.parameters:
        shape = [problem.extents[extent] for extent in parameter.extents]
        if not shape:
            found[parameter.name] = SCALARS[parameter.name]
        elif parameter.name in run.facts.outputs:
            found[parameter.name] = torch.full(shape, math.nan, device=GPU, dtype=dtype)
        else:
            found[parameter.name] = random(*shape, dtype=dtype)
    return found


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_as_good_as_torch(problem: Problem) -> None:
    """At most twice the error of torch in the same data type, against float64."""
    run = kernel(problem)
    values = arguments(run, problem)
    run(*values.values())
    wide = {n: x.double() if isinstance(x, torch.Tensor) else x for n, x in values.items()}
    output = OUTPUTS[problem.spec]
    assert_as_good(values[output], problem.reference(values), problem.reference(wide))


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if not p.small][-2:], ids=str)
def test_100_runs_are_equal(problem: Problem) -> None:
    run = kernel(problem)
    values = arguments(run, problem)
    output = values[OUTPUTS[problem.spec]]
    run(*values.values())
    first = output.clone()
    for _ in range(100):
        output.fill_(math.nan)
        run(*values.values())
        assert torch.equal(output, first)
