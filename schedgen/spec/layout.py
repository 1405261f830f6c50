"""Buffers of a spec become regions and pieces with numbers for sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from schedgen.errors import suggest
from schedgen.kernel import Depth, Piece, Region, Space
from schedgen.layouts import DTYPE_BITS, TMEM_LANES
from schedgen.spec.dimensions import MAX_INSTANCES, Dimensions, Index, check_names, instance_name
from schedgen.spec.schema import Buffer, SpecFile
from schedgen.spec.values import Path, Scope

AUTO_DEPTH = Depth(1, 8)
MAX_DEPTH = 64
MAX_EXTENT = 1 << 16
MAX_SLOT_BYTES = 1 << 24  # much more than any SM has, and a spec never means it


class Layout:
    """Regions and pieces of every buffer that exists for the chosen parameters.

    Attributes:
        regions: by name, in the order of the file.
        pieces: of each region, by name.
        present: the buffers that exist.
        broken: buffers with mistakes, which what uses them must not report again.
        names: regions of each buffer that exists.
    """

    def __init__(self, spec: SpecFile, scope: Scope, dimensions: Dimensions) -> None:
        self.spec = spec
        self.scope = scope
        self.dimensions = dimensions
        self.regions: dict[str, Region] = {}
        self.pieces: dict[str, dict[str, Piece]] = {}
        self.present: dict[str, Buffer] = {}
        self.broken: set[str] = set()
        self.names: dict[str, list[str]] = {}
        self._ring_of = {b: name for name, ring in spec.rings.items() for b in ring.buffers}
        self._count = 0
        for name, buffer in spec.buffers.items():
            before = scope.errors
            if scope.truth(buffer.only, ("buffers", name, "only")):
                self._add(name, buffer)
            if scope.errors > before:
                self.broken.add(name)

    def rank(self, name: str) -> int:
        """Return 1 for a value per row, 2 for a tile."""
        return len(self.present[name].shape)

    def selected(self, name: str, index: Index) -> list[Piece]:
        """Return the pieces of buffer ``name`` that an operation with ``index`` touches.

        Those are its own part of an axis that is split along one of the operation's dimensions,
        and otherwise all parts.
        """
        buffer = self.present[name]
        here = [index[dim] for dim in buffer.per]
        chosen = [
            [index[dim]] if dim in index else range(self.dimensions.count[dim])
            for dim in _split(buffer)
        ]
        pieces = self.pieces[instance_name(name, here)]
        return [pieces[instance_name(name, [*here, *parts])] for parts in product(*chosen)]

    def depth(self, depth: bool | int | str | list[bool | int | str], path: Path) -> Depth:
        """Return the slots that ``depth`` allows: a number, a range or auto."""
        scope = self.scope
        if isinstance(depth, list):
            before = scope.errors
            low, high = (
                scope.integer(end, (*path, number), at_most=MAX_DEPTH)
                for number, end in enumerate(depth)
            )
            if low > high and scope.errors == before:
                message = f"the range of depths [{low}, {high}] is empty"
                scope.error("bad-depth", message, path, fix=f"write [{high}, {low}]")
            return Depth(min(low, high), max(low, high))
        if depth == "auto" or scope.values.get(str(depth)) == "auto":
            return AUTO_DEPTH
        number = scope.integer(depth, path, at_most=MAX_DEPTH)
        return Depth(number, number)

    def apart(self, ring: str) -> bool:
        """Whether each instance of the buffers of ``ring`` has a ring of its own."""
        return self.scope.truth(self.spec.rings[ring].apart, ("rings", ring, "apart"))

    def _add(self, name: str, buffer: Buffer) -> None:
        before = self.scope.errors
        template = self._region(name, buffer)
        self._check_dimensions(name, buffer)
        if template is None or self.scope.errors > before:
            return
        dimensions = [*buffer.per, *_split(buffer)]
        count = self._count + self.dimensions.number(dimensions)
        if count > MAX_INSTANCES:
            message = f"with '{name}' the buffers have more than {MAX_INSTANCES} pieces"
            fix = f"reduce the counts of {', '.join(dimensions) or 'other buffers'}"
            self.scope.error("too-many-instances", message, ("buffers", name), key=True, fix=fix)
            return
        self._count = count
        parts = [self._parts(name, buffer, template, axis) for axis in ("rows", "columns")]
        if self.scope.errors > before:
            return
        self.present[name] = buffer
        self.names[name] = []
        ring = template.ring
        apart = ring is not None and self.apart(ring)
        for number, index in enumerate(self.dimensions.instances(buffer.per)):
            here = list(index.values())
            region = replace(template, name=instance_name(name, here))
            if ring is not None and apart:
                region = replace(region, ring=instance_name(ring, [number]))
            self.regions[region.name] = region
            self.pieces[region.name] = _pieces(buffer, region, here, *parts)
            self.names[name].append(region.name)

    def _region(self, name: str, buffer: Buffer) -> Region | None:
        """Return what the regions of a buffer have in common."""
        path, scope = ("buffers", name), self.scope
        before = scope.errors
        space = scope.word(buffer.space, (*path, "space"), [s.value for s in Space], "memory space")
        dtype = scope.word(buffer.dtype, (*path, "dtype"), list(DTYPE_BITS), "data type")
        shape = tuple(
            scope.integer(size, (*path, "shape", number), at_most=MAX_EXTENT)
            for number, size in enumerate(buffer.shape)
        )
        depth = self.depth(buffer.depth, (*path, "depth"))
        hazards = scope.truth(buffer.hazards, (*path, "hazards"))
        initial = None
        if buffer.initial is not None:
            initial = scope.number(buffer.initial, (*path, "initial"))
        if space is None or dtype is None or scope.errors > before:
            return None
        region = Region(
            name=name,
            base=name,
            space=Space(space),
            shape=shape,
            dtype=dtype,
            depth=depth,
            per_tile=buffer.lives == "tile",
            ring=self._ring_of.get(name),
            initial=initial,
            hazards=hazards,
        )
        if region.slot_bytes > MAX_SLOT_BYTES:
            message = f"'{name}' has {region.slot_bytes} bytes, more than any memory on a chip"
            fix = f"make it at most {MAX_SLOT_BYTES} bytes; SMs have less, 'schedgen targets'"
            scope.error("out-of-range", message, (*path, "shape"), fix=fix)
            return None
        if region.space is Space.TMEM and region.rows > TMEM_LANES:
            message = f"'{name}' has {region.rows} rows, and tensor memory has {TMEM_LANES} lanes"
            fix = f"make it {TMEM_LANES} rows, and one for each band with 'per' instead of 'split'"
            scope.error("rows-of-tensor-memory", message, (*path, "shape", 0), fix=fix)
            return None
        return region

    def _check_dimensions(self, name: str, buffer: Buffer) -> None:
        """Dimensions of a buffer exist, and each replicates it or cuts one axis."""
        path, scope, known = ("buffers", name), self.scope, self.dimensions.count
        check_names(scope, self.dimensions, buffer.per, (*path, "per"))
        used = list(buffer.per)
        for axis in ("rows", "columns"):
            dimension = getattr(buffer.split, axis)
            at = (*path, "split", axis)
            if dimension is None:
                continue
            if dimension not in known:
                fix = suggest(dimension, known) or "declare it under 'dimensions'"
                message = f"'{dimension}' is not a dimension"
                scope.error("unknown-dimension", message, at, fix=fix)
            elif dimension in used:
                message = f"'{dimension}' already replicates or splits '{name}'"
                scope.error("repeated-dimension", message, at, fix="use another dimension")
            elif axis == "columns" and len(buffer.shape) == 1:
                fix = f"split its rows, or make its shape [{buffer.shape[0]}, ...]"
                message = f"'{name}' is a vector and has no columns to split"
                scope.error("split-of-vector", message, at, key=True, fix=fix)
            used.append(dimension)

    def _parts(self, name: str, buffer: Buffer, region: Region, axis: str) -> list[tuple[int, int]]:
        """Return [begin, end) of the parts of an axis."""
        extent = (*region.shape, 1)[0 if axis == "rows" else 1]
        dimension = getattr(buffer.split, axis)
        if dimension is None:
            return [(0, extent)]
        parts = self.dimensions.cut(dimension, extent)
        if parts is not None:
            return parts
        sizes = self.dimensions.sizes.get(dimension)
        if sizes is None:
            message = f"{self.dimensions.count[dimension]} equal parts do not make up"
        else:
            message = f"parts of {' + '.join(map(str, sizes))} do not make up"
        message = f"{message} the {extent} {axis} of '{name}'"
        fix = f"make the sizes of '{dimension}' add up to {extent}"
        if sizes is None:
            fix = f"make the number of {axis} a multiple of {self.dimensions.count[dimension]}"
        self.scope.error("uneven-split", message, ("buffers", name, "split", axis), fix=fix)
        return [(0, extent)]


def _split(buffer: Buffer) -> list[str]:
    """Return the dimensions that cut a buffer: rows first."""
    return [dim for dim in (buffer.split.rows, buffer.split.columns) if dim is not None]


def _pieces(
    buffer: Buffer,
    region: Region,
    index: Sequence[int],
    rows: list[tuple[int, int]],
    columns: list[tuple[int, int]],
) -> dict[str, Piece]:
    bits = DTYPE_BITS[region.dtype]
    pieces: dict[str, Piece] = {}
    for (r, (row0, row1)), (c, (col0, col1)) in product(enumerate(rows), enumerate(columns)):
        suffix = [r] * (buffer.split.rows is not None) + [c] * (buffer.split.columns is not None)
        name = instance_name(region.base, [*index, *suffix])
        begin, end = col0 * bits // 8, -(-col1 * bits // 8)
        pieces[name] = Piece(name, region.name, row0, row1, begin, end)
    return pieces
