"""Operations of a spec become instances over pieces, with shapes checked and work counted."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import TypeAlias

from schedgen.errors import suggest
from schedgen.expressions import Expression, Number, fold, references
from schedgen.kernel import DTYPE_BITS, Kind, Operation, Phase, Read
from schedgen.spec import entries, schema
from schedgen.spec.dimensions import MAX_INSTANCES, Index, check_names, instance_name
from schedgen.spec.draft import COORDINATES, Draft, Names
from schedgen.spec.layout import Layout
from schedgen.spec.placing import Placing
from schedgen.spec.shapes import Shapes, fits
from schedgen.spec.values import Path, Place, Scope, Value
from schedgen.spec.work import count_work

_MAX_CYCLES = 10**6
_Entry: TypeAlias = tuple[Path, entries.Operation]


class OperationBinder:
    """Binds the operations of one phase after the other, in sequential order.

    Attributes:
        operations: all instances so far.
        places: where in the file each of their reads stands.
    """

    def __init__(self, spec: schema.SpecFile, scope: Scope, layout: Layout) -> None:
        self.spec = spec
        self.scope = scope
        self.layout = layout
        self.names = Names(spec, scope, layout)
        self.placing = Placing(spec, scope, layout)
        self.operations: list[Operation] = []
        self.places: dict[tuple[str, Read], Place] = {}
        self._seen: set[str] = set()
        self._written: set[str] = set()  # pieces, by the main loop
        self._count = 0

    def bind(self) -> tuple[Operation, ...]:
        """Return all instances of all operations, in sequential order."""
        lists = (
            (Phase.BEFORE, self.spec.operations.before),
            (Phase.BODY, self.spec.operations.body),
            (Phase.AFTER, self.spec.operations.after),
        )
        for phase, listed in lists:
            numbered = [(("operations", phase.value, n), entry) for n, entry in enumerate(listed)]
            present = [(path, entry) for path, entry in numbered if self._admit(entry, phase, path)]
            for first, run in groupby(present, key=lambda item: item[1].over[:1]):
                self._bind_run(list(run), phase, first)
        if not self.scope.sink and not any(
            o.phase is Phase.BODY and not o.boundary for o in self.operations
        ):
            message = "the main loop has no operation that runs in every iteration"
            fix = "drop 'only' or 'boundary' from one of them"
            self.scope.error("empty-loop", message, ("operations", "body"), key=True, fix=fix)
        return tuple(self.operations)

    def _admit(self, entry: entries.Operation, phase: Phase, path: Path) -> bool:
        """Whether an operation exists for these parameters, and its instances are known."""
        if not self.scope.truth(entry.only, (*path, "only")):
            return False
        report = self.scope.error
        if entry.id in self._seen:
            message = f"there are two operations '{entry.id}'"
            report("repeated-id", message, (*path, "id"), fix="rename one of them")
        self._seen.add(entry.id)
        if entry.boundary and phase is not Phase.BODY:
            message = "only the main loop has boundary iterations"
            report("boundary-outside-loop", message, (*path, "boundary"), fix="remove it")
        dimensions = self.layout.dimensions
        if not check_names(self.scope, dimensions, entry.over, (*path, "over")):
            return False
        count = self._count + dimensions.number(entry.over)
        if count > MAX_INSTANCES:
            message = f"with '{entry.id}' the kernel has more than {MAX_INSTANCES} operations"
            fix = f"reduce the counts of {', '.join(entry.over) or 'other operations'}"
            report("too-many-instances", message, (*path, "id"), fix=fix)
            return False
        self._count = count
        return True

    def _bind_run(self, run: list[_Entry], phase: Phase, first: list[str]) -> None:
        """Bind neighbours over the same first dimension: together they are one loop over it."""
        dimensions = self.layout.dimensions
        failed: set[str] = set()  # every further instance would only repeat the message
        for step in dimensions.instances(first):
            for path, entry in run:
                for rest in dimensions.instances(entry.over[1:]):
                    if entry.id in failed:
                        break
                    before = self.scope.errors
                    operation = self._instance(entry, phase, {**step, **rest}, path)
                    if operation is None or self.scope.errors > before:
                        failed.add(entry.id)
                        break
                    self.operations.append(operation)
                    if phase is Phase.BODY and not entry.boundary:
                        self._written.update(operation.writes)

    def _instance(
        self, entry: entries.Operation, phase: Phase, index: Index, path: Path
    ) -> Operation | None:
        draft = Draft(self.names, index)
        tensor = self._operands(entry, draft, phase, path)
        when = self._condition(entry, draft, index, (*path, "when"))
        operation = Operation(
            name=instance_name(entry.id, list(index.values())),
            base=entry.id,
            kind=Kind(entry.kind),
            phase=phase,
            reads=(),
            writes=(),
            index=tuple(index.values()),
            tensor=tensor,
            reduction=entry.op if isinstance(entry, entries.Reduce) else None,
            transposed=isinstance(entry, entries.Copy | entries.Store) and entry.transposed,
            when=when,
            boundary=entry.boundary,
            transpose_b=isinstance(entry, entries.Mma) and entry.transpose_b is True,
            accumulate=isinstance(entry, entries.Mma) and entry.accumulate,
            fill=self._fill(entry, path),
            polynomial=self._polynomial(entry, path),
            label=entry.label,
            unit=self._pin(entry.unit, index, (*path, "unit")),
            cycles=self._cycles(entry, "cycles", path),
            latency=self._cycles(entry, "latency", path),
            role=self._pin(entry.role, index, (*path, "role")),
        )
        bound = self._complete(operation, entry, draft, path)
        if bound is None:
            return None
        return replace(bound, places=self.placing.places(bound, draft, index))

    def _condition(
        self, entry: entries.Operation, draft: Draft, index: Index, path: Path
    ) -> Expression | None:
        """The condition at run time, of those operations that can have one."""
        if entry.when is None:
            return None
        match entry:
            case entries.Store():
                return self._tile_condition(entry.when, index, path)
            case entries.Load():
                return self._load_condition(entry.when, draft, path)
            case entries.Map():
                return self._map_condition(entry, entry.when, draft, path)
            case _:
                message = f"'{entry.id}' has a 'when', but a '{entry.kind}' happens always"
                fix = "use a map: where(condition, new, old) for each of its outputs"
                draft.error("bad-condition", message, Place(path, key=True), fix=fix)
                return None

    def _map_condition(
        self, entry: entries.Map, text: str | int, draft: Draft, path: Path
    ) -> Expression | None:
        """Of each element; what it reads is from before the map, which one output may write over
        but not several: the later ones would ask again.
        """
        expression = draft.formula(text, path, output=None, condition=True, before=True)
        for name in () if expression is None or len(entry.to) == 1 else references(expression):
            if name.name in entry.to:
                message = (
                    f"'{entry.id}' has several outputs, and writes '{name.name}' of its 'when'"
                )
                fix = f"make each output a map of its own, '{name.name}' the last one"
                draft.error("bad-condition", message, Place(path).of(name), fix=fix)
                return None
        return expression

    def _tile_condition(self, text: str | int, index: Index, path: Path) -> Expression | None:
        """Whether a store happens for an output tile: exact arithmetic over its coordinates,
        parameters, extents and the indices of ``over``.
        """
        expression = self.scope.expression(text, path)
        if expression is None:
            return None
        sizes = {s for argument in self.spec.arguments.values() for s in argument.shape}
        known: dict[str, Value] = dict.fromkeys([*sorted(sizes), *COORDINATES[2:]], Fraction(1))
        known |= {**self.scope.values, **{name: Fraction(at) for name, at in index.items()}}
        Scope(self.scope.source, self.scope.sink, known).truth(text, path)
        return fold(expression, {name: Number(Fraction(at)) for name, at in index.items()})

    def _load_condition(self, text: str | int, draft: Draft, path: Path) -> Expression | None:
        """Whether a load happens at all: who reads its tile has to know, so it depends on scalar
        arguments and parameters only.
        """
        expression = self.scope.expression(text, path)
        scalars = {name for name, argument in self.spec.arguments.items() if not argument.shape}
        for name in () if expression is None else references(expression):
            if name.name not in {*scalars, *self.spec.parameters}:
                message = f"'{name.name}' is neither a scalar argument nor a parameter"
                fix = "whether a load happens can depend on those only"
                draft.error("bad-condition", message, Place(path).of(name), fix=fix)
                return None
        return draft.formula(text, path, output=None, condition=True)

    def _complete(
        self, operation: Operation, entry: entries.Operation, draft: Draft, path: Path
    ) -> Operation | None:
        """Return ``operation`` with what it reads, writes and works, if its operands fit."""
        shapes = Shapes(draft, self.layout, path)
        if not draft.complete or not fits(entry, shapes):
            return None
        work = count_work(entry, shapes, self.scope)
        if work is None:
            return None
        self.places.update({(operation.name, read): at for read, at in draft.reads.items()})
        return replace(
            operation,
            reads=tuple(draft.reads),
            writes=tuple(draft.writes),
            formulas=tuple(draft.formulas.items()),
            operands=tuple(
                (operand, tuple(piece.name for piece in pieces))
                for operand, pieces in draft.operands.items()
            ),
            spaces=tuple((operand, shapes.space(operand).value) for operand in draft.operands),
            work=work,
        )

    def _fill(self, entry: entries.Operation, path: Path) -> str | None:
        if not isinstance(entry, entries.Mask):
            return None
        return self.scope.number(entry.value, (*path, "value"))

    def _polynomial(self, entry: entries.Operation, path: Path) -> Fraction:
        """The share of exponentials; what is wrong with it is reported where they are counted."""
        if not isinstance(entry, entries.Map) or not entry.polynomial:
            return Fraction(0)
        value = self.scope.value(entry.polynomial, (*path, "polynomial"))
        return value if isinstance(value, Fraction) else Fraction(0)

    def _cycles(self, entry: entries.Operation, key: str, path: Path) -> int | None:
        text = getattr(entry, key)
        if text is None:
            return None
        least = 1 if key == "cycles" else 0
        return self.scope.integer(text, (*path, key), at_least=least, at_most=_MAX_CYCLES)

    def _pin(self, text: str | None, index: Index, path: Path) -> str | None:
        """Return a unit or role name with ``{dimension}`` replaced by the index."""
        if text is None:
            return None
        for match in re.finditer(r"\{(\w+)\}|[{}]", text):
            place = Place(path, match.start(), len(match[0]))
            dim = match[1]
            if dim is None:
                message = f"'{match[0]}' stands alone"
                fix = "write {tile}, tile being a dimension of 'over'"
                self.scope.error("bad-placeholder", message, place, fix=fix)
            elif dim not in index:
                fix = suggest(dim, index) or f"name a dimension of 'over', not '{dim}'"
                message = f"'{match[0]}' is not an index of this operation"
                self.scope.error("unknown-dimension", message, place, fix=fix)
        return re.sub(r"\{(\w+)\}", lambda match: str(index.get(match[1], "")), text)

    def _operands(
        self, entry: entries.Operation, draft: Draft, phase: Phase, path: Path
    ) -> str | None:
        """Note what ``entry`` reads and writes; return the tensor of a load or store."""
        match entry:
            case entries.Load():
                draft.write(entry.to, "to", (*path, "to"))
                return self._tensor(entry.source, draft, "to", (*path, "from"))
            case entries.Store():
                draft.read(entry.source, "from", (*path, "from"))
                return self._tensor(entry.to, draft, "from", (*path, "to"))
            case entries.Mma():
                draft.read(entry.a, "a", (*path, "a"))
                draft.read(entry.b, "b", (*path, "b"))
                draft.write(entry.d, "d", (*path, "d"))
                if entry.accumulate:
                    self._accumulate(draft, phase, (*path, "d"))
            case entries.Reduce():
                draft.read(entry.source, "from", (*path, "from"))
                draft.write(entry.to, "to", (*path, "to"))
                if entry.carry is not None:
                    draft.formula(entry.carry, (*path, "carry"), output="carry", before=True)
                for name, text in entry.then.items():
                    draft.output(name, text, (*path, "then", name))
            case entries.Map():
                for name, text in entry.to.items():
                    draft.output(name, text, (*path, "to", name))
            case entries.Copy():
                draft.read(entry.source, "from", (*path, "from"))
                draft.write(entry.to, "to", (*path, "to"))
            case entries.Mask():
                draft.read(entry.to, "from", (*path, "to"))
                draft.formula(entry.keep, (*path, "keep"), output="keep", condition=True)
                draft.write(entry.to, "to", (*path, "to"))
        return None

    def _accumulate(self, draft: Draft, phase: Phase, path: Path) -> None:
        """A product is added to this iteration's value if there is one, else to the one before."""
        for piece in draft.operands.get("d", ()):
            carried = phase is Phase.BODY and piece.name not in self._written
            draft.reads.setdefault(Read(piece.name, int(carried)), Place(path))

    def _tensor(self, name: str, draft: Draft, operand: str, path: Path) -> str:
        """Return the tensor ``name`` after checking that ``operand`` can be copied with it."""
        argument = self.spec.arguments.get(name)
        if argument is None:
            fix = suggest(name, self.spec.arguments) or "declare it under 'arguments'"
            draft.error(
                "unknown-argument", f"'{name}' is not an argument of this kernel", path, fix=fix
            )
        elif not argument.shape:
            fix = "use it in a formula, or give it a shape"
            draft.error(
                "scalar-argument", f"'{name}' is a scalar, which no tile is part of", path, fix=fix
            )
        elif operand in draft.operands:
            at = ("arguments", name, "dtype")
            dtype = self.scope.value(argument.dtype, at)
            region = self.layout.regions[draft.operands[operand][0].region]
            if dtype in DTYPE_BITS and dtype != region.dtype:
                message = f"'{name}' is {dtype}, but '{region.base}' is {region.dtype}"
                fix = f"make both {dtype}, and convert in a map"
                draft.error("dtype-mismatch", message, path, fix=fix)
        return name
