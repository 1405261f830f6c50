"""The kernel model: tiles, buffers and operations with every size a number.

A ``Kernel`` is what the spec file means for one target and one set of parameters. Dimensions are
unrolled (``S`` per query tile becomes ``S[0]`` and ``S[1]``), splits are unrolled into pieces, and
copies inside one memory space are gone. Everything downstream (dependences, costs, solver) reads
only these frozen values.

Vocabulary
    region   storage that is allocated as a whole: a name, a shape, a ring depth
    piece    a rectangular part of a region that operations read or write as a whole
    tenant   a region that may live in the storage of another one (its host) for part of the time
    ring     slots that several regions fill in turn (keys and values sharing one ring of stages)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from schedgen.errors import Location
from schedgen.expressions import Expression
from schedgen.layouts import DTYPE_BITS, panel_bytes
from schedgen.tensors import Argument, GridAxis, Place, Ragged, Walk


class Space(StrEnum):
    """Memory spaces of an SM."""

    SMEM = "smem"
    TMEM = "tmem"
    REGISTERS = "registers"


class Phase(StrEnum):
    """Where an operation stands relative to the main loop of a tile."""

    BEFORE = "before"
    BODY = "body"
    AFTER = "after"


class Kind(StrEnum):
    """The closed set of operation kinds."""

    LOAD = "load"
    STORE = "store"
    MMA = "mma"
    REDUCE = "reduce"
    SCAN = "scan"
    MAP = "map"
    COPY = "copy"
    MASK = "mask"
    GATHER = "gather"
    LAND = "land"


LOADS = (Kind.LOAD, Kind.GATHER)
"""Kinds that bring tiles of tensors to shared memory."""
GATHERS = (Kind.GATHER, Kind.LAND)
"""Kinds that threads copy rows with: what begins copies, and what waits for them."""


@dataclass(frozen=True, slots=True)
class Depth:
    """Allowed number of slots of a ring, both ends included."""

    low: int
    high: int

    @property
    def fixed(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class AliasOption:
    """One way to store a region: in bytes of its own (``host`` is None) or inside a host's slot.

    ``column`` is the offset inside the host in bytes of a row. With ``skew`` s the tenant's version
    j uses the slot of the host's version j + s, after that version has been read.
    """

    host: str | None = None
    column: int = 0
    skew: int = 0


OWN_STORAGE = AliasOption()


@dataclass(frozen=True, slots=True)
class Region:
    """Storage of one tile: ``shape`` elements of ``dtype`` in ``space``, ``depth`` slots.

    ``per_tile`` storage keeps its slot for a whole output tile; otherwise the slot advances each
    iteration. ``hazards`` False drops the anti and output dependences of this storage (an
    experiment, never a default).
    """

    name: str
    base: str
    space: Space
    shape: tuple[int, ...]
    dtype: str
    depth: Depth
    per_tile: bool = False
    options: tuple[AliasOption, ...] = (OWN_STORAGE,)
    ring: str | None = None
    initial: str | None = None
    hazards: bool = True

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (of one element for a vector, which has a value per row)."""
        columns = self.shape[1] if len(self.shape) == 2 else 1
        return -(-columns * DTYPE_BITS[self.dtype] // 8)

    @property
    def slot_bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def tmem_columns(self) -> int:
        """32-bit tensor-memory columns of one slot."""
        return -(-self.row_bytes // 4)

    def panels(self, piece: Piece) -> list[tuple[int, int]]:
        """The bytes of a slot in shared memory that ``piece`` lies in, panel by panel."""
        width = panel_bytes(self.row_bytes)
        first, end = piece.byte0 // width, -(-piece.byte1 // width)
        return [
            ((n * self.rows + piece.row0) * width, (n * self.rows + piece.row1) * width)
            for n in range(first, end)
        ]

    @property
    def registers(self) -> int:
        """32-bit registers per thread of one slot, one row (or part of one) per thread of a
        warpgroup.
        """
        return max(1, -(-self.slot_bytes // (4 * 128)))

    @property
    def guest(self) -> bool:
        """Whether it has no storage of its own, wherever it is put."""
        return all(option.host is not None for option in self.options)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows [row0, row1) and bytes [byte0, byte1) of each row of a region."""

    name: str
    region: str
    row0: int
    row1: int
    byte0: int
    byte1: int

    @property
    def bytes(self) -> int:
        return (self.row1 - self.row0) * (self.byte1 - self.byte0)

    def overlaps(self, other: Piece, *, shift: int = 0) -> int:
        """Bytes that both pieces cover when this one is moved ``shift`` bytes along the row."""
        rows = min(self.row1, other.row1) - max(self.row0, other.row0)
        width = min(self.byte1 + shift, other.byte1) - max(self.byte0 + shift, other.byte0)
        return max(rows, 0) * max(width, 0)


@dataclass(frozen=True, slots=True)
class Ring:
    """Slots filled in turn by ``regions``; region i lags ``lags[i]`` iterations behind its place in
    the list.

    ``lags`` holds the choices: one tuple of lags per alternative.
    """

    name: str
    regions: tuple[str, ...]
    depth: Depth
    lags: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A piece that an operation reads; ``distance`` iterations after it was written."""

    piece: str
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation does, as numbers a machine model can price. Lane counts are summed over the
    tile. ``element_bytes`` is the size of an element of the operands of a product.

    ``apart`` is 1 for a sum along rows whose parts may stay apart in the threads that share a row,
    ``combined`` counts such sums that an operation reads (`schedgen.spec.apart`).
    """

    rows: int = 0
    columns: int = 0
    m: int = 0
    n: int = 0
    k: int = 0
    bytes: int = 0
    row_bytes: int = 0
    fma: int = 0
    alu: int = 0
    mufu: int = 0
    row_steps: int = 0
    converts: int = 0
    tmem_in: int = 0
    tmem_out: int = 0
    smem_in: int = 0
    smem_out: int = 0
    a_bytes: int = 0
    b_bytes: int = 0
    element_bytes: int = 0
    apart: int = 0
    combined: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """One tile operation of the kernel, one instance of its dimensions.

    ``reads`` and ``writes`` name pieces; ``operands`` says which pieces each name in the spec
    stands for. ``formulas`` gives each output its expression. ``boundary`` operations run only in
    peeled iterations (masks), not in the steady state. ``unit``, ``cycles``, ``latency``, ``role``
    are None unless the spec pins them.

    ``places`` says for each axis of ``tensor`` where the tile of a load or store lies; for
    operations whose formulas use coordinates, where the rows and the columns of what they write
    lie. It is empty if the spec does not tell. ``fill`` is what a mask writes, ``polynomial`` the
    share of exponentials of tiles that a polynomial computes. ``reduction`` is "add" of a store
    that adds to its tensor, maybe ``unordered``, or in ``turns`` that this argument tells.
    ``interleave``: parts of factors that a copy has take turns. ``as_results``: a product takes
    columns of its left operand in the order in which threads have results (`schedgen.exchanges`).
    """

    name: str
    base: str
    kind: Kind
    phase: Phase
    reads: tuple[Read, ...]
    writes: tuple[str, ...]
    index: tuple[int, ...] = ()
    tensor: str | None = None
    reduction: str | None = None
    transposed: bool = False
    unordered: bool = False
    turns: str = ""
    formulas: tuple[tuple[str, Expression], ...] = ()
    operands: tuple[tuple[str, tuple[str, ...]], ...] = ()
    spaces: tuple[tuple[str, str], ...] = ()
    work: Work = Work()
    when: Expression | None = None
    boundary: bool = False
    places: tuple[Place, ...] = ()
    transpose_a: bool = False
    transpose_b: bool = False
    accumulate: bool = False
    as_results: bool = False
    fill: str | None = None
    interleave: int = 0
    polynomial: Fraction = Fraction(0)
    label: str = ""
    unit: str | None = None
    cycles: int | None = None
    latency: int | None = None
    role: str | None = None

    def operand_space(self, operand: str) -> str:
        """Memory space of the named operand (``a``, ``b``, ``d``, ``from``, ``to``), '' if it has
        none.
        """
        return dict(self.spaces).get(operand, "")

    @property
    def scaled(self) -> bool:
        """Whether a product has factors of blocks along k."""
        return "scale_a" in dict(self.operands)

    @property
    def turned(self) -> str:
        """The operand of a transposed copy that has its threads' rows as columns, '' if there is
        none: the one in shared memory, where threads reach elements of each other.
        """
        if not self.transposed or self.kind is not Kind.COPY:
            return ""
        sides = [n for n in ("to", "from") if self.operand_space(n) == Space.SMEM.value]
        return sides[0] if sides else ""


@dataclass(frozen=True, slots=True)
class Order:
    """A fixed issue order: operation names with the iteration each belongs to, cyclic over a
    period.
    """

    name: str
    sequence: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel for one target with every parameter bound. ``trips`` is the nominal main-loop trip
    count, ``trip_count`` gives the one of a problem from the extents of its tensors, ``tile_trips``
    how many of them a single output tile needs, which is at least 1 and may be more than there are,
    ``tile_first`` how many of these it leaves out at the beginning: never all; below 0 means none.
    ``grid`` has the axes that output tiles are cut along, outermost first; ``tiles`` says which are
    computed, if ``tile_when`` holds; rows and columns of one lie along ``tile_extents``. Along
    extents of ``one_tile`` there is a single one; ``split`` ones share the iterations by formulas.
    Sizes of ``ragged`` extents, and iterations of a ``walk``, come from arrays. ``claim``: how
    CTAs come to output tiles, ``teams``: how many warpgroups take them in turn, by role; ``tells``
    and ``follows``: words of kernels that follow each other (`schedgen.following`). What the spec
    left to the target is ``decided``, ``locations`` has where sections are in its file.
    """

    name: str
    target: str
    spec_file: str
    spec_sha256: str
    parameters: tuple[tuple[str, str], ...]
    choices: tuple[tuple[str, str], ...]
    regions: tuple[Region, ...]
    pieces: tuple[Piece, ...]
    rings: tuple[Ring, ...]
    operations: tuple[Operation, ...]
    orders: tuple[Order, ...] = ()
    trips: int = 1
    claim: str = "fixed"
    elided: tuple[tuple[str, str], ...] = field(default=())
    arguments: tuple[Argument, ...] = ()
    trip_count: Expression | None = None
    tile_trips: Expression | None = None
    tile_first: Expression | None = None
    tile_when: Expression | None = None
    grid: tuple[GridAxis, ...] = ()
    tile_extents: tuple[str, str] = ("", "")
    tiles: str = "all"
    split: str = ""
    one_tile: tuple[str, ...] = ()
    teams: tuple[tuple[str, int], ...] = ()
    ragged: tuple[Ragged, ...] = ()
    walk: Walk | None = None
    tells: str = ""
    follows: tuple[str, Expression] | None = None
    decided: tuple[str, ...] = ()
    locations: Mapping[tuple[str, str], Location] = field(
        default_factory=dict[tuple[str, str], Location], compare=False, repr=False
    )

    @cached_property
    def region(self) -> dict[str, Region]:
        return {region.name: region for region in self.regions}

    @cached_property
    def piece(self) -> dict[str, Piece]:
        return {piece.name: piece for piece in self.pieces}

    @cached_property
    def operation(self) -> dict[str, Operation]:
        return {operation.name: operation for operation in self.operations}

    @cached_property
    def ring(self) -> dict[str, Ring]:
        return {ring.name: ring for ring in self.rings}

    @cached_property
    def body(self) -> tuple[Operation, ...]:
        """The operations of the steady state, in the order in which the spec lists them."""
        return tuple(o for o in self.operations if o.phase is Phase.BODY and not o.boundary)

    @cached_property
    def outer(self) -> tuple[Operation, ...]:
        """The operations that run once per tile, before or after the main loop."""
        return tuple(o for o in self.operations if o.phase is not Phase.BODY)

    @property
    def tile_range(self) -> tuple[Expression, ...]:
        """The formulas that say which iterations an output tile has, if it is not all of them."""
        return tuple(f for f in (self.tile_trips, self.tile_first) if f is not None)

    def region_of(self, piece: str) -> Region:
        return self.region[self.piece[piece].region]

    @cached_property
    def products(self) -> int:
        """Multiply-adds of one iteration of the main loop, which make tile sizes comparable."""
        return sum(o.work.m * o.work.n * o.work.k for o in self.body)
