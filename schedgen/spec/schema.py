"""The shape of a spec file: pydantic models that check structure before any value is computed.

Expressions stay text here. ``schedgen schema`` prints `json_schema` for editors.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import Field
from pydantic.json_schema import GenerateJsonSchema

from schedgen.operations import Operation, Store
from schedgen.operations.fields import Arithmetic, Identifier, Model, Range, Scalar, Word
from schedgen.spec.loop_models import FollowedTiles, WalkedBlocks
from schedgen.tensors import tile_number


class Parameter(Model):
    """A named value: give it a ``default``, let the solver ``choose``, or ``derive`` it."""

    default: Scalar | None = Field(None, description="its value", examples=[128, "3/4", "bf16"])
    values: list[Scalar] | None = Field(
        None,
        min_length=1,
        description="the only values allowed, also of what is derived",
        examples=[[64, 128]],
    )
    on: dict[str, Scalar] | None = Field(
        None,
        description="another default for a target, by its name, or the only choice there",
        examples=[{"h200": 64}],
    )
    choose: list[Scalar] | None = Field(
        None, min_length=1, description="candidates for the solver, preferred ones first"
    )
    derive: Arithmetic | None = Field(
        None,
        description="expression over parameters without 'derive', or declared earlier",
        examples=["ceil(tile_n / 2)"],
    )
    about: str = Field("", description="free text")


class Argument(Model):
    """A tensor that the caller passes or, with an empty shape, a scalar."""

    shape: list[Identifier] = Field(
        description="symbolic extents, outermost first", examples=[["batch", "m", "k"], []]
    )
    dtype: Arithmetic = Field(description="data type of an element", examples=["bf16", "f32"])
    tiled: list[Identifier] | None = Field(
        None,
        min_length=1,
        max_length=2,
        description="extents along which the rows and columns of a tile lie; else the last ones",
        examples=[["seq_q", "head_dim"]],
    )
    whole: Arithmetic = Field(
        True, description="false: what no output tile stores is undefined, which is no mistake"
    )
    transposed: Arithmetic = Field(False, description="true exchanges the last two extents")
    only: Arithmetic = Field(True, description="false leaves the argument out of the kernel")
    about: str = Field("", description="free text")


class RaggedExtent(Model):
    """An extent whose size differs along another one: an array of integers says how."""

    of: Identifier = Field(description="extent of whose elements each has a size of its own")
    starts: Identifier | None = Field(
        None,
        description="i32 argument with one extent: where the elements of each number begin in "
        "packed tensors, and behind that where the last ones end",
    )
    ends: Identifier | None = Field(
        None,
        description="i32 argument along 'of': where the elements of each number end in packed "
        "tensors; those of the first one begin at 0",
    )
    packed: Identifier | None = Field(
        None,
        description="with starts or ends: the extent of tensors that hold them behind each other",
    )
    lengths: Identifier | None = Field(
        None, description="i32 argument along 'of': sizes, in tensors with room for the largest"
    )
    table: Identifier | None = Field(
        None,
        description="with lengths: i32 argument along 'of' and an extent of its own, which pages "
        "hold the elements of each number, in order",
    )
    pages: Identifier | None = Field(
        None, description="with table: the extent of tensors along which there are pages"
    )
    page: Identifier | None = Field(
        None,
        description="with table: the extent along which the elements of a page lie, and the "
        "parameter that says how many; 0: there are no pages",
    )
    about: str = Field("", description="free text")


class Dimension(Model):
    """Replication: ``count`` instances, or ``sizes`` of the parts of a buffer's axis."""

    count: Arithmetic | None = Field(None, description="number of instances or equal parts")
    sizes: list[Arithmetic] | None = Field(
        None,
        min_length=1,
        description="extents of the parts; those of size 0 do not exist",
        examples=[["keys * 3/4", "keys / 4"]],
    )
    about: str = Field("", description="free text")


class Split(Model):
    """The dimensions that cut a buffer into pieces."""

    rows: Identifier | None = Field(default=None, description="dimension that cuts the rows")
    columns: Identifier | None = Field(default=None, description="dimension that cuts the columns")


class Buffer(Model):
    """Storage of a tile (two extents) or of a value per row (one extent)."""

    space: Arithmetic = Field(description="smem, tmem or registers")
    shape: list[Arithmetic] = Field(
        min_length=1,
        max_length=2,
        description="rows, or rows and columns",
        examples=[[128], ["tile_m", "tile_n / slices"]],
    )
    dtype: Arithmetic = Field("f32", description="data type of an element")
    transposed: Arithmetic = Field(False, description="true exchanges the two extents")
    per: list[Identifier] = Field(
        default_factory=list[Identifier], description="dimensions with one buffer per instance"
    )
    split: Split = Field(default_factory=Split, description="dimensions that cut it into pieces")
    depth: Arithmetic | Range = Field(
        1, description="slots: a number, [low, high] or auto", examples=[2, [2, 4], "auto"]
    )
    lives: Literal["iteration", "tile"] = Field(
        "iteration", description="whether the next iteration or the next tile takes the next slot"
    )
    alias: Word | Annotated[list[Word], Field(min_length=1)] | None = Field(
        None,
        description="whose bytes it shares: own, front, other, auto or none, and a buffer; "
        "auto and lists leave the choice to the solver",
        examples=["own S", "auto S", ["own S", "none"]],
    )
    initial: Arithmetic | None = Field(
        None, description="value at the start of a tile: a number, inf or -inf"
    )
    hazards: Arithmetic = Field(
        True, description="false ignores the reuse of this storage (for experiments)"
    )
    only: Arithmetic = Field(True, description="false leaves the buffer out of the kernel")
    about: str = Field("", description="free text")


class Ring(Model):
    """Slots that several buffers fill in turn, in the order of the list."""

    buffers: list[Identifier] = Field(min_length=1, description="what fills the slots")
    depth: Arithmetic | Range = Field("auto", description="slots: a number, [low, high] or auto")
    lag: Literal["auto"] | list[Arithmetic] = Field(
        "auto", description="iterations by which each buffer lags", examples=[[0, 1], [0, "auto"]]
    )
    apart: Arithmetic = Field(
        False,
        description="true: as many rings as each buffer has instances, which its first instances "
        "fill, its second ones, and so on",
    )
    only: Arithmetic = Field(True, description="false: its buffers have slots of their own")


class Loops(Model):
    """The main loop, and the output tiles around it."""

    trips: Arithmetic = Field(
        description="nominal iterations of the main loop; they size the tile schedule",
        examples=["ceil(k / tile_k)"],
    )
    tile_trips: Arithmetic | None = Field(
        None,
        description="how many of them an output tile needs, at least 1: a formula of extents, "
        "tile_row, tile_column and tile_X of an extent X; more than there are means all",
        examples=["ceil((tile_row + 1) * tile_m / tile_k)"],
    )
    tile_first: Arithmetic | None = Field(
        None,
        description="how many of those an output tile leaves out at the beginning: a formula like "
        "that of tile_trips; less than 0 means none, and one iteration is always left",
        examples=["(tile_row * tile_m - window) // tile_k"],
    )
    tile_when: Arithmetic | None = Field(
        None,
        description="whether an output tile is computed at all: a condition of what tile_trips may "
        "name; nothing of one that is not is loaded or stored",
        examples=["tile_part * part_k < k"],
    )
    walk: WalkedBlocks | None = Field(
        None,
        description="arrays with the blocks that each output tile takes, instead of all of them",
        examples=[{"list": "blocks", "count": "counts", "tiles": {"row_blocks": "seq_q"}}],
    )
    split_k: Identifier | None = Field(
        None,
        description="an extent of the results whose tiles share the main loop: the one at c takes "
        "the iterations from c * trips on, or those that tile_first and tile_trips say",
    )
    one_tile: list[Identifier] = Field(
        default_factory=list[Identifier],
        description="extents of the results that a single tile covers: larger tensors are refused",
        examples=[["n"]],
    )
    claim: Arithmetic | None = Field(
        None,
        description="how CTAs come to output tiles: fixed (CTA b of n computes b, b + n, ...), "
        "dynamic (whenever a CTA begins one it draws the next one from a counter) or launch (a "
        "CTA for each, in the order in which the hardware starts them)",
        examples=["dynamic", "where(causal, dynamic, fixed)"],
    )
    persistent: Arithmetic | None = Field(
        None, description="whether a CTA computes several tiles: false is claim: launch"
    )
    teams: dict[Identifier, Arithmetic] = Field(
        default_factory=dict[Identifier, Arithmetic],
        description="how many warpgroups compute output tiles in turn (ping-pong), by the role "
        "that each has: one multiplies while another one is at what comes after the loop",
        examples=[{"epilogue": 2}],
    )
    tiles: Arithmetic = Field(
        "all",
        description="tiles to compute: all, lower_triangle, or dense: those of each number behind "
        "each other, where a ragged extent is cut into tiles",
        examples=["lower_triangle", "dense", "where(symmetric, lower_triangle, all)"],
    )
    tells: Identifier | None = Field(
        None,
        description="i32 argument in which each output tile counts itself once all that it stores "
        "is there, so that the next kernel need not wait for the others: zeros before a launch, "
        "along extents of which each output tile has one element",
        examples=["done"],
    )
    follows: FollowedTiles | None = Field(
        None,
        description="output tiles wait for those that they read of the kernel before, which "
        "counts them, and not for its end",
        examples=[{"words": "done", "tiles": "n_tiles"}],
    )
    groups: dict[Identifier, Identifier] = Field(
        default_factory=dict[Identifier, Identifier],
        description="extents of which several neighbouring output tiles share an element: "
        "that extent, and the one of the output that is divided into groups",
        examples=[{"heads_k": "heads"}],
    )
    counted: dict[Identifier, Identifier] = Field(
        default_factory=dict[Identifier, Identifier],
        description="extents that count output tiles, or iterations, in tensors of which each has "
        "the elements of its own, and the extents that tiles are cut along, or iterations walk",
        examples=[{"n_tiles": "n"}],
    )
    counted_by: dict[Identifier, Identifier] = Field(
        default_factory=dict[Identifier, Identifier],
        description="of those, extents of which a tile or an iteration has several elements, and "
        "the dimension that numbers them",
        examples=[{"n_blocks": "half"}],
    )
    counted_in: dict[Identifier, Arithmetic] = Field(
        default_factory=dict[Identifier, Arithmetic],
        description="of those, extents of which what is counted has several elements, which the "
        "tile lies along, and how many",
        examples=[{"k_rows": 32}],
    )


class Operations(Model):
    """What is computed: read in order, one after the other, the lists give the kernel's meaning."""

    before: list[Operation] = Field(
        default_factory=list[Operation], description="once per tile, before the main loop"
    )
    body: list[Operation] = Field(min_length=1, description="in each iteration of the main loop")
    after: list[Operation] = Field(
        default_factory=list[Operation], description="once per tile, after the main loop"
    )


class Order(Model):
    """A fixed issue order over one period."""

    sequence: list[str] = Field(
        min_length=2,
        description="operations; PV[0]@1 is the instance of one iteration earlier",
        examples=[["PV[0]@1", "QK[0]"]],
    )
    each: Identifier | None = Field(
        None, description="a dimension: an order for each of its instances, which is not written"
    )
    through: Identifier | None = Field(
        None, description="a dimension: one order through all of its instances, one by one"
    )
    only: Arithmetic = Field(True, description="false ignores the order")


class SpecFile(Model):
    """A kernel: what it computes tile by tile and in which memory, not when."""

    schedgen: Literal[1] = Field(description="version of the spec language")
    kernel: Identifier = Field(description="name of the kernel")
    about: str = Field("", description="free text")
    targets: list[Word] = Field(min_length=1, description="machine models that it is written for")
    parameters: dict[Identifier, Parameter] = Field(
        default_factory=dict[Identifier, Parameter], description="sizes, data types and options"
    )
    arguments: dict[Identifier, Argument] = Field(
        default_factory=dict[Identifier, Argument], description="global tensors and scalars"
    )
    ragged: dict[Identifier, RaggedExtent] = Field(
        default_factory=dict[Identifier, RaggedExtent],
        description="extents whose sizes are data: sequences of different lengths",
    )
    dimensions: dict[Identifier, Dimension] = Field(
        default_factory=dict[Identifier, Dimension], description="replication and splits"
    )
    buffers: dict[Identifier, Buffer] = Field(min_length=1, description="tiles on the chip")
    rings: dict[Identifier, Ring] = Field(
        default_factory=dict[Identifier, Ring], description="slots shared by several buffers"
    )
    loops: Loops
    operations: Operations
    orders: dict[Identifier, Order] = Field(
        default_factory=dict[Identifier, Order], description="fixed issue orders"
    )

    @property
    def stores(self) -> list[Store]:
        """All stores to arguments that there are; those that add come last, as parts of a sum say
        less of output tiles than what each of them stores.
        """
        listed = self.operations
        every = [*listed.before, *listed.body, *listed.after]
        found = [e for e in every if isinstance(e, Store) and e.to in self.arguments]
        return sorted(found, key=lambda store: store.reduce is not None)

    @property
    def tile_numbers(self) -> list[str]:
        """Names for the number of an output tile along `beside`; as of `elements.tile_numbers`."""
        declared = {*self.parameters, *self.arguments, *self.buffers}
        return [name for name in map(tile_number, self.beside) if name not in declared]

    @property
    def beside(self) -> list[str]:
        """Extents of all results in which each output tile is one element."""
        found: list[list[str]] = []
        for store in self.stores:
            result, buffer = self.arguments[store.to], self.buffers.get(store.source)
            sides = result.tiled or result.shape[-len(buffer.shape if buffer else "mn") :]
            found.append([extent for extent in result.shape if extent not in sides])
        return [x for x in (found[0] if found else []) if all(x in one for one in found)]


def json_schema(model: type[Model] = SpecFile, title: str = "schedgen spec") -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a spec file, for editors."""
    schema = _tidy(model.model_json_schema(by_alias=True))
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": title}


def _tidy(part: Any) -> Any:
    """Say what the reader does: no null, no keys but identifiers; and no titles of properties."""
    if isinstance(part, list):
        return [_tidy(item) for item in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    schema = {key: _tidy(value) for key, value in cast("dict[str, Any]", part).items()}
    if {"type": "null"} in schema.get("anyOf", []):
        options = [option for option in schema.pop("anyOf") if option != {"type": "null"}]
        schema.pop("default")
        schema |= options[0] if len(options) == 1 else {"anyOf": options}
    if "patternProperties" in schema:
        schema["additionalProperties"] = False
    if isinstance(schema.get("title"), str) and "properties" not in schema:
        schema.pop("title")
    return schema
