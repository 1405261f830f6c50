"""The evaluation by numpy: against torch, against the interpreter, and its error bounds."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import schedgen.reference
from schedgen.driver.inputs import default_extents, random_inputs
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.reference.estimate import (
    exact,
    larger,
    loosened,
    multiplied,
    product,
    stored,
    unknown,
)
from schedgen.reference.evaluate import Expected, evaluate
from schedgen.reference.rounding import rounded
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

SPECS = Path("tests/data/specs")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "f32": torch.float32}


def _kernel(name: str, target: str = "h200") -> Kernel:
    spec = read_spec(name)
    return bind(spec.source, spec.file, target, {})[0]


def _numbers(values: Mapping[str, torch.Tensor | float]) -> dict[str, np.ndarray | float]:
    return {n: v.double().numpy() if isinstance(v, torch.Tensor) else v for n, v in values.items()}


def _both(kernel: Kernel) -> tuple[dict[str, torch.Tensor], dict[str, Expected]]:
    """What the interpreter and the reference make of random inputs."""
    extents = default_extents(kernel, {})
    inputs = random_inputs(kernel, extents, 0)
    return run(kernel, inputs, extents), evaluate(kernel, _numbers(inputs), extents)


@pytest.mark.parametrize("target", ["h200", "b200"])
@pytest.mark.parametrize(
    "name",
    [
        *("gemm_sum", "gemm_gated", "gemm_rms", "gemm_scaled"),
        *(str(SPECS / f"{n}.yaml") for n in ("biased_softmax", "gated_attention", "product_norm")),
        str(SPECS / "row_statistics.yaml"),
    ],
)
def test_it_agrees_with_the_interpreter_within_its_bounds(name: str, target: str) -> None:
    interpreted, expected = _both(_kernel(name, target))
    for tensor, found in expected.items():
        values = interpreted[tensor].double().numpy()
        stores = found.stores > 0
        assert np.array_equal(stores, ~np.isnan(values))
        gap = np.abs(values - found.number.value)[stores]
        assert (gap <= found.number.error[stores]).all()


def test_its_bounds_are_tight() -> None:
    """Of a product in bf16 most elements allow nothing at all, and none much if nothing cancels."""
    _, expected = _both(_kernel("gemm"))
    number = expected["d"].number
    assert np.median(number.error) == 0
    limit = 2.0**-7 * np.abs(number.value) + 2.0**-15 * number.magnitude
    assert (number.error <= limit).all()


def test_conditional_loads_leave_zeros() -> None:
    kernel = _kernel("gemm_sum")
    extents = default_extents(kernel, {})
    inputs = _numbers(random_inputs(kernel, extents, 0))
    inputs["beta"], inputs["alpha"] = 0.0, 1.0
    inputs["c"] = np.full_like(inputs["c"], np.nan)
    found = evaluate(kernel, inputs, extents)["d"].number
    parts = np.asarray(inputs["p"]).sum(1)
    assert np.allclose(found.value, parts, rtol=2.0**-8)
    assert np.isfinite(found.error).all()


def test_what_is_not_a_number_is_known_to_be_none() -> None:
    kernel = _kernel("gemm_sum")
    extents = default_extents(kernel, {})
    inputs = _numbers(random_inputs(kernel, extents, 0))
    np.asarray(inputs["p"])[0, 0, 3, 5] = np.nan
    np.asarray(inputs["p"])[0, 0, 4, 6] = np.inf
    found = evaluate(kernel, inputs, extents)["d"].number
    assert np.argwhere(np.isnan(found.value)).tolist() == [[0, 3, 5]]
    assert np.argwhere(np.isinf(found.value)).tolist() == [[0, 4, 6]]
    assert (found.error[~np.isfinite(found.value)] == 0).all()


def test_a_missing_input_and_a_missing_extent_are_named() -> None:
    kernel = _kernel("gemm_sum")
    with pytest.raises(Exception, match="the input 'p' is missing"):
        evaluate(kernel, {})


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_that_of_torch(dtype: str) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(10000, generator=generator) * 10.0 ** torch.randint(
        -44, 39, (10000,), generator=generator
    )
    values[:4] = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])
    wanted = values.to(DTYPES[dtype]).double().numpy()
    assert np.array_equal(rounded(values.double().numpy(), dtype), wanted, equal_nan=True)


def test_rounding_grows_an_error_only_where_it_may_go_another_way() -> None:
    number = loosened(exact(np.array([1.0, 1.0 + 2.0**-8])), np.array(2.0**-20))
    assert stored(number, "bf16").error.tolist() == [0.0, 2.0**-7]


def test_sums_of_products_bound_every_order_of_addition() -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((8, 256)).astype(np.float32) for _ in "ab")
    found = product(exact(a.astype(float)), exact(b.T.astype(float)), 2.0**-23)
    for order in (np.arange(256), generator.permutation(256)):
        sums = np.zeros((8, 8), np.float32)
        for k in order:
            sums += np.outer(a[:, k], b[:, k])
        assert (np.abs(sums - found.value) <= found.error).all()


def test_nothing_is_known_of_what_nobody_has_written() -> None:
    assert np.isinf(larger(unknown((1, 1)), exact(1.0)).error).all()


def test_an_infinite_number_times_one_that_is_not_exact() -> None:
    """It is infinite for certain, unless the other one may be zero."""
    low, near = exact(np.asarray([-np.inf])), loosened(exact(np.asarray([0.5])), np.asarray([0.1]))
    assert (multiplied(low, near).value, multiplied(low, near).error) == (-np.inf, 0)
    assert np.isinf(multiplied(low, loosened(near, np.asarray([1.0]))).error)


def test_factors_of_heads_are_small_and_positive() -> None:
    kernel = _kernel("attention_fp8")
    inputs = random_inputs(kernel, default_extents(kernel, {}), 0)
    for name in ("scale_q", "scale_k", "scale_v", "scale"):
        assert torch.as_tensor(inputs[name]).min() >= 0.125
        assert torch.as_tensor(inputs[name]).max() < 0.625


def test_it_shares_no_code_with_what_it_checks() -> None:
    allowed = ("schedgen.reference", "schedgen.expressions.nodes")
    allowed += ("schedgen.kernel", "schedgen.layouts", "schedgen.tensors", "schedgen.errors")
    folder = Path(next(iter(schedgen.reference.__path__)))
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("schedgen"):
                assert (node.module or "").startswith(allowed), f"{file.name}: {node.module}"
