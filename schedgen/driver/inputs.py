"""What a generated kernel gets in the emulator, and what its results should be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from schedgen.comparing import Array, Compared, compare
from schedgen.conditional import conditions
from schedgen.driver.blocks import blocks, with_blocks
from schedgen.driver.lengths import NUMBERS, array, sizes_of, spoil, with_totals
from schedgen.driver.listed import listed, lists, sources, spoil_unlisted
from schedgen.driver.turns import AWAITED, awaited, counted, told, turns_of
from schedgen.elements import elements, tile_formulas, whole_scalars
from schedgen.errors import SchedgenError, suggest
from schedgen.expressions import references
from schedgen.extents import beyond, covered
from schedgen.interpret.pieces import TORCH
from schedgen.interpret.sequential import run
from schedgen.kernel import LOADS, Kernel, Kind
from schedgen.layouts import PACKED, WHOLE
from schedgen.ragged import padded
from schedgen.reference.evaluate import Expected, evaluate
from schedgen.sums import summed
from schedgen.tensors import INTEGERS, Argument
from schedgen.walking import numbers_of_tiles

_LENGTH = 300
"""The largest size along an extent that no tensor has."""
_WHOLE = 256
"""Twice as much as whole numbers among scalars are, about."""
_ALIGNMENT = 16  # bytes: what bulk tensor copies ask of every stride but the innermost


def default_extents(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """Small extents with ragged ends: one tile and a part of another along each axis of the grid,
    two iterations and a part of another along what the main loop walks; there no less than along
    extents of the grid that decide how many iterations a tile has, so that each tile has one. What
    is ``given`` has the last word; it may have values of scalar arguments, too.

    Raises:
        SchedgenError: ``given`` names what is neither an extent nor a scalar argument, an extent is
            larger than what the kernel covers, or one that counts output tiles is another number.
    """
    parameters = dict(kernel.parameters)
    blocks = {axis.extent: axis.block for axis in kernel.grid if axis.block > 1}
    steps: dict[str, int] = {}
    twice: set[str] = set()
    for place in (place for o in kernel.operations for place in o.places):
        if place.step:
            steps[place.extent] = max(steps.get(place.extent, 0), place.step)
        if place.grouped:
            twice.add(place.along)
        if place.split_k:
            twice.add(place.split_k)
    most = covered(kernel)
    found: dict[str, int] = {}
    for extent in dict.fromkeys(e for a in kernel.arguments for e in a.shape):
        if extent in steps:
            found[extent] = 2 * steps[extent] + 8
        elif extent in parameters:
            found[extent] = int(parameters[extent])
        elif extent in blocks:
            found[extent] = blocks[extent] + 8
        else:
            found[extent] = most.get(extent, 1)
    found.update(dict.fromkeys(sorted(twice), 2))
    decide = {name.name for formula in tile_formulas(kernel) for name in references(formula)}
    least = max((found[extent] for extent in blocks if extent in decide & found.keys()), default=0)
    found |= {extent: max(found[extent], least) for extent in steps if extent in decide}
    found = {extent: min(size, most.get(extent, size)) for extent, size in found.items()}
    found = {**sources(kernel), **found} | {one.of: NUMBERS for one in kernel.ragged}
    found |= {one.extent: _LENGTH for one in kernel.ragged if one.extent not in found}
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    for name in given:
        if name not in found and name not in scalars:
            fix = suggest(name, found) or f"the extents are {', '.join(found)}"
            raise SchedgenError(f"'{name}' is not an extent of {kernel.name}; {fix}")
    wrong = beyond(kernel, given)
    if wrong:
        raise SchedgenError(wrong)
    sizes = {**with_blocks(kernel, with_totals(kernel, {**found, **given})), **given}
    sizes = {**sizes, **turns_of(kernel, sizes), **given}
    for extent, count in numbers_of_tiles(kernel, sizes).items():
        if sizes[extent] != count:
            raise SchedgenError(
                f"'{extent}' is {sizes[extent]}, but there are {count} output tiles to count; fix: "
                "leave it out"
            )
    return sizes


def random_inputs(
    kernel: Kernel, extents: Mapping[str, int], seed: int, *, positive: bool = False
) -> dict[str, torch.Tensor | float]:
    """Normal numbers for tensors, or their absolute values if ``positive``; small positive ones for
    scalars that ``extents`` has no value of, and for tensors of which an output tile has one
    element, such as a factor of each head; whole ones for scalars that decide on iterations, and
    any at all for those that are integers.
    """
    generator = torch.Generator().manual_seed(seed)
    stored = _stored(kernel) - summed(kernel)
    arrays = {array for one in kernel.ragged for array in one.arrays}
    factors = _factors(kernel)
    of_tiles = {argument.name for argument in elements(kernel)}
    found: dict[str, torch.Tensor | float] = {}
    for argument in kernel.arguments:
        if not argument.shape and argument.dtype in INTEGERS:
            anything = int(torch.randint(-(2**31), 2**31, (), generator=generator))
            anything = AWAITED if argument.name in awaited(kernel) else anything
            found[argument.name] = extents.get(argument.name, anything)
        elif not argument.shape:
            small = _small((), generator=generator).item()
            small = int(_WHOLE * small) if argument.name in whole_scalars(kernel) else small
            found[argument.name] = float(extents.get(argument.name, small))
        elif kernel.walk is not None and argument.name in kernel.walk.arrays:
            found[argument.name] = blocks(kernel, argument.name, extents, seed)
        elif argument.name in arrays:
            found[argument.name] = array(kernel, argument.name, extents)
        elif argument.name in lists(kernel):
            found[argument.name] = listed(kernel, argument.name, extents, seed)
        elif kernel.follows is not None and argument.name == kernel.follows[0]:
            found[argument.name] = counted(kernel, extents)
        elif argument.name in told(kernel):
            shape = [extents[extent] for extent in argument.passed]
            found[argument.name] = torch.zeros(shape, dtype=torch.int32)
        elif argument.name not in stored:  # of sums, what the kernel adds to
            shape = [extents[extent] for extent in argument.passed]
            one = argument.name in of_tiles
            values = (_small if one else torch.randn)(shape, generator=generator)
            values = values.abs() if positive or argument.name in factors else values
            if argument.dtype in PACKED:
                values = torch.randint(256, shape, generator=generator)
            elif argument.dtype in WHOLE:
                values = torch.randint(0 if positive else -128, 128, shape, generator=generator)
            found[argument.name] = values = aligned(argument, shape).copy_(values)
            said = {name: array(kernel, name, extents) for name in arrays}
            spoil(kernel, argument, values, said, extents)
            if argument.index:
                spoil_unlisted(values, listed(kernel, argument.index, extents, seed))
    return found


def _small(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    return 0.125 + 0.5 * torch.rand(tuple(shape), generator=generator)


def _factors(kernel: Kernel) -> set[str]:
    """Tensors of factors of products' blocks, which have no sign: those that are loaded, and then
    copied, to where products read them.
    """
    read = {
        piece
        for operation in kernel.operations
        for name, pieces in operation.operands
        if operation.kind is Kind.MMA and name in ("scale_a", "scale_b")
        for piece in pieces
    }
    copies = (o for o in kernel.operations if o.kind is Kind.COPY and read & {*o.writes})
    copied = {one.piece for copy in copies for one in copy.reads}
    loads = (o for o in kernel.operations if o.kind in LOADS and copied & {*o.writes})
    return {load.tensor or "" for load in loads}


def shapes(kernel: Kernel) -> dict[str, dict[str, int]]:
    """Extents at which a kernel should be checked, by name: all at 1; ragged ends, several output
    tiles with few iterations; a main loop with more iterations than rings have slots; and with
    zeros for scalars that decide whether something is loaded.
    """
    ragged = default_extents(kernel, {})
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    axes = {axis.extent: axis.block for axis in kernel.grid if axis.block > 1}
    fixed = {*steps, *(name for name, _ in kernel.parameters)}
    tiles = [extent for extent in axes if extent not in fixed]
    free = [*tiles, *steps]
    loops = {extent: 7 * step + 8 for extent, step in steps.items()}
    loops |= {place.split_k: 1 for o in kernel.operations for place in o.places if place.split_k}
    most = covered(kernel)
    loops = {extent: min(size, most.get(extent, size)) for extent, size in loops.items()}
    found = {
        "tiny": {**ragged, **dict.fromkeys(free, 1)},
        "ragged": ragged,
        "long loop": {**ragged, **dict.fromkeys(tiles, 8), **loops},
    }
    found = {name: with_blocks(kernel, with_totals(kernel, sizes)) for name, sizes in found.items()}
    scalars = {argument.name for argument in kernel.arguments if not argument.shape}
    names = {name.name for one in conditions(kernel).values() for name in references(one)}
    decide = sorted(names & scalars)
    if decide:
        found["zero " + " ".join(decide)] = {**ragged, **dict.fromkeys(decide, 0)}
    chosen = {extent for argument in kernel.arguments for extent in argument.shape} | scalars
    chosen |= {name for one in kernel.ragged for name in (one.of, one.extent)}
    chosen |= sources(kernel).keys()
    # Sizes of what pages are in follow from the others.
    return {n: {e: size for e, size in sizes.items() if e in chosen} for n, sizes in found.items()}


@dataclass(frozen=True)
class Wanted:
    """Inputs with what the spec makes of them.

    Attributes:
        expected: by the evaluation with numpy, with an error bound for each element.
        interpreted: what the interpreter makes of them, beside that.
    """

    inputs: Mapping[str, torch.Tensor | float]
    expected: Mapping[str, Expected]
    interpreted: Mapping[str, Compared]


def wanted(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> Wanted:
    """Random inputs of ``sizes`` and what the spec makes of them. Inputs of both signs, but
    positive ones where the results of some would be no numbers, as logarithms and roots are. Where
    rounding decides a condition, so that a result may be anything, others are drawn, a few times.
    """
    draws = (_drawn(kernel, sizes, seed + _APART * number) for number in range(_DRAWS))
    first = next(draws)
    if _unsure(first[1]):
        first = next((other for other in draws if not _unsure(other[1])), first)
    inputs, expected = first
    return Wanted(inputs, expected, compared(kernel, run(kernel, inputs, sizes), expected))


_DRAWS, _APART = 4, 1 << 20
"""How often inputs are drawn, and how far apart their seeds are."""


def _drawn(
    kernel: Kernel, sizes: Mapping[str, int], seed: int
) -> tuple[Mapping[str, torch.Tensor | float], Mapping[str, Expected]]:
    inputs = random_inputs(kernel, sizes, seed)
    expected = evaluate(kernel, _numbers(inputs), sizes)
    if _undefined(expected):
        others = random_inputs(kernel, sizes, seed, positive=True)
        found = evaluate(kernel, _numbers(others), sizes)
        if not _undefined(found):
            return others, found
    return inputs, expected


def _unsure(expected: Mapping[str, Expected]) -> bool:
    """Whether something that is stored may be anything."""
    return any(bool(np.isinf(e.number.error[e.stores > 0]).any()) for e in expected.values())


def _undefined(expected: Mapping[str, Expected]) -> bool:
    """Whether something that is stored is not a number."""
    return any(bool(np.isnan(e.number.value[e.stores > 0]).any()) for e in expected.values())


def _numbers(inputs: Mapping[str, torch.Tensor | float]) -> dict[str, Array | float]:
    return {
        name: value.double().numpy() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }


def compared(
    kernel: Kernel, found: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]
) -> dict[str, Compared]:
    """Each output beside what is expected of it."""
    shapes = {argument.name: argument.passed for argument in kernel.arguments}
    return {
        name: compare(
            value.double().numpy(),
            expected[name].number.value,
            expected[name].number.error,
            expected[name].stores > 0,
            shapes[name],
        )
        for name, value in found.items()
    }


def _stored(kernel: Kernel) -> set[str]:
    return {o.tensor or "" for o in kernel.operations if o.kind is Kind.STORE}


def aligned(argument: Argument, shape: list[int]) -> torch.Tensor:
    """An uninitialized tensor with rows at multiples of 16 bytes."""
    dtype = TORCH[argument.dtype]
    per = _ALIGNMENT // dtype.itemsize
    padded = [*shape[:-1], -(-shape[-1] // per) * per]
    return torch.empty(math.prod(padded), dtype=dtype).view(padded)[..., : shape[-1]]


def outputs(
    kernel: Kernel,
    sizes: Mapping[str, int],
    inputs: Mapping[str, torch.Tensor | float] | None = None,
) -> dict[str, torch.Tensor]:
    """Tensors for what the kernel stores: full of NaN, those that it adds to as ``inputs`` say."""
    found = {
        argument.name: aligned(argument, [sizes[e] for e in argument.passed]).fill_(torch.nan)
        for argument in kernel.arguments
        if argument.name in _stored(kernel)
    }
    if inputs is not None:
        for name in summed(kernel):
            found[name].copy_(torch.as_tensor(inputs[name]))
    return found


def without_padding(
    kernel: Kernel, results: Mapping[str, torch.Tensor], extents: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """Results without what lies beyond the sizes in those that have room for the largest one: that
    is undefined.
    """
    found = dict(results)
    for argument in kernel.arguments:
        for one in padded(kernel, argument) if argument.name in results else ():
            of, along = argument.passed.index(one.of), argument.passed.index(one.extent)
            value = found[argument.name] = found[argument.name].clone()
            for number, size in enumerate(sizes_of(kernel, one, extents)):
                value.select(of, number).narrow(
                    along - (of < along), size, extents[one.extent] - size
                ).fill_(torch.nan)
    return found
