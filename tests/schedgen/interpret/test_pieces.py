"""Numbers cast to the data types of specs."""

import numpy as np
import torch

from schedgen.interpret.pieces import cast
from schedgen.reference.rounding import rounded


def test_factors_are_rounded_up() -> None:
    one = torch.tensor(1.0)
    values = [1.0, 1.5, 2.0, -3.0, 0.25, 448.0 / 448, torch.nextafter(one, one + 1).item()]
    wanted = torch.tensor([1.0, 2.0, 2.0, 4.0, 0.25, 1.0, 2.0])
    assert torch.equal(cast(torch.tensor(values), "e8m0").float(), wanted)


def test_ends_of_factors() -> None:
    tiny = torch.tensor([0.0, 2.0**-149, 2.0**-127, 1.5 * 2.0**-127, 2.0**-126])
    assert cast(tiny, "e8m0").float().tolist() == [*([2.0**-127] * 3), 2.0**-126, 2.0**-126]
    large = torch.tensor([2.0**127, 1.5 * 2.0**127, float("inf")])
    assert cast(large, "e8m0").float().tolist() == [2.0**127] * 3
    assert cast(torch.tensor([float("nan")]), "e8m0").float().isnan().all()


def test_the_reference_rounds_alike() -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(4096, generator=generator)
    values = values * 2.0 ** torch.randint(-130, 125, (4096,), generator=generator)
    values[:3] = torch.tensor([float("inf"), -float("inf"), 0.0])
    for dtype in ("e8m0", "bf16", "fp16"):
        found = cast(values, dtype).double().numpy()
        assert np.array_equal(found, rounded(values.double().numpy(), dtype))


def test_a_factor_of_factors_is_itself() -> None:
    codes = torch.arange(255, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    assert torch.equal(cast(codes, "e8m0").view(torch.uint8), codes.view(torch.uint8))
