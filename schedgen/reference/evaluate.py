"""A kernel on concrete tensors in float64, by code of its own: a check of the interpreters, too.

Operations are executed in the order of the spec, one output tile after the other. It shares no code
with `schedgen.interpret`, `schedgen.codegen` and `schedgen.emulator`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedgen.errors import SchedgenError
from schedgen.expressions.nodes import Name
from schedgen.kernel import Kernel, Kind, Operation, Phase, Region
from schedgen.layouts import DTYPE_BITS, PACKED
from schedgen.reference.estimate import (
    Estimate,
    added,
    chosen,
    differ,
    exact,
    larger,
    largest,
    loosened,
    product,
    running,
    stored,
    total,
    unknown,
)
from schedgen.reference.expected import Expected
from schedgen.reference.formulas import Condition, Formulas, arithmetic
from schedgen.reference.gathered import written_out
from schedgen.reference.operands import as_results, factor, taking_turns, unit, whole_halves
from schedgen.reference.problem import Sizes, deciding, stored_tensors
from schedgen.reference.ragged import dense, inputs_of, numbers, unpaged
from schedgen.reference.rounding import Array
from schedgen.reference.sums import Sum, summed_tensors
from schedgen.tensors import INTEGERS, PARTLY

Box = tuple[slice, slice]


def evaluate(
    kernel: Kernel,
    inputs: Mapping[str, Array | float],
    extents: Mapping[str, int] | None = None,
) -> dict[str, Expected]:
    """What ``kernel`` stores for these tensors and scalars, by the names of its arguments.

    Args:
        inputs: float64 arrays whose values are ones of the arguments' data types, and numbers.
        extents: of results that no input has.

    Raises:
        SchedgenError: an input or an extent is missing, or the stores do not make up a grid.
    """
    kernel, inputs = written_out(kernel, inputs)
    if kernel.ragged:
        return _of_numbers(kernel, inputs, extents or {})
    return _Evaluation(kernel, inputs, extents or {}).run()


def _of_numbers(
    kernel: Kernel, inputs: Mapping[str, Array | float], extents: Mapping[str, int]
) -> dict[str, Expected]:
    """What is stored for each number of a kernel with ragged extents, in whole tensors."""
    kernel, inputs = unpaged(kernel, inputs)
    sizes = dict(extents)
    for argument in kernel.arguments:
        if argument.name in inputs and argument.shape:
            sizes.update(zip(argument.passed, np.shape(inputs[argument.name]), strict=True))
    for one in (one for one in kernel.ragged if one.starts):
        sizes.setdefault(one.of, sizes[one.bounds] - 1)
    found: dict[str, Expected] = {}
    for argument in kernel.arguments:
        if argument.name in stored_tensors(kernel):
            shape = tuple(sizes[extent] for extent in argument.passed)
            none = np.zeros(shape, np.int64)
            found[argument.name] = Expected(unknown(shape), none, none.astype(bool))
    for name in summed_tensors(kernel):
        begun = np.asarray(inputs[name], np.float64)
        found[name] = Expected(exact(begun), np.ones(begun.shape, np.int64), found[name].clashes)
    single = dense(kernel)
    for parts, here in numbers(kernel, inputs, sizes):
        given = inputs_of(kernel, inputs, parts)
        for name, one in _Evaluation(single, given, here).run().items():
            at, whole = parts[name], found[name]
            whole.number.value[at] = one.number.value
            whole.number.magnitude[at] = one.number.magnitude
            whole.number.error[at] = one.number.error
            whole.stores[at] += one.stores - (name in summed_tensors(kernel))
            whole.clashes[at] |= one.clashes
    return found


class _Evaluation:
    """All tiles of one problem."""

    def __init__(
        self, kernel: Kernel, inputs: Mapping[str, Array | float], extents: Mapping[str, int]
    ) -> None:
        self.kernel = kernel
        self.tensors: dict[str, Estimate] = {}
        self.scalars: dict[str, Estimate] = {}
        sizes: dict[str, int] = {}
        outputs = stored_tensors(kernel)
        for argument in kernel.arguments:
            if argument.name not in inputs:
                if argument.name in outputs - summed_tensors(kernel):
                    continue
                raise SchedgenError(f"the input '{argument.name}' is missing")
            value = np.asarray(inputs[argument.name], np.float64)
            sizes.update(zip(argument.shape, value.shape, strict=True))
            if argument.shape:
                self.tensors[argument.name] = exact(value)
            else:
                number = value if argument.dtype in INTEGERS else np.float32(value)
                self.scalars[argument.name] = exact(float(number))
        missing = {e for a in kernel.arguments for e in a.shape} - {*sizes, *extents}
        if missing:
            raise SchedgenError(f"nothing says how large '{min(missing)}' is; fix: give it")
        whole = {n: int(self.scalars[n].value) for n in deciding(kernel) & self.scalars.keys()}
        names = (w.listed, w.count, w.full, w.order) if (w := kernel.walk) else ()
        walked = (np.asarray(inputs[name], np.float64) if name else None for name in names)
        self.sizes = Sizes(kernel, {**extents, **sizes}, whole, *walked)
        self.sums = {n: Sum(self.tensors[n].value) for n in sorted(summed_tensors(kernel))}
        self.expected: dict[str, Expected] = {}
        for argument in kernel.arguments:
            if argument.name in outputs - self.sums.keys():
                shape = tuple(self.sizes.extents[extent] for extent in argument.shape)
                none = np.zeros(shape, np.int64)
                found = Expected(unknown(shape), none, none.astype(bool))
                self.expected[argument.name] = found
                self.tensors.setdefault(argument.name, found.number)

    def run(self) -> dict[str, Expected]:
        for tile in self.sizes.tiles():
            _Tile(self, tile).run()
        for name, one in self.sums.items():
            never = np.zeros(one.count.shape, np.bool_)
            self.expected[name] = Expected(one.number(), one.count + 1, never)
        return self.expected


class _Tile:
    """The buffers of one output tile: now, and as they were at the end of earlier iterations."""

    def __init__(self, problem: _Evaluation, tile: Mapping[str, int]) -> None:
        self.problem, self.kernel, self.tile = problem, problem.kernel, tile
        self.now = {region.name: _first(region) for region in self.kernel.regions}
        self.ends: dict[str, list[Estimate]] = {}
        self.number = 0

    def run(self) -> None:
        phases = {phase: [o for o in self.kernel.operations if o.phase is phase] for phase in Phase}
        body = phases[Phase.BODY]
        old = {self._region(r.piece).name for o in body for r in o.reads if r.distance > 0}
        lost = {self._region(p).name for o in body if not o.boundary for p in o.writes}
        for operation in phases[Phase.BEFORE]:
            self._execute(operation, 0)
        self.ends = {name: [self.now[name].copy()] for name in old}
        for number, iteration in enumerate(self.problem.sizes.iterations(self.tile)):
            self.number = number
            for name in lost:  # what an iteration does not write it must not read
                if not self.kernel.region[name].per_tile:
                    self.now[name] = unknown(self.now[name].value.shape)
            for operation in body:
                self._execute(operation, iteration)
            for name in old:
                self.ends[name].append(self.now[name].copy())
        for operation in phases[Phase.AFTER]:
            self._execute(operation, 0)

    def _execute(self, operation: Operation, iteration: int) -> None:
        if operation.kind is Kind.STORE:
            self._store(operation, iteration)
            return
        _Execution(self, operation, iteration).run()

    def _store(self, operation: Operation, iteration: int) -> None:
        sizes = self.problem.sizes
        when = operation.when
        if when is not None and not arithmetic(when, sizes.names(self.tile)):
            return
        slices, (rows, columns), flipped = sizes.parts(operation, self.tile, iteration)
        found = self.operand(dict(operation.operands)["from"], 0)[:rows, :columns]
        found = found.transposed if flipped else found
        if operation.tensor in self.problem.sums:
            self.problem.sums[operation.tensor].add(slices, found)
            return
        expected = self.problem.expected[operation.tensor or ""]
        target = expected.number[slices]
        shaped = (found.value, found.magnitude, found.error)
        new = Estimate(*(part.reshape(target.value.shape) for part in shaped))
        expected.clashes[slices] |= (expected.stores[slices] > 0) & differ(new, target)
        expected.number.put(slices, new)
        expected.stores[slices] += 1

    # -- storage -------------------------------------------------------------------------------

    def _region(self, piece: str) -> Region:
        return self.kernel.region[self.kernel.piece[piece].region]

    def box(self, piece: str) -> Box:
        """Rows and columns of a piece within its region."""
        found = self.kernel.piece[piece]
        bits = DTYPE_BITS[self._region(piece).dtype]
        columns = slice(found.byte0 * 8 // bits, found.byte1 * 8 // bits)
        return slice(found.row0, found.row1), columns

    def operand(self, pieces: tuple[str, ...], distance: int) -> Estimate:
        """The tile that pieces of one region make up together, ``distance`` iterations ago."""
        region = self._region(pieces[0]).name
        whole = self.now[region]
        if distance > 0:
            ends = self.ends[region]
            whole = ends[max(0, len(ends) - distance)]
        boxes = [self.box(piece) for piece in pieces]
        rows = slice(min(b[0].start for b in boxes), max(b[0].stop for b in boxes))
        columns = slice(min(b[1].start for b in boxes), max(b[1].stop for b in boxes))
        return whole[rows, columns].copy()


class _Execution:
    """One operation in one iteration; ``made`` has the pieces that it has computed so far."""

    def __init__(self, tile: _Tile, operation: Operation, iteration: int) -> None:
        self.tile, self.operation, self.iteration = tile, operation, iteration
        self.kernel = tile.kernel
        self.operands = dict(operation.operands)
        self.formulas = dict(operation.formulas)
        self.made: dict[tuple[str, ...], Estimate] = {}
        self.evaluator = Formulas(self._look, polynomial=bool(operation.polynomial))
        self.held: Condition | None = None

    def run(self) -> None:
        when = self.operation.when
        if when is not None and self.operation.kind is not Kind.LOAD:
            self.held = self.evaluator.condition(when)  # of values from before the operation
        match self.operation.kind:
            case Kind.LOAD | Kind.GATHER:
                self._load()
            case Kind.COPY | Kind.LAND:
                found, parts = self._read("from"), self.operation.interleave
                found = taking_turns(found, parts) if parts else found
                self._make("to", found.transposed if self.operation.transposed else found)
            case Kind.MMA:
                self._product()
            case Kind.REDUCE:
                self._reduce()
            case Kind.SCAN:
                self._make("to", running(self._read("from")))
            case Kind.MASK:
                keep = self.evaluator.condition(self.formulas["keep"])
                fill = exact(float(self.operation.fill or "-inf"))
                self._make("to", chosen(keep.truth, keep.sure, self._read("from"), fill))
            case Kind.MAP:
                for name, formula in self.operation.formulas:
                    self._make(name, self.evaluator.number(formula))
            case Kind.STORE:
                raise AssertionError("stores are not executed here")
        self._write()

    def _load(self) -> None:
        problem, operation = self.tile.problem, self.operation
        if not operation.places:
            raise SchedgenError(f"nothing says where the tile of '{operation.name}' lies")
        slices, (rows, columns), flipped = problem.sizes.parts(
            operation, self.tile.tile, self.iteration
        )
        sides = {place.side: place.size for place in operation.places}
        shape = (sides.get("rows", 1), sides.get("columns", 1))
        found = exact(np.zeros(shape))
        when = operation.when
        if when is None or bool(self.evaluator.condition(when).truth):
            part = problem.tensors[operation.tensor or ""][slices]
            source = (columns, rows) if flipped else (rows, columns)
            fields = (field.reshape(source) for field in (part.value, part.magnitude, part.error))
            block = Estimate(*fields)
            found.put((slice(rows), slice(columns)), block.transposed if flipped else block)
        self._make("to", found)

    def _product(self) -> None:
        operation = self.operation
        a, b = self._factor("a"), self._factor("b")
        a = a.transposed if operation.transpose_a else a
        a = a.columns(as_results(a.value.shape[1])) if operation.as_results else a
        each = unit(self._dtype("d"), self._dtype("a"))
        found = product(a, b.transposed if operation.transpose_b else b, each)
        if operation.accumulate:
            old = self._read("d")
            found = added(old, found)
            found = loosened(found, each * np.abs(old.value))
        self._make("d", found)

    def _factor(self, operand: str) -> Estimate:
        scale = self._read(f"scale_{operand}") if self.operation.scaled else None
        return factor(self._read(operand), self._dtype(operand), scale)

    def _reduce(self) -> None:
        tile = self._read("from")
        largest_of = self.operation.reduction == "max"
        found = largest(tile) if largest_of else total(tile)
        if "carry" in self.formulas:
            carry = self.evaluator.number(self.formulas["carry"])
            found = larger(carry, found) if largest_of else added(carry, found)
        self._make("to", found)
        for name, formula in self.operation.formulas:
            if name != "carry":
                self._make(name, self.evaluator.number(formula))

    # -- operands ------------------------------------------------------------------------------

    def _dtype(self, operand: str) -> str:
        piece = self.kernel.piece[self.operands[operand][0]]
        return self.kernel.region[piece.region].dtype

    def _read(self, operand: str) -> Estimate:
        """An operand that is read at one distance."""
        pieces = self.operands[operand]
        distance = next(r.distance for r in self.operation.reads if r.piece == pieces[0])
        return self.tile.operand(pieces, distance)

    def _make(self, operand: str, number: Estimate) -> None:
        """Note an output, rounded to the data type of its buffer."""
        pieces = self.operands[operand]
        boxes = [self.tile.box(piece) for piece in pieces]
        shape = (
            max(b[0].stop for b in boxes) - min(b[0].start for b in boxes),
            max(b[1].stop for b in boxes) - min(b[1].start for b in boxes),
        )
        self.made[pieces] = stored(number, self._dtype(operand)).broadcast(shape)

    def _write(self) -> None:
        """Put outputs into their buffers, where the condition of the operation holds."""
        held = self.held
        for pieces, made in self.made.items():
            boxes = [self.tile.box(piece) for piece in pieces]
            row, column = min(b[0].start for b in boxes), min(b[1].start for b in boxes)
            distances = [r.distance for r in self.operation.reads if r.piece in pieces]
            kept = self.tile.operand(pieces, distances[0] if distances else 0)
            found = made if held is None else chosen(held.truth, held.sure, made, kept)
            for piece, (rows, columns) in zip(pieces, boxes, strict=True):
                at = (
                    slice(rows.start - row, rows.stop - row),
                    slice(columns.start - column, columns.stop - column),
                )
                self.tile.now[self.kernel.piece[piece].region].put((rows, columns), found[at])

    # -- names ---------------------------------------------------------------------------------

    def _look(self, name: Name) -> Estimate:
        pieces = self.operands.get(name.name)
        if pieces is not None:
            if name.distance == 0 and pieces in self.made:
                return self.made[pieces]
            found = self.tile.operand(pieces, name.distance)
            packed = self._dtype(name.name) in PACKED
            return self._blocks(whole_halves(found) if packed else found)
        if name.name in ("row", "column"):
            return self._axis(name.name)
        if name.name == PARTLY:
            return exact(float(self.tile.problem.sizes.partly(self.tile.tile, self.tile.number)))
        if name.name in self.tile.problem.scalars:
            return self.tile.problem.scalars[name.name]
        known = self.tile.problem.sizes.names(self.tile.tile)
        if name.name in known:  # also where a tensor has the name
            return exact(float(np.float32(float(known[name.name]))))
        argument = next(a for a in self.kernel.arguments if a.name == name.name)
        at = tuple(self.tile.tile[extent] for extent in argument.shape)
        return exact(float(self.tile.problem.tensors[name.name].value[at]))

    def _blocks(self, found: Estimate) -> Estimate:
        """A row of fewer values than there are columns: each for a block of them."""
        rows, columns = found.value.shape
        if rows > 1 or columns == 1:
            return found
        boxes = [[self.tile.box(piece)[1] for piece in one] for one in self.operands.values()]
        width = max(max(b.stop for b in one) - min(b.start for b in one) for one in boxes)
        return found.repeat(width // columns)

    def _axis(self, which: str) -> Estimate:
        """The coordinates of rows or columns of what is written, in the global tensor."""
        if not self.operation.places:
            raise SchedgenError(f"nothing says where the tile of '{self.operation.name}' lies")
        place = self.operation.places[which == "column"]
        first = self.tile.problem.sizes.start(place, self.tile.tile, self.iteration)
        along = np.arange(first, first + place.size, dtype=np.float64)
        return exact(along[:, None] if which == "row" else along[None, :])


def _first(region: Region) -> Estimate:
    """What a buffer holds when an output tile begins."""
    shape = (region.shape[0], region.shape[1] if len(region.shape) > 1 else 1)
    if region.initial is None:
        return unknown(shape)
    above, _, below = region.initial.partition("/")
    return exact(np.full(shape, float(above) / float(below or 1)))
