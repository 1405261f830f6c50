"""What is kept of a variant's scores, in the coordinates of one of attention's specs.

What a caller's mask says is split where it is joined by ``and``. What compares sums of coordinates
goes into the mask of the spec, which costs nothing in iterations that it keeps as a whole; the rest
is asked of each element. Which iterations an output tile needs follows from both.

Callers count queries by ``row`` and keys by ``column``. A spec whose tiles have keys as rows, such
as that of the gradients of keys, has all of it turned: both names are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.codegen.errors import EmitError
from schedgen.codegen.masks import always
from schedgen.expressions import Binary, Expression, Logical, Name, fold, parse, references, render
from schedgen.expressions.ranges import Columns, Rows, columns_of
from schedgen.kernels.variants.reading import SCORE, Read, Vector, number_name

FACTOR = "factor"
CAUSAL = "column <= row + seq_k - seq_q"
_SIZES = ("seq_q", "seq_k")
_MOST = 1500
"""Characters of a formula for the range of iterations; a longer one is left out."""
_TURNED = {"row": Name("column"), "column": Name("row")}


@dataclass(frozen=True)
class Variant:
    """What distinguishes a kernel of attention from the shipped ones.

    Attributes:
        mask: what is kept; None: everything.
        score: what a score becomes; None: it stays.
        causal: whether keys after the diagonal are left out, too.
        sinks: whether each head has a logit without a value.
        whole: numbers of the caller that are whole.
        blocks: whether a list says which blocks an output tile takes.
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


@dataclass(frozen=True)
class Layout:
    """How the tiles of a spec lie over queries and keys.

    Attributes:
        block: rows of an output tile: a parameter of the spec, or a product of some.
        step: columns of an iteration.
        turned: whether rows are keys, and columns queries.
        bounds: what the spec's mask keeps of an iteration behind the end, in its coordinates.
    """

    block: str
    step: str
    turned: bool = False
    bounds: tuple[str, ...] = ()

    @property
    def fixed(self) -> str:
        """What the caller calls the coordinate along rows."""
        return "column" if self.turned else "row"

    def placed(self, expression: Expression) -> Expression:
        """A caller's expression in the coordinates of the spec."""
        return fold(expression, _TURNED) if self.turned else expression


ROWS = Layout("tiles * rows", "keys", bounds=("column < seq_k",))
"""Of the forward pass: tiles of queries walk keys."""


def buffer(vector: Vector) -> str:
    """Where elements of a vector are that is loaded."""
    return f"s_{vector.argument}"


def tile_names(read: Read) -> dict[str, Expression]:
    """Names of the spec for those of an expression: buffers where vectors are loaded. What stands
    for a vector in one expression may stand for another one in the next.
    """
    loaded = {n: v for n, v in read.vectors.items() if v.along is not None}
    return read.names | {name: Name(buffer(vector)) for name, vector in loaded.items()}


def joined(conditions: list[Expression]) -> Expression:
    """All of them."""
    first, *rest = conditions
    for other in rest:
        first = Logical("and", first, other)
    return first


def split(variant: Variant, layout: Layout = ROWS) -> tuple[list[Expression], list[Expression]]:
    """Conditions for the mask of the spec, and those that are asked of each element."""
    loaded = {buffer(vector) for vector in variant.vectors if vector.along is not None}
    in_mask: list[Expression] = []
    elsewhere: list[Expression] = []
    for condition, _ in _kept(variant, layout):
        names = {name.name for name in references(condition)}
        fits = not names & loaded and _is_sum(condition)
        (in_mask if fits else elsewhere).append(condition)
    return in_mask, elsewhere


def scored(
    variant: Variant, layout: Layout, raw: Expression, formula: Expression | None = None
) -> Expression:
    """The ``formula`` of a score, by default what it becomes, of the product ``raw``."""
    if variant.score is None:
        return raw
    written = layout.placed(variant.score.written if formula is None else formula)
    return fold(written, {**tile_names(variant.score), SCORE: Binary("*", raw, Name(FACTOR))})


def iterations(
    variant: Variant,
    in_mask: list[Expression],
    elsewhere: list[Expression],
    layout: Layout = ROWS,
) -> dict[str, str]:
    """Which iterations an output tile has, as far as conditions tell. Where the mask of the spec
    speaks of rows only what it keeps counts, since that is what the reader holds against it.
    """
    speaks = any(Name("row") in references(condition) for condition in in_mask)
    whole = frozenset({*_SIZES, *(number_name(name) for name in variant.whole)})
    first, last = f"tile_row * {layout.block}", f"(tile_row + 1) * {layout.block} - 1"
    rows = Rows(parse(first), parse(last), whole)
    counted = [given for one, given in _kept(variant, layout) if one in in_mask or not speaks]
    counted = [one for one in counted if one not in map(parse, layout.bounds)]
    if not counted:
        return {}
    found: Columns = columns_of(joined(counted), rows)
    ranges: dict[str, str] = {}
    if found.first is not None:
        ranges["tile_first"] = render(Binary("//", found.first, Name(layout.step)))
    if found.end is not None:
        ranges["tile_trips"] = f"ceil({render(Binary('/', found.end, Name(layout.step)))})"
    return {key: text for key, text in ranges.items() if len(text) <= _MOST}


def _kept(variant: Variant, layout: Layout) -> Iterator[tuple[Expression, Expression]]:
    """Conditions of what is kept: as formulas of the spec, and as they are given."""
    for text in layout.bounds:
        yield parse(text), parse(text)
    if variant.causal:
        yield layout.placed(parse(CAUSAL)), layout.placed(parse(CAUSAL))
    if variant.mask is not None:
        names = tile_names(variant.mask)
        pairs = zip(_conjuncts(variant.mask.written), _conjuncts(variant.mask.given), strict=True)
        for pair in pairs:
            written, given = (fold(layout.placed(one), names) for one in pair)
            yield written, given


def _conjuncts(node: Expression) -> Iterator[Expression]:
    match node:
        case Logical("and", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield node


def _is_sum(condition: Expression) -> bool:
    """Whether a mask of a spec can say when it keeps a whole tile."""
    try:
        always(condition, "row", "column", 1, 1)
    except EmitError:
        return False
    return True
