"""Running sums, from a spec to the emulator: the example of a kind that was added."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import emulate
from schedgen.driver.inputs import shapes, wanted
from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec
from tests.codegen.examples import ARCHITECTURES, SPECS, solved

PATH = SPECS / "running_sums.yaml"
TEXT = PATH.read_text("utf-8")


def kernel(text: str = TEXT, target: str = "h200", **settings: str) -> Kernel:
    spec = parse_spec(text)
    return bind(spec.source, spec.file, target, settings)[0]


def test_what_it_computes() -> None:
    a, b, c = (torch.randn(s, dtype=torch.float64) for s in ((70, 40), (50, 40), (70, 50)))
    a, b, c = (x.bfloat16() for x in (a, b, c))
    found = run(kernel(), {"a": a, "b": b, "c": c, "alpha": 0.5})
    product = a.double() @ b.double().mT
    assert torch.allclose(found["d"].double(), 0.5 * product.cumsum(1), atol=1e-3)
    assert torch.allclose(found["e"].double(), c.double().cumsum(1), rtol=2**-7, atol=0.1)


def test_the_reference_agrees_within_its_bounds() -> None:
    made = kernel()
    for sizes in shapes(made).values():
        found = wanted(made, sizes, seed=1)
        assert all(result.differ == 0 for result in found.interpreted.values())


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_right_and_clean(target: str) -> None:
    proven, made = solved(PATH, target)
    text = emit(proven, made)
    outcome = emulate(text, made, ARCHITECTURES[target], extents={"m": 70, "n": 50, "k": 72})
    assert outcome.correct, outcome.errors
    assert outcome.clean
    # A sum that forgets what stands before its last step is noticed.
    lost = "before +=" if target == "h200" else "total +="
    assert lost in text
    wrong = emulate(
        text.replace(lost, lost.replace("+=", "=")), made, ARCHITECTURES[target],
        extents={"m": 70, "n": 50, "k": 72},
    )  # fmt: skip
    assert not wrong.correct


def test_its_work() -> None:
    """Two additions for each element, and what comes from shared memory and goes there."""
    work = {o.base: o.work for o in kernel().operations}
    assert work["SCAN"].fma == work["SCANC"].fma == 2 * 64 * 64
    assert (work["SCAN"].smem_in, work["SCAN"].smem_out) == (0, 0)
    assert (work["SCANC"].smem_in, work["SCANC"].smem_out) == (64 * 64 * 2, 64 * 64 * 2)
    assert np.isclose(work["SCAN"].columns, 64)


SUMS, PRODUCT = (f"{n}: {{space: registers, shape: [rows" for n in ("sums", "product"))
BRING = "{id: BRING, kind: copy, from: acc, to: product}"
SCAN = "{id: SCAN, kind: scan, op: sum,"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({SCAN: SCAN.replace("sum", "max")}, "'sum'"),
        ({f"{SUMS}, columns]": f"{SUMS}]"}, "sums of 64 x 64 are 64 x 64, 'sums' is 64 x 1"),
        (
            {
                f"{PRODUCT}, columns]": f"{PRODUCT}]",
                BRING: BRING.replace("kind: copy", "kind: reduce, op: sum"),
            },
            "has no columns to add up",
        ),
        ({SCAN: f"{SCAN} when: alpha > 0,"}, "a 'scan' happens always"),
    ],
)
def test_mistakes(changes: dict[str, str], message: str) -> None:
    text = TEXT
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(SpecError, match=message):
        kernel(text)
