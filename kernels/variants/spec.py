"""The spec of a variant: one of attention, such as that of packed sequences, edited as data.

What is kept goes into the mask of the spec or into a formula of scores
(`schedgen.kernels.variants.conditions`), and gradients are other edits of other specs
(`schedgen.kernels.variants.backward`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from schedgen.expressions import Expression, Logical, Name, parse, references, render
from schedgen.kernels.variants.conditions import (
    FACTOR,
    ROWS,
    Layout,
    Variant,
    buffer,
    iterations,
    joined,
    scored,
    split,
)
from schedgen.kernels.variants.reading import EXTENTS, Vector, number_name

BASE = "attention_fwd"
NAME = "attention_variant"
NOTHING = "-1e30"
"""The score of what is not kept: far below the first maximum."""
SINK, _LOG2_E = "sink", "1.4426950408889634"
_KEYS = "min(where(accumulator == 'registers' or tiles == 1, 128, 96)"
"""Fewer keys in an iteration where a row of scores is in the registers of one thread, beside what
is computed of it."""


def edited(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of a variant's spec; ``base`` is that of attention, or of packed sequences.

    Rows of which nothing is kept give 0 and -inf as the logarithm of their sum.
    """
    data: dict[str, Any] = deepcopy(dict(base))
    data["kernel"] = NAME
    data["about"] = "a variant of attention, made of expressions"
    del data["parameters"]["causal"]
    arguments(data, variant)
    for vector in variant.vectors:
        _load(data, vector)
    in_mask, elsewhere = split(variant)
    kept = joined(in_mask)
    if variant.blocks:  # of a block that is full the mask keeps everything, too
        kept = Logical("or", parse("partly < 1"), kept)
    put(data["operations"]["body"], "MASK", {"keep": render(kept)})
    score = _score(variant, elsewhere)
    if score is not None:
        data["parameters"]["keys"]["derive"] = f"{_KEYS}, {data['parameters']['keys']['derive']})"
        made = {"id": "SCORE", "kind": "map", "over": ["tile"], "label": "softmax"}
        if variant.blocks and elsewhere:
            _in_parts(data["operations"]["body"], made, variant, elsewhere)
        else:
            insert(data["operations"]["body"], {**made, "to": {"rS": score}}, before="MASK")
    put(data["operations"]["after"], "INV", {"to": _ends(variant)})
    del data["loops"]["tile_trips"]
    if variant.blocks:
        walk(data, variant)
    else:
        data["loops"] |= iterations(variant, in_mask, elsewhere)
    return data


def opaque(variant: Variant) -> bool:
    """Whether which keys a row sees depends on elements of the caller's tensors in a way from which
    no range of iterations follows.
    """
    _, elsewhere = split(variant)
    loaded = {buffer(vector) for vector in variant.vectors if vector.along is not None}
    named = ({name.name for name in references(condition)} for condition in elsewhere)
    return any(names & loaded for names in named)


def listed_along(variant: Variant) -> tuple[str, ...]:
    """Which of ``batch`` and ``head`` blocks differ along."""
    mask = None if variant.mask is None else variant.mask.written
    names = set[str]() if mask is None else {name.name for name in references(mask)}
    used = {v for n, v in (variant.mask.vectors.items() if variant.mask else ()) if n in names}
    along = names | {index for vector in used for index in vector.indices}
    return tuple(name for name in ("batch", "head") if name in along)


# -- arguments -------------------------------------------------------------------------------------


def arguments(data: dict[str, Any], variant: Variant) -> None:
    """Tensors before results, numbers behind the last tensor."""
    given: dict[str, Any] = data["arguments"]
    tensors = {name: one for name, one in given.items() if one["shape"]}
    numbers = {name: one for name, one in given.items() if not one["shape"]}
    for vector in variant.vectors:
        shape = [EXTENTS[index] for index in _ordered(vector)]
        tensors[vector.argument] = {"shape": shape, "dtype": "f32"}
    if variant.sinks:
        about = "logit of the head"
        tensors[SINK] = {"shape": ["heads"], "dtype": "f32", "about": about}
    if variant.score is not None:
        numbers[FACTOR] = {"shape": [], "dtype": "f32", "about": "softmax scale; scale is log2(e)"}
    numbers |= {number_name(name): {"shape": [], "dtype": "f32"} for name in variant.numbers}
    data["arguments"] = tensors | numbers


def _ordered(vector: Vector) -> list[str]:
    """Its indices, with what lies along rows or columns of a tile last."""
    return sorted(vector.indices, key=lambda index: index == vector.along)


def order(vector: Vector) -> list[int]:
    """Dimensions of the caller's tensor in the order in which the spec has them."""
    return [vector.indices.index(index) for index in _ordered(vector)]


def _load(data: dict[str, Any], vector: Vector) -> None:
    """Elements of a vector along rows or columns of a tile are in shared memory."""
    name, where = vector.argument, buffer(vector)
    along = {"from": name, "to": where}
    match vector.along:
        case "row":
            shape = {"space": "smem", "shape": ["rows"], "per": ["tile"], "lives": "tile"}
            made = {"id": f"L_{name}", "kind": "load", "over": ["tile"], **along}
            data["operations"]["before"].append(made)
        case "column":
            shape = {"space": "smem", "shape": [1, "keys"], "depth": 2}
            made = {"id": f"L_{name}", "kind": "load", **along}
            insert(data["operations"]["body"], made, before="QK")
        case _:
            return
    data["buffers"][where] = shape


# -- operations ------------------------------------------------------------------------------------


def put(operations: list[dict[str, Any]], name: str, keys: Mapping[str, Any]) -> None:
    next(one for one in operations if one["id"] == name).update(keys)


def insert(operations: list[dict[str, Any]], made: dict[str, Any], *, before: str) -> None:
    at = next(n for n, one in enumerate(operations) if one["id"] == before)
    operations.insert(at, made)


def _in_parts(
    operations: list[dict[str, Any]],
    made: Mapping[str, Any],
    variant: Variant,
    elsewhere: list[Expression],
) -> None:
    """Scores in all blocks; conditions of elements in blocks that are not kept as a whole."""
    if variant.score is not None:
        score = _score(variant, [])
        insert(operations, {**made, "to": {"rS": score}}, before="MASK")
    kept = f"where({render(joined(elsewhere))}, rS, {NOTHING})"
    keep = {**made, "id": "KEEP", "when": "partly > 0", "to": {"rS": kept}}
    insert(operations, keep, before="MASK")


def _score(variant: Variant, elsewhere: list[Expression]) -> str | None:
    """What scores become before they are masked; None if they stay."""
    value = render(scored(variant, ROWS, Name("rS")))
    if elsewhere:
        return f"where({render(joined(elsewhere))}, {value}, {NOTHING})"
    return None if variant.score is None else value


def _ends(variant: Variant) -> dict[str, str]:
    """The end of a tile: the factor of its result, and the logarithm of its sum."""
    most, factor = "base", "rcp(l)"
    found: dict[str, str] = {}
    if variant.sinks:
        sink = f"{SINK} * {_LOG2_E}"
        most = f"max(base, {sink})"
        shrunk = f"exp2(base - {most})"
        found["l"] = f"l * {shrunk} + exp2({sink} - {most})"
        factor = f"{shrunk} * rcp(l)"
    found["sAlpha"] = f"where(l > 0, {factor}, 0)"
    found["sLse"] = f"{most} * 0.6931471805599453 + log(l)"
    return found


# -- blocks ----------------------------------------------------------------------------------------

LISTED, COUNTS, FULLS, ORDER = "listed", "counts", "fulls", "order"
_OF_QUERIES, _OF_KEYS = "query_blocks", "key_blocks"


def walk(data: dict[str, Any], variant: Variant, layout: Layout = ROWS) -> None:
    """Blocks from a list for each output tile: of keys for one of queries, or turned. No formula
    says how much work a tile is: lists have those with the most first, and CTAs claim them.
    """
    of_tiles, of_blocks, extent, what = _OF_QUERIES, _OF_KEYS, "seq_q", "keys"
    if layout.turned:
        of_tiles, of_blocks, extent, what = of_blocks, of_tiles, "seq_k", "queries"
    shape = [*(EXTENTS[name] for name in listed_along(variant)), of_tiles]
    arrays = {
        COUNTS: {"shape": shape, "dtype": "i32", "about": f"how many blocks of {what} there are"},
        FULLS: {"shape": shape, "dtype": "i32", "about": "how many are kept whole: the first"},
        ORDER: {"shape": shape, "dtype": "i32", "about": "of which tile: longest first"},
        LISTED: {"shape": [*shape, of_blocks], "dtype": "i32", "about": "which ones"},
    }
    data["arguments"] = arrays | data["arguments"]
    tiles = {of_tiles: extent}
    walk = {"list": LISTED, "count": COUNTS, "full": FULLS, "order": ORDER, "tiles": tiles}
    data["loops"] |= {"walk": walk, "claim": "dynamic"}
