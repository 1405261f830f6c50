"""The spec of a variant: one of attention, such as that of packed sequences, edited as data.

What is kept is split where it is joined by ``and``. What compares sums of coordinates goes into the
mask of the spec, which costs nothing in iterations that it keeps as a whole; the rest is asked of
each element. Which iterations an output tile needs follows from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from schedgen.codegen.errors import EmitError
from schedgen.codegen.masks import always
from schedgen.expressions import Binary, Expression, Logical, Name, fold, parse, references, render
from schedgen.expressions.ranges import Columns, Rows, columns_of
from schedgen.kernels.variants.reading import EXTENTS, SCORE, Read, Vector, number_name

BASE = "attention_fwd"
NAME = "attention_variant"
NOTHING = "-1e16"
"""The score of what is not kept: far below the first maximum."""
FIRST_MAXIMUM = "-1e15"
"""In the place of -inf, so that rows of which nothing is kept so far need no special case."""
FACTOR, SINK = "factor", "sink"
_SIZES = ("seq_q", "seq_k")
_BLOCK = "tiles * rows"
_MOST = 1500
"""Characters of a formula for the range of iterations; a longer one is left out."""
_KEYS = "min(where(accumulator == 'registers' or tiles == 1, 128, 96)"
"""Fewer keys in an iteration where a row of scores is in the registers of one thread, beside what
is computed of it."""
CAUSAL = "column <= row + seq_k - seq_q"


@dataclass(frozen=True)
class Variant:
    """What distinguishes a kernel of attention from the shipped ones.

    Attributes:
        mask: what is kept; None: everything.
        score: what a score becomes; None: it stays.
        causal: whether keys after the diagonal are left out, too.
        sinks: whether each head has a logit without a value.
        whole: numbers of the caller that are whole.
        blocks: whether a list says which blocks of keys a tile of queries takes.
    """

    mask: Read | None = None
    score: Read | None = None
    causal: bool = False
    sinks: bool = False
    whole: frozenset[str] = frozenset()
    blocks: bool = False

    @property
    def reads(self) -> list[Read]:
        return [read for read in (self.mask, self.score) if read is not None]

    @property
    def vectors(self) -> list[Vector]:
        return list(dict.fromkeys(v for read in self.reads for v in read.vectors.values()))

    @property
    def numbers(self) -> list[str]:
        return sorted({name for read in self.reads for name in read.numbers})

    @property
    def names(self) -> dict[str, Expression]:
        """What stands in the spec for names of the expressions."""
        return {name: value for read in self.reads for name, value in read.names.items()}


def edited(base: Mapping[str, Any], variant: Variant) -> dict[str, Any]:
    """The data of a variant's spec; ``base`` is that of attention, or of packed sequences.

    Rows of which nothing is kept give 0 and -inf as the logarithm of their sum.
    """
    data: dict[str, Any] = deepcopy(dict(base))
    data["kernel"] = NAME
    data["about"] = "a variant of attention, made of expressions"
    del data["parameters"]["causal"]
    data["buffers"]["m"]["initial"] = FIRST_MAXIMUM
    _arguments(data, variant)
    for vector in variant.vectors:
        _load(data, vector)
    in_mask, elsewhere = _split(variant)
    _put(data["operations"]["body"], "MASK", {"keep": render(_all(in_mask))})
    score = _score(variant, elsewhere)
    if score is not None:
        data["parameters"]["keys"]["derive"] = f"{_KEYS}, {data['parameters']['keys']['derive']})"
        made = {"id": "SCORE", "kind": "map", "over": ["tile"], "label": "softmax"}
        if variant.blocks and elsewhere:
            _in_parts(data["operations"]["body"], made, variant, elsewhere)
        else:
            _insert(data["operations"]["body"], {**made, "to": {"rS": score}}, before="MASK")
    _put(data["operations"]["after"], "INV", {"to": _ends(variant)})
    del data["loops"]["tile_trips"]
    if variant.blocks:
        _walk(data, listed_along(variant))
    else:
        data["loops"] |= _iterations(variant, in_mask, elsewhere)
    return data


def opaque(variant: Variant) -> bool:
    """Whether which keys a row sees depends on elements of the caller's tensors in a way from which
    no range of iterations follows.
    """
    _, elsewhere = _split(variant)
    loaded = {_buffer(vector) for vector in variant.vectors if vector.along is not None}
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


def _arguments(data: dict[str, Any], variant: Variant) -> None:
    """Tensors before results, numbers behind the last tensor."""
    given: dict[str, Any] = data["arguments"]
    tensors = {name: one for name, one in given.items() if one["shape"]}
    numbers = {name: one for name, one in given.items() if not one["shape"]}
    for vector in variant.vectors:
        shape = [EXTENTS[index] for index in _ordered(vector)]
        tensors[vector.argument] = {"shape": shape, "dtype": "f32"}
    if variant.sinks:
        about = "logit of the head times log2(e)"
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
    name, buffer = vector.argument, _buffer(vector)
    along = {"from": name, "to": buffer}
    match vector.along:
        case "row":
            shape = {"space": "smem", "shape": ["rows"], "per": ["tile"], "lives": "tile"}
            made = {"id": f"L_{name}", "kind": "load", "over": ["tile"], **along}
            data["operations"]["before"].append(made)
        case "column":
            shape = {"space": "smem", "shape": [1, "keys"], "depth": 2}
            made = {"id": f"L_{name}", "kind": "load", **along}
            _insert(data["operations"]["body"], made, before="QK")
        case _:
            return
    data["buffers"][buffer] = shape


def _buffer(vector: Vector) -> str:
    return f"s_{vector.argument}"


# -- operations ------------------------------------------------------------------------------------


def _put(operations: list[dict[str, Any]], name: str, keys: Mapping[str, Any]) -> None:
    next(one for one in operations if one["id"] == name).update(keys)


def _insert(operations: list[dict[str, Any]], made: dict[str, Any], *, before: str) -> None:
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
        _insert(operations, {**made, "to": {"rS": score}}, before="MASK")
    kept = f"where({render(_all(elsewhere))}, rS, {NOTHING})"
    keep = {**made, "id": "KEEP", "when": "partly > 0", "to": {"rS": kept}}
    _insert(operations, keep, before="MASK")


def _tiles(variant: Variant) -> dict[str, Expression]:
    """Names of the spec for all names: buffers where vectors are loaded."""
    found = variant.names
    for read in variant.reads:
        loaded = {n: v for n, v in read.vectors.items() if v.along is not None}
        found |= {name: Name(_buffer(vector)) for name, vector in loaded.items()}
    return found


def _conjuncts(node: Expression) -> Iterator[Expression]:
    match node:
        case Logical("and", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield node


def _all(conditions: list[Expression]) -> Expression:
    first, *rest = conditions
    for other in rest:
        first = Logical("and", first, other)
    return first


def _kept(variant: Variant) -> Iterator[tuple[Expression, Expression]]:
    """Conditions of what is kept: as formulas of the spec, and as they are given."""
    for text in ("column < seq_k", *([CAUSAL] if variant.causal else [])):
        yield parse(text), parse(text)
    if variant.mask is not None:
        names = _tiles(variant)
        pairs = zip(_conjuncts(variant.mask.written), _conjuncts(variant.mask.given), strict=True)
        yield from ((fold(one, names), fold(other, names)) for one, other in pairs)


def _split(variant: Variant) -> tuple[list[Expression], list[Expression]]:
    """Conditions for the mask of the spec, and those that are asked of each element."""
    loaded = {_buffer(vector) for vector in variant.vectors if vector.along is not None}
    in_mask: list[Expression] = []
    elsewhere: list[Expression] = []
    for condition, _ in _kept(variant):
        names = {name.name for name in references(condition)}
        fits = not names & loaded and _is_sum(condition)
        (in_mask if fits else elsewhere).append(condition)
    return in_mask, elsewhere


def _is_sum(condition: Expression) -> bool:
    """Whether a mask of a spec can say when it keeps a whole tile."""
    try:
        always(condition, "row", "column", 1, 1)
    except EmitError:
        return False
    return True


def _score(variant: Variant, elsewhere: list[Expression]) -> str | None:
    """What scores become before they are masked; None if they stay."""
    value: Expression = Name("rS")
    if variant.score is not None:
        scaled = Binary("*", Name("rS"), Name(FACTOR))
        value = fold(variant.score.written, {**_tiles(variant), SCORE: scaled})
    if elsewhere:
        return f"where({render(_all(elsewhere))}, {render(value)}, {NOTHING})"
    return None if variant.score is None else render(value)


def _ends(variant: Variant) -> dict[str, str]:
    """The end of a tile: the factor of its result, and the logarithm of its sum."""
    most, factor = "m * scale", "rcp(l)"
    found: dict[str, str] = {}
    if variant.sinks:
        most = f"max(m * scale, {SINK})"
        shrunk = f"exp2(m * scale - {most})"
        found["l"] = f"l * {shrunk} + exp2({SINK} - {most})"
        factor = f"{shrunk} * rcp(l)"
    found["sAlpha"] = f"where(l > 0, {factor}, 0)"
    found["sLse"] = f"{most} * 0.6931471805599453 + log(l)"
    return found


# -- blocks ----------------------------------------------------------------------------------------

LISTED, COUNTS, FULLS = "listed", "counts", "fulls"
_OF_QUERIES, _OF_KEYS = "query_blocks", "key_blocks"


def _walk(data: dict[str, Any], along: tuple[str, ...]) -> None:
    """Blocks of keys from a list for each tile of queries. How many differs without an order that
    is known, so tiles are claimed: dealt out in turn, an SM may get long ones only.
    """
    shape = [*(EXTENTS[name] for name in along), _OF_QUERIES]
    arrays = {
        COUNTS: {"shape": shape, "dtype": "i32", "about": "how many blocks of keys there are"},
        FULLS: {"shape": shape, "dtype": "i32", "about": "how many are kept whole: the first"},
        LISTED: {"shape": [*shape, _OF_KEYS], "dtype": "i32", "about": "which ones"},
    }
    data["arguments"] = arrays | data["arguments"]
    tiles = {_OF_QUERIES: "seq_q"}
    walk = {"list": LISTED, "count": COUNTS, "full": FULLS, "tiles": tiles}
    del data["loops"]["persistent"]
    data["loops"] |= {"walk": walk, "claim": "dynamic"}


# -- iterations ------------------------------------------------------------------------------------


def _iterations(
    variant: Variant, in_mask: list[Expression], elsewhere: list[Expression]
) -> dict[str, str]:
    """Which iterations an output tile has, as far as conditions tell. Where the mask of the spec
    speaks of rows only what it keeps counts, since that is what the reader holds against it.
    """
    speaks = any(Name("row") in references(condition) for condition in in_mask)
    whole = frozenset({*_SIZES, *(number_name(name) for name in variant.whole)})
    rows = Rows(parse(f"tile_row * {_BLOCK}"), parse(f"(tile_row + 1) * {_BLOCK} - 1"), whole)
    counted = [given for one, given in _kept(variant) if one in in_mask or not speaks]
    counted = [one for one in counted if one != parse("column < seq_k")]
    if not counted:
        return {}
    found: Columns = columns_of(_all(counted), rows)
    ranges: dict[str, str] = {}
    if found.first is not None:
        ranges["tile_first"] = render(Binary("//", found.first, Name("keys")))
    if found.end is not None:
        ranges["tile_trips"] = f"ceil({render(Binary('/', found.end, Name('keys')))})"
    return {key: text for key, text in ranges.items() if len(text) <= _MOST}
