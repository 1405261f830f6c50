"""The specs of a variant's gradients: of keys and values, and of queries, edited as data.

    of_keys(data of attention_bwd_kv, variant), of_queries(data of attention_bwd_q, variant)

Both compute the exponentials of scores again, so the mask and what a score becomes stand in both,
once in coordinates that are turned: tiles of `attention_bwd_kv` have keys as rows. What is not kept
has an exponential of 0. Where a score becomes something else the gradient of the product is that of
the score times the derivative of its formula, which is multiplied into the gradient of the
exponentials before these are computed: no other tile has to be kept for it.

Sinks change nothing here: they are in the logarithms of sums, and so are their gradients
(`schedgen.kernels.variants.gradients`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from schedgen.expressions import (
    Binary,
    Expression,
    Logical,
    Name,
    common,
    derivative,
    fold,
    parse,
    render,
    replaced,
)
from schedgen.expressions.derivatives import ONE
from schedgen.kernels.variants.conditions import (
    FACTOR,
    Layout,
    Variant,
    buffer,
    iterations,
    joined,
    scored,
    split,
    tile_names,
)
from schedgen.kernels.variants.reading import SCORE
from schedgen.kernels.variants.spec import NAME, arguments, insert, put, walk

KEYS, QUERIES = "attention_bwd_kv", "attention_bwd_q"
PACKED_KEYS, PACKED_QUERIES = "attention_varlen_bwd_kv", "attention_varlen_bwd_q"
OF_KEYS = Layout("keys", "queries", turned=True)
"""Tiles of keys walk queries."""
OF_QUERIES = Layout("queries", "keys", bounds=("column < seq_k",))
"""Tiles of queries walk keys."""
_OF_SCORES = "(scale * 0.6931471805599453)"
"""What gradients of products are multiplied by at the end, where scores stay: the softmax scale."""


def of_keys(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of the spec of the gradients of keys and values."""
    # what is loaded behind the queries of a packed sequence may be anything
    bounds = ("column < seq_q",) if base.get("ragged") else ()
    layout = replace(OF_KEYS, bounds=bounds)
    data = _edited(base, variant, layout, first="KQ", gradient="rdS")
    # beside a mask and 64 columns there are too few registers for both, not with 32 or 96 columns
    # or where they have none of their own
    masked = any(one["id"] == "MASK" for one in data["operations"]["body"])
    masked = masked and "guest" not in data["parameters"]
    few = f"({'head_dim == 64 or ' * masked}head_dim + head_dim_v > 192)"
    data["rings"]["halves"]["only"] = f"left == 'registers' and not alone and {few}"
    if bounds:  # with a mask of 64 columns the compiler serializes products beside a claim
        data["loops"]["claim"] = "where(left == 'registers' and head_dim != 64, dynamic, fixed)"
    _at_the_end(data, variant, "EPK", "dK")
    return data


def of_queries(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of the spec of the gradient of queries."""
    data = _edited(base, variant, OF_QUERIES, first="QK", gradient="rdP")
    _at_the_end(data, variant, "EPI", "dQ")
    return data


EDITS = {
    KEYS: of_keys,
    QUERIES: of_queries,
    PACKED_KEYS: of_keys,
    PACKED_QUERIES: of_queries,
}
"""By the names of the specs that are edited."""


def _edited(
    base: Mapping[str, Any], variant: Variant, layout: Layout, *, first: str, gradient: str
) -> dict[str, Any]:
    """What both have in common; ``first`` is the first product of an iteration, ``gradient`` the
    registers that the gradients of scores are computed in.
    """
    data: dict[str, Any] = deepcopy(dict(base))
    data["kernel"] = f"{NAME}{data['kernel'].removeprefix('attention')}"
    data["about"] = "gradients of a variant of attention, made of expressions"
    del data["parameters"]["causal"]
    arguments(data, variant)
    _loads(data, variant, layout, first)
    in_mask, elsewhere = split(variant, layout)
    _mask(data, in_mask, blocks=variant.blocks)
    if layout.turned and variant.score is not None:
        # A score of queries behind the end may be anything, such as an infinite one, which does not
        # become 0 by what it is multiplied by. A product that stays is 0 there.
        elsewhere = [*elsewhere, parse("column < seq_q")]
    body: list[dict[str, Any]] = data["operations"]["body"]
    score, factor = _scores(data, variant, layout)
    value = f"exp2({render(Binary('*', score, Name('scale')))} - sLse)"
    if elsewhere:
        value = f"where({render(joined(elsewhere))}, {value}, 0)"
    put(body, "EXP", {"to": {"rS": value}})
    if factor != ONE:
        loaded = next(one for one in body if one["id"] == "LDP")
        # DER subtracts, and GRAD sees by rS what END leaves out
        body[:] = [one for one in body if one["id"] not in ("LDP", "DIFF", "END")]
        insert(body, loaded, before="EXP")
        only = {key: loaded[key] for key in loaded.keys() & {"only"}}
        _insert(data, "DER", {"rdP": f"(rdP - sDelta) * ({render(factor)})"}, **only)
        # what is not kept may have any derivative, also one that is no number
        put(body, "GRAD", {"to": {gradient: "where(rS > 0, rS * rdP, 0)"}})
    for key in ("tile_first", "tile_trips"):
        data["loops"].pop(key, None)
    if variant.blocks:
        walk(data, variant, layout)
    else:
        data["loops"] |= iterations(variant, in_mask, elsewhere, layout)
    return data


def _loads(data: dict[str, Any], variant: Variant, layout: Layout, first: str) -> None:
    """Elements of vectors along rows or columns of tiles, as the specs have those of ``lse``."""
    for vector in variant.vectors:
        name = buffer(vector)
        load = {"id": f"L_{vector.argument}", "kind": "load", "from": vector.argument, "to": name}
        if vector.along == layout.fixed:
            shape: dict[str, Any] = {"space": "smem", "shape": [layout.block], "lives": "tile"}
            data["operations"]["before"].append(load)
        elif vector.along is not None:
            shape = {"space": "smem", "shape": [1, layout.step], "depth": "auto"}
            shape["split"] = {"columns": "part"}
            insert(data["operations"]["body"], load, before=first)
        else:
            continue
        data["buffers"][name] = shape


def _mask(data: dict[str, Any], in_mask: list[Expression], *, blocks: bool) -> None:
    """Puts the conditions of the spec's mask, or takes it away. Of a block that is full in a list
    it keeps everything, too.
    """
    body: list[dict[str, Any]] = data["operations"]["body"]
    mask = next(one for one in body if one["id"] == "MASK")
    mask.pop("only", None)
    if in_mask:
        kept = joined(in_mask)
        mask["keep"] = render(Logical("or", parse("partly < 1"), kept) if blocks else kept)
    else:
        body.remove(mask)


def _scores(
    data: dict[str, Any], variant: Variant, layout: Layout
) -> tuple[Expression, Expression]:
    """What a score is, and its derivative by the product that it is made of. What both make of the
    product first, such as its ``tanh``, is computed once, in its place.

    Raises ExpressionError: the formula has no derivative.
    """
    if variant.score is None:
        return Name("rS"), ONE
    formula = variant.score.written
    formulas = [formula, derivative(formula, SCORE)]
    first = Name(SCORE) if formulas[1] == ONE else common(formulas, SCORE)
    if first == Name(SCORE):
        score, factor = (scored(variant, layout, Name("rS"), one) for one in formulas)
        return score, factor
    _insert(data, "VALUE", {"rS": render(scored(variant, layout, Name("rS"), first))})
    names = tile_names(variant.score)
    rest = (replaced(one, first, Name("rS")) for one in formulas)
    score, factor = (fold(layout.placed(one), names) for one in rest)
    return score, factor


def _insert(data: dict[str, Any], name: str, to: Mapping[str, str], **more: Any) -> None:
    """A formula before the exponentials."""
    made = {"id": name, "kind": "map", "over": ["part"], "to": dict(to), "label": "softmax"}
    insert(data["operations"]["body"], made | more, before="EXP")


def _at_the_end(data: dict[str, Any], variant: Variant, operation: str, total: str) -> None:
    """Multiplies sums by the softmax scale, which is not in ``scale`` where scores change."""
    by = _OF_SCORES if variant.score is None else FACTOR
    for one in data["operations"]["after"]:
        if one["id"] == operation:
            one["to"] = dict.fromkeys(one["to"], f"{total} * {by}")
