"""The operations of a spec file: one model for each kind of the tile algebra."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from schedgen.spec.fields import Arithmetic, Formula, Identifier, Model, Word

Operand: TypeAlias = Annotated[
    str, Field(description="a buffer, or buffer@1 for its value one iteration earlier")
]


class OperationBase(Model):
    """What every operation may say."""

    id: Identifier = Field(description="unique name, by which orders and reports refer to it")
    over: list[Identifier] = Field(
        default_factory=list[Identifier],
        description="dimensions for each of which there is one instance",
        examples=[["tile"], ["tile", "part"]],
    )
    only: Arithmetic = Field(True, description="false leaves the operation out of the kernel")
    when: Formula | None = Field(
        None,
        description="condition at run time; a warp may skip the work where it is false. Of a "
        "load over scalar arguments: nothing is copied then, and readers take zeros",
        examples=["sAlpha < 1", "tile_row != tile_column"],
    )
    boundary: bool = Field(False, description="only in peeled iterations, not in the steady state")
    unit: Word | None = Field(
        None,
        description="unit that executes it, instead of what the machine model says",
        examples=["TMA", "Softmax{tile}"],
    )
    cycles: Arithmetic | None = Field(None, description="cycles for which it occupies its unit")
    latency: Arithmetic | None = Field(None, description="cycles from its start to its result")
    role: Word | None = Field(
        None,
        description="operations pinned to one name are issued by one role",
        examples=["producer", "softmax{tile}"],
    )
    label: str = Field("", description="name for the role that does this work, for people only")
    about: str = Field("", description="free text")


class Load(OperationBase):
    """Bulk tensor copy from a global tensor into shared memory."""

    kind: Literal["load"]
    source: Identifier = Field(alias="from", description="argument that is read")
    to: Identifier = Field(description="buffer in shared memory that is written")


class Store(OperationBase):
    """Bulk tensor copy from shared memory into a global tensor."""

    kind: Literal["store"]
    source: Identifier = Field(alias="from", description="buffer in shared memory that is read")
    to: Identifier = Field(description="argument that is written")
    transposed: bool = Field(False, description="store to the transposed place of the tensor")


class Mma(OperationBase):
    """Tensor-core product d = a * b, or d += a * b with ``accumulate``.

    a is [m, k] and b is [k, n], or [n, k] with ``transpose_b``; d is [m, n].
    """

    kind: Literal["mma"]
    a: Operand
    b: Operand
    d: Identifier = Field(description="buffer of the result")
    transpose_b: Arithmetic = Field(False, description="b is [n, k]")
    accumulate: bool = Field(False, description="add to what d holds")


class Reduce(OperationBase):
    """Reduces the columns of a tile into a value per row."""

    kind: Literal["reduce"]
    op: Literal["max", "sum"]
    source: Operand = Field(alias="from", description="tile that is reduced")
    carry: Formula | None = Field(
        None,
        description="value per row that takes part in the reduction",
        examples=["m@1", "l@1 * alpha"],
    )
    to: Identifier = Field(description="vector of the result")
    then: dict[Identifier, Formula] = Field(
        default_factory=dict[Identifier, Formula],
        description="vectors computed from the result, by formula",
        examples=[{"alpha": "exp2(m@1 - m)"}],
    )


class Map(OperationBase):
    """Element-wise formulas; a later output may use an earlier one.

    Values are f32 and are cast to the data type of the output.
    """

    kind: Literal["map"]
    to: dict[Identifier, Formula] = Field(
        min_length=1,
        description="buffers that are written, by formula",
        examples=[{"sD": "alpha * acc + beta * sC"}],
    )
    polynomial: Arithmetic = Field(
        0, description="share of exp2 computed as a polynomial on FMA units", examples=["3/16"]
    )


class Copy(OperationBase):
    """Moves a tile between memory spaces; within one space it disappears, both buffers are one."""

    kind: Literal["copy"]
    source: Operand = Field(alias="from", description="buffer that is read")
    to: Identifier = Field(description="buffer that is written")
    transposed: bool = Field(False, description="rows become columns")


class Mask(OperationBase):
    """Sets elements of a tile, in place, to ``value`` where ``keep`` is false."""

    kind: Literal["mask"]
    to: Identifier = Field(description="buffer that is masked")
    keep: Formula = Field(
        description="condition; row and column are coordinates in the global tensor",
        examples=["column < seq_k"],
    )
    value: Formula = Field("-inf", description="number, inf or -inf")


Operation: TypeAlias = Annotated[
    Load | Store | Mma | Reduce | Map | Copy | Mask, Field(discriminator="kind")
]
