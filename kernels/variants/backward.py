"""The specs of a variant's gradients: of keys and values, and of queries, edited as data.

    of_keys(data of attention_bwd_kv, variant), of_queries(data of attention_bwd_q, variant)
    of_all(data of attention_bwd, variant)

The last one has all gradients in one walk, of five products; its tiles are those of keys. All
compute the exponentials of scores again, so the mask and what a score becomes stand in all of them,
in coordinates that are turned where tiles have keys as rows. What is not kept
has an exponential of 0. Where a score becomes something else the gradient of the product is that of
the score times the derivative of its formula, which is multiplied into the gradient of the
exponentials before these are computed: no other tile has to be kept for it.

Sinks change nothing here: they are in the logarithms of sums, and so are their gradients
(`schedgen.kernels.variants.gradients`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from schedgen.expressions import (
    Binary,
    Boolean,
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

KEYS, QUERIES, WHOLE = "attention_bwd_kv", "attention_bwd_q", "attention_bwd"
PACKED_KEYS, PACKED_QUERIES = "attention_varlen_bwd_kv", "attention_varlen_bwd_q"
PACKED_WHOLE = "attention_varlen_bwd"
OF_KEYS = Layout("keys", "queries", turned=True)
"""Tiles of keys walk queries."""
OF_QUERIES = Layout("queries", "keys", bounds=("column < seq_k",))
"""Tiles of queries walk keys."""
_OF_SCORES = "(scale * 0.6931471805599453)"
"""What gradients of products are multiplied by at the end, where scores stay: the softmax scale."""
_KNOWN = {
    "causal": True, "early": False, "left == 'registers'": True, "left == 'tmem'": False,
}  # fmt: skip
"""What `attention_bwd` asks of its parameters, on Hopper with a causal mask."""


@dataclass(frozen=True)
class Registers:
    """What registers of a spec are called, and its first product.

    Attributes:
        first: the first product of an iteration.
        gradient: what the gradients of scores are computed in.
        read: those of exponentials, when they are in registers.
        beside: what else the operation that computes gradients writes.
        over: dimensions of what is computed of a score.
        most: exponents are limited to this; empty: they are not.
    """

    first: str
    gradient: str
    read: str = "rdP"
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    over: tuple[str, ...] = ("part",)
    most: str = ""


ALL = Registers("KQ", "rDS", "dP", {"rP": "rS"}, ("part", "band"), most="0")
"""Of all gradients in one walk."""


def of_keys(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of the spec of the gradients of keys and values."""
    data = _edited(base, variant, OF_KEYS, Registers("KQ", "rdS"))
    if base.get(
        "ragged"
    ):  # with a mask of 64 columns the compiler serializes products beside a claim
        data["loops"]["claim"] = "where(left == 'registers' and head_dim != 64, dynamic, fixed)"
    _at_the_end(data, variant, "EPK", "dK")
    return data


def of_queries(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of the spec of the gradient of queries."""
    data = _edited(base, variant, OF_QUERIES, Registers("QK", "rdP"))
    _at_the_end(data, variant, "EPI", "dQ")
    return data


def of_all(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of the spec of all gradients, for which tiles of keys add to that of queries.

    It is that of a causal mask, edited; but which keys there are is asked of no mask, so exponents
    are at most 0: behind the last key nothing is infinite, which the zeros of k there would not
    make 0.
    """
    data = _edited(_on_hopper(base), variant, OF_KEYS, ALL)
    _at_the_end(data, variant, "EPK", "dK")
    return data


EDITS = {
    KEYS: of_keys,
    QUERIES: of_queries,
    WHOLE: of_all,
    PACKED_KEYS: of_keys,
    PACKED_QUERIES: of_queries,
    PACKED_WHOLE: of_all,
}
"""By the names of the specs that are edited."""


def _on_hopper(base: Mapping[str, Any]) -> dict[str, Any]:
    """The data of `attention_bwd` with what it has there with a causal mask, and nothing else."""
    data: dict[str, Any] = deepcopy(dict(base))
    data["targets"] = [target for target in data["targets"] if target == "h200"]
    del data["parameters"]["early"]
    for part in ("arguments", "buffers", "rings", "orders"):
        entries = ((name, _settled(one)) for name, one in data[part].items())
        data[part] = {name: one for name, one in entries if one is not None}
    for part, listed in data["operations"].items():
        data["operations"][part] = [one for one in map(_settled, listed) if one is not None]
    return data


def _settled(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """An entry without a condition that is known; None if it is not there."""
    found = dict(entry)
    if "only" not in found:
        return found
    condition = parse(str(found["only"]))
    for text, there in _KNOWN.items():
        condition = replaced(condition, parse(text), Boolean(there))
    condition = fold(condition, {})
    if not isinstance(condition, Boolean):
        return found | {"only": render(condition)}
    del found["only"]
    return found if condition.value else None


def _edited(
    base: Mapping[str, Any], variant: Variant, layout: Layout, registers: Registers
) -> dict[str, Any]:
    """What all have in common."""
    data: dict[str, Any] = deepcopy(dict(base))
    data["kernel"] = f"{NAME}{data['kernel'].removeprefix('attention')}"
    data["about"] = "gradients of a variant of attention, made of expressions"
    del data["parameters"]["causal"]
    arguments(data, variant)
    _loads(data, variant, layout, registers)
    in_mask, elsewhere = split(variant, layout)
    _mask(data, in_mask, blocks=variant.blocks)
    if layout.turned and variant.score is not None:
        # A score of queries behind the end may be anything, such as an infinite one, which does not
        # become 0 by what it is multiplied by. A product that stays is 0 there.
        elsewhere = [*elsewhere, parse("column < seq_q")]
    body: list[dict[str, Any]] = data["operations"]["body"]
    score, factor = _scores(data, variant, layout, registers.over)
    value = f"{render(Binary('*', score, Name('scale')))} - sLse"
    value = f"exp2(min({value}, {registers.most}))" if registers.most else f"exp2({value})"
    if elsewhere:
        value = f"where({render(joined(elsewhere))}, {value}, 0)"
    put(body, "EXP", {"to": {"rS": value}})
    if factor != ONE:
        loaded = [one for one in body if one["id"] == "LDP"]
        body[:] = [one for one in body if one["id"] != "LDP"]
        for one in loaded:
            insert(body, one, before="EXP")
        only = {key: one[key] for one in loaded for key in one.keys() & {"only"}}
        read = registers.read
        made = {read: f"({read} - sDelta) * ({render(factor)})"}
        _insert(data, "DER", made, registers.over, **only)
        # what is not kept may have any derivative, also one that is no number
        made = {**registers.beside, registers.gradient: f"where(rS > 0, rS * {read}, 0)"}
        put(body, "GRAD", {"to": made})
    for key in ("tile_first", "tile_trips"):
        data["loops"].pop(key, None)
    if variant.blocks:
        walk(data, variant, layout)
    else:
        data["loops"] |= iterations(variant, in_mask, elsewhere, layout)
    return data


def _loads(data: dict[str, Any], variant: Variant, layout: Layout, registers: Registers) -> None:
    """Elements of vectors along rows or columns of tiles, as the specs have those of ``lse``."""
    for vector in variant.vectors:
        name = buffer(vector)
        load = {"id": f"L_{vector.argument}", "kind": "load", "from": vector.argument, "to": name}
        if vector.along == layout.fixed:
            shape: dict[str, Any] = {"space": "smem", "shape": [layout.block], "lives": "tile"}
            shape |= {"split": {"rows": "band"}} if "band" in registers.over else {}
            data["operations"]["before"].append(load)
        elif vector.along is not None:
            shape = {"space": "smem", "shape": [1, layout.step], "depth": "auto"}
            shape["split"] = {"columns": "part"}
            insert(data["operations"]["body"], load, before=registers.first)
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
    data: dict[str, Any], variant: Variant, layout: Layout, over: tuple[str, ...]
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
    _insert(data, "VALUE", {"rS": render(scored(variant, layout, Name("rS"), first))}, over)
    names = tile_names(variant.score)
    rest = (replaced(one, first, Name("rS")) for one in formulas)
    score, factor = (fold(layout.placed(one), names) for one in rest)
    return score, factor


def _insert(
    data: dict[str, Any], name: str, to: Mapping[str, str], over: tuple[str, ...], **more: Any
) -> None:
    """A formula before the exponentials."""
    made = {"id": name, "kind": "map", "over": [*over], "to": dict(to), "label": "softmax"}
    insert(data["operations"]["body"], made | more, before="EXP")


def _at_the_end(data: dict[str, Any], variant: Variant, operation: str, total: str) -> None:
    """Multiplies sums by the softmax scale, which is not in ``scale`` where scores change."""
    by = _OF_SCORES if variant.score is None else FACTOR
    for one in data["operations"]["after"]:
        if one["id"] == operation:
            one["to"] = dict.fromkeys(one["to"], f"{total} * {by}")
