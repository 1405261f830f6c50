"""Finds the kernel of a variant by its content, and calls it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache as cache_of_functions
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from schedgen.errors import SchedgenError
from schedgen.expressions import Expression, Logical, parse
from schedgen.kernels import cache, checks, keys
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.of_spec import SpecKernel, function_of, spec_kernel, target_for
from schedgen.kernels.variants.backward import EDITS, KEYS, PACKED_KEYS, PACKED_WHOLE, WHOLE
from schedgen.kernels.variants.conditions import CAUSAL, FACTOR, Variant
from schedgen.kernels.variants.reading import (
    COORDINATES,
    SCORE,
    SIZES,
    Vector,
    exchanged,
    number_name,
    read,
)
from schedgen.kernels.variants.spec import BASE, NAME, SINK, edited, opaque, order
from schedgen.stored import Store

if TYPE_CHECKING:
    from schedgen.spec.reader import Spec

log = logging.getLogger("schedgen.kernels")

LOG2_E = math.log2(math.e)
MOST_WHOLE = 1 << 24
"""Whole numbers are exact in float32 below it."""
SMALLER = (96, 80, 64, 48, 32)
"""Sizes of an iteration that are tried, one after the other, where a kernel has too few registers
with that of its spec."""
WALKED: Mapping[str, str] = dict.fromkeys((KEYS, PACKED_KEYS, WHOLE, PACKED_WHOLE), "queries")
"""Parameters for how many columns an iteration has, by spec; of others it is ``keys``."""
_RESERVED = {*COORDINATES, *SIZES, SCORE}
Given = Mapping[str, Tensor | int | float]


@dataclass(frozen=True)
class Asked:
    """What a caller asks for, as far as kernels differ by it; ``kinds`` are pairs of an argument
    and ``whole``, ``real`` or the number of dimensions, ``base`` is the spec that is edited,
    ``blocks`` whether a list says which blocks are computed, ``turned`` whether rows of its mask
    are keys.
    """

    mask: str | None
    score: str | None
    causal: bool
    sinks: bool
    kinds: tuple[tuple[str, str], ...]
    base: str = BASE
    blocks: bool = False
    turned: bool = False

    @property
    def plain(self) -> bool:
        """Whether the spec that would be edited says it as it is."""
        return self.mask is self.score is None and not self.sinks


@lru_cache(maxsize=1024)
def variant_of(wanted: Asked) -> Variant:
    """What is asked for, read. Raises VariantError: an expression is wrong."""
    ranks = {n: int(kind) if kind.isdigit() else 0 for n, kind in wanted.kinds}
    mask = None if wanted.mask is None else read("mask", wanted.mask, ranks, condition=True)
    mask = mask.turned if mask is not None and wanted.turned else mask
    score = None if wanted.score is None else read("score", wanted.score, ranks, condition=False)
    whole = frozenset(name for name, kind in wanted.kinds if kind == "whole")
    return Variant(mask, score, wanted.causal, wanted.sinks, whole, wanted.blocks)


@lru_cache(maxsize=1024)
def kept_of(wanted: Asked) -> Expression:
    """What a mask keeps, with ``causal``. Parsing this takes longer than most of a call."""
    mask = variant_of(wanted).mask
    assert mask is not None
    if not wanted.causal:
        return mask.given
    diagonal = parse(CAUSAL)
    return Logical("and", exchanged(diagonal) if wanted.turned else diagonal, mask.given)


@lru_cache(maxsize=1024)
def needs_list(wanted: Asked) -> bool:
    """Whether a list of blocks is made for what is asked for, unless the caller says otherwise.

    Each call asks. Raises VariantError: an expression is wrong.
    """
    return opaque(variant_of(wanted))


@lru_cache(maxsize=1024)
def with_list(wanted: Asked) -> Asked:
    """The same by a kernel that is told which blocks are computed."""
    return replace(wanted, blocks=True)


@lru_cache(maxsize=1024)
def turned(wanted: Asked) -> Asked:
    """The mask with queries as columns and keys as rows, for what tiles of keys see."""
    return replace(wanted, score=None, sinks=False, turned=not wanted.turned)


def asked(
    mask: str | None,
    score: str | None,
    causal: bool,
    sinks: Tensor | None,
    given: Given,
    base: str = BASE,
) -> Asked:
    """What distinguishes the kernel of a call; ``base`` is the spec that is edited.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument is neither a tensor nor a number, or has
            a name that means something else.
    """
    for name in given:
        if name in _RESERVED:
            message = "it is given, but means something else in expressions"
            raise ArgumentValueError(name, message, "other names", f"rename {name}")
    kinds = tuple(sorted((name, _kind(name, value)) for name, value in given.items()))
    return Asked(mask, score, causal, sinks is not None, kinds, base)


def _kind(name: str, value: object) -> str:
    match value:
        case Tensor() if value.dim():
            return str(value.dim())
        case bool():
            pass
        case int() | torch.SymInt():
            return "whole"
        case float() | torch.SymFloat():
            return "real"
        case _:
            pass
    got = f"it is a {type(value).__name__}"
    raise ArgumentTypeError(name, got, "a tensor with dimensions, an int or a float", f"{name}=1.0")


# -- the kernel ------------------------------------------------------------------------------------


@cache_of_functions
def target_of(arch: str) -> str:
    """The machine model of attention's spec for an architecture. Raises DeviceError: none is."""
    from schedgen.spec.reader import read_spec

    return target_for(BASE, read_spec(BASE).file.targets, arch)


@lru_cache(maxsize=1024)
def spec_of(wanted: Asked) -> Spec:
    """The spec of a variant. Raises VariantError: an expression is wrong."""
    from schedgen.spec.reader import read_spec, spec_from_data

    variant = variant_of(wanted)
    unused = {name for name, _ in wanted.kinds} - {v.name for v in variant.vectors}
    unused -= {*variant.numbers}
    for name in sorted(unused):
        got = "it is given, but no expression names it"
        raise ArgumentValueError(name, got, "arguments of mask and score", f"leave {name} out")
    data = EDITS.get(wanted.base, edited)(read_spec(wanted.base).source.data, variant)
    return spec_from_data(data, f"{data['kernel']}.yaml")


_made: dict[tuple[Asked, str, tuple[tuple[str, str], ...]], Path] = {}


def keep(wanted: Asked, target: str, settings: tuple[tuple[str, str], ...], path: Path) -> None:
    """A generated file that was made elsewhere, for machines on which nothing is solved."""
    _made[wanted, target, settings] = path


@lru_cache(maxsize=1024)
def kernel_of(wanted: Asked, target: str, settings: tuple[tuple[str, str], ...]) -> SpecKernel:
    """The kernel of a variant, made on first use and kept on disk by content.

    Args:
        target: a machine model.
        settings: parameters of the spec of attention.

    Raises:
        VariantError: an expression is wrong.
        EmitError, CompileError: there is no kernel that the compiler accepts.
        CompilerEnded: a signal ended it. Nothing is kept of that.
    """
    made = _made.get((wanted, target, settings))
    if made is not None:
        return function_of(made)
    if wanted.plain:
        causal = {"causal": "true"} if wanted.causal else {}
        return spec_kernel(wanted.base, {**dict(settings), **causal}, target)
    spec = spec_of(wanted)
    digest = sha256(spec.source.text.encode()).hexdigest()
    path = cache.place(f"{NAME}.yaml", digest)
    if not path.exists():
        cache.write(path, spec.source.text)
    store, by = Store(), list(cache.packages())  # what compiles decides it, too
    made_from = [spec.source.sha256, target, sorted(settings), by]
    size = store.get("size of an iteration", made_from)
    parameter = WALKED.get(wanted.base, "keys")
    if size is None:
        size = _size(spec, target, dict(settings), parameter, store)
        store.put("size of an iteration", made_from, size)
    given: dict[str, Any] = dict(settings)
    return spec_kernel(str(path), {**given, **({parameter: size} if size else {})}, target)


def without_expressions(
    base: str, device: torch.device, settings: Mapping[str, str], *, causal: bool = False
) -> SpecKernel:
    """The kernel of the spec ``base`` as it is, for the GPU of ``device``: made on first use.

    Raises what `kernel_of` raises.
    """
    target = target_of(keys.architecture(device))
    return kernel_of(Asked(None, None, causal, False, (), base), target, tuple(settings.items()))


def _size(
    spec: Spec, target: str, settings: Mapping[str, str], parameter: str, store: Store
) -> str:
    """The size of an iteration with which the compiler accepts the best schedule; "" for that of
    the spec, with which others are looked for if none does.
    """
    from schedgen.codegen.compiling import CompilerEnded
    from schedgen.driver.attempts import acceptable, compiled
    from schedgen.driver.binding import kernels_of
    from schedgen.driver.emitting import emission
    from schedgen.driver.proved import QUICK
    from schedgen.driver.variations import Variation
    from schedgen.machine_file import read_machine

    machine = read_machine(target)
    bound = kernels_of(spec, machine, settings)[0]
    most = int(dict(bound.parameters)[parameter])
    fewer = [str(size) for size in SMALLER if size < most]
    for size in ("", *fewer) if fewer else ():
        log.info("attention with %s=%s in an iteration", parameter, size or most)
        more = {parameter: size} if size else {}
        try:
            given = {**settings, **more}  # what is taken is proven by all methods later
            made = emission(spec, machine, given, log.info, methods=QUICK, store=store)
            report = compiled(made, Variation(), store, conform=False).report
        except CompilerEnded:
            raise
        except SchedgenError:  # that of the spec's size is raised later, if none fits
            continue
        if acceptable(report):
            return size
    return ""


def tensors(given: Given) -> dict[str, Tensor]:
    """Those of the caller's arguments that are tensors."""
    return {name: value for name, value in given.items() if isinstance(value, Tensor)}


# -- the call --------------------------------------------------------------------------------------


def sizes_of(q: Tensor, k: Tensor) -> dict[str, int]:
    """How many elements there are along each coordinate."""
    return {"row": q.shape[1], "column": k.shape[1], "head": q.shape[2], "batch": q.shape[0]}


def expressed(
    wanted: Asked,
    sizes: Mapping[str, int],
    like: Tensor,
    scale: float,
    sinks: Tensor | None,
    given: Given,
) -> dict[str, Tensor | float]:
    """What a kernel is passed for its expressions, and its scale.

    Args:
        sizes: how many elements a tensor of the caller has along each coordinate.
        like: a tensor on the device of all others.

    Raises:
        ArgumentValueError, ArgumentTypeError: an argument does not fit.
    """
    variant = variant_of(wanted)
    passed: dict[str, Tensor | float] = {}
    made: dict[tuple[str, tuple[int, ...]], Tensor] = {}  # doc[row] and doc[column] are one tensor
    for vector in variant.vectors:
        key = vector.name or vector.indices[0], tuple(order(vector))
        one = _elements(vector, sizes, like, given, made.get(key))
        passed[vector.argument] = made[key] = one
    for name in variant.numbers:
        passed[number_name(name)] = _number(name, given[name])
    if sinks is not None:
        passed[SINK] = sinks.float()
    if variant.score is not None:
        passed[FACTOR] = scale
    passed["scale"] = scale * LOG2_E if variant.score is None else LOG2_E
    return passed


def _elements(
    vector: Vector, sizes: Mapping[str, int], like: Tensor, given: Given, made: Tensor | None
) -> Tensor:
    """A vector as the kernel has it: float32, with its dimensions in the order of the spec; the one
    that was ``made`` of the same tensor, if that fits.
    """
    if not vector.name:
        return torch.arange(sizes[vector.indices[0]], device=like.device, dtype=torch.float32)
    tensor = elements(vector, sizes, given)
    return tensor.permute(order(vector)).float() if made is None else made


def elements(vector: Vector, sizes: Mapping[str, int], given: Given) -> Tensor:
    """The caller's tensor. Raises ArgumentValueError: it has not one element for each index."""
    tensor = given[vector.name]
    assert isinstance(tensor, Tensor)
    for at, index in enumerate(vector.indices):
        if tensor.shape[at] != sizes[index]:
            got = f"its dimension {at} is {tensor.shape[at]}"
            allowed = f"{sizes[index]}, since it is indexed by {index}"
            raise ArgumentValueError(vector.name, got, allowed, f"pass one for each {index}")
    return tensor


def _number(name: str, value: Tensor | int | float) -> float:
    assert not isinstance(value, Tensor)
    checks.number(name, value)
    if isinstance(value, int) and abs(value) >= MOST_WHOLE:
        raise ArgumentValueError(name, f"it is {value}", f"below {MOST_WHOLE}", "pass a float")
    return value if isinstance(value, float) else float(value)  # one of a plan stays one
