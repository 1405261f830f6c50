"""Coefficients of the odd polynomials a x + b x^3 + c x^5 that one iteration applies to all
singular values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedgen.kernels.errors import ArgumentValueError

Step = tuple[float, float, float]
"""a, b and c of one iteration."""

_SAFETY = 1.05
"""Polar Express is optimal on singular values up to 1; this keeps rounding from leaving that."""

_POLAR_EXPRESS: tuple[Step, ...] = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)

SETS: dict[str, tuple[Step, ...]] = {
    # arXiv 2505.16932, divided by the safety factor as its authors' Muon does
    "polar_express": tuple(
        (a / _SAFETY, b / _SAFETY**3, c / _SAFETY**5) for a, b, c in _POLAR_EXPRESS
    ),
    # Jiacheng You's, as in Dao-AILab/gram-newton-schulz
    "you": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
    # Keller Jordan's, the default of torch.optim.Muon
    "jordan": ((3.4445, -4.7750, 2.0315),),
    # arXiv 2506.10935, as in NVIDIA's Emerging-Optimizers
    "cans": (
        (8.4703, -25.1081, 18.6293),
        (4.1828, -3.1087, 0.5806),
        (3.9619, -2.9541, 0.5630),
        (3.2866, -2.4647, 0.5074),
        (2.2737, -1.6447, 0.4162),
    ),
    # arXiv 2606.00371: cubic, so a step needs one product less
    "cubic5": (
        (3.3656576, -3.3420992, 0.0),
        (2.5744352, -1.4957376, 0.0),
        (2.5368962, -1.4312570, 0.0),
        (2.4418906, -1.2764040, 0.0),
        (2.2230472, -0.9630650, 0.0),
    ),
    # arXiv 2512.04632 as in Emerging-Optimizers; for matrices that AOL has scaled before
    "aol": (
        (4.0098, -7.0585, 2.4635),
        (3.4585, -5.5479, 2.5959),
        (2.7573, -3.2939, 1.4254),
        (2.7215, -3.0494, 1.3169),
    ),
}
"""Sets by name. Further steps repeat the last one, fewer take the first ones."""


def resolve(
    given: str | Sequence[float] | Sequence[Sequence[float]], steps: int
) -> tuple[Step, ...]:
    """``steps`` triples: of a set by its name, from one triple for all, or from a list of triples.

    Raises ArgumentValueError.
    """
    allowed = f"{', '.join(SETS)}, a triple (a, b, c), or a list of triples"
    if isinstance(given, str):
        if given not in SETS:
            raise ArgumentValueError("coefficients", f"it is {given!r}", allowed, "choose a set")
        rows: list[Sequence[float]] = list(SETS[given])
    else:
        items = list(given)
        rows = [items] if items and isinstance(items[0], float | int) else items  # type: ignore[list-item]
    if not rows or any(len(row) != 3 or not all(map(math.isfinite, row)) for row in rows):
        raise ArgumentValueError(
            "coefficients", f"it is {given!r}", allowed, "give three finite numbers for each step"
        )
    if steps < 1:
        raise ArgumentValueError("steps", f"it is {steps}", "1 and above", "use at least one step")
    triples = [(float(a), float(b), float(c)) for a, b, c in rows[:steps]]
    return tuple(triples + [triples[-1]] * (steps - len(triples)))
