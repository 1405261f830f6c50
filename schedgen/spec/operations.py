"""Operations of a spec become instances over pieces, with shapes checked and work counted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any, TypeAlias

from schedgen import kernel
from schedgen.errors import suggest
from schedgen.expressions import Expression, Number, fold, references
from schedgen.kernel import Kind, Phase, Read
from schedgen.layouts import PACKED, WHOLE
from schedgen.operations import Condition, Operation
from schedgen.spec import schema
from schedgen.spec.dimensions import MAX_INSTANCES, Index, check_names, instance_name
from schedgen.spec.draft import Draft
from schedgen.spec.layout import Layout
from schedgen.spec.names import COORDINATES, Names
from schedgen.spec.placing import Placing
from schedgen.spec.shapes import Shapes
from schedgen.spec.values import Location, Path, Scope, Value

_MAX_CYCLES = 10**6
_Entry: TypeAlias = tuple[Path, Operation]


class OperationBinder:
    """Binds the operations of one phase after the other, in sequential order.

    Attributes:
        operations: all instances so far.
        locations: where in the file each of their reads stands.
    """

    def __init__(self, spec: schema.SpecFile, scope: Scope, layout: Layout) -> None:
        self.spec = spec
        self.scope = scope
        self.layout = layout
        self.names = Names(spec, scope, layout)
        self.placing = Placing(spec, scope, layout)
        self.operations: list[kernel.Operation] = []
        self.locations: dict[tuple[str, Read], Location] = {}
        self._seen: set[str] = set()
        self._written: set[str] = set()  # pieces, by the main loop
        self._count = 0

    def bind(self) -> tuple[kernel.Operation, ...]:
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

    def _admit(self, entry: Operation, phase: Phase, path: Path) -> bool:
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
        earlier: dict[str, set[str]] = defaultdict(set)
        failed: set[str] = set()  # every further instance would only repeat the message
        for step in dimensions.instances(first):
            for path, entry in run:
                for rest in dimensions.instances(entry.over[1:]):
                    if entry.id in failed:
                        break
                    before = self.scope.errors
                    index = {**step, **rest}
                    operation = self._instance(entry, phase, index, path, earlier[entry.id])
                    if operation is None or self.scope.errors > before:
                        failed.add(entry.id)
                        break
                    self.operations.append(operation)
                    if phase is Phase.BODY and not entry.boundary:
                        self._written.update(operation.writes)
                    earlier[entry.id].update(operation.writes)

    def _instance(
        self, entry: Operation, phase: Phase, index: Index, path: Path, earlier: Collection[str]
    ) -> kernel.Operation | None:
        written = self._written if phase is Phase.BODY else None
        draft = Draft(self.names, index, written, earlier)
        tensor = entry.note(draft, path)
        when = self._condition(entry, draft, index, (*path, "when"))
        operation = kernel.Operation(
            name=instance_name(entry.id, list(index.values())),
            base=entry.id,
            kind=Kind(entry.kind),
            phase=phase,
            reads=(),
            writes=(),
            index=tuple(index.values()),
            tensor=tensor,
            when=when,
            boundary=entry.boundary,
            label=entry.label,
            unit=self._pin(entry.unit, index, (*path, "unit")),
            cycles=self._cycles(entry, "cycles", path),
            latency=self._cycles(entry, "latency", path),
            role=self._pin(entry.role, index, (*path, "role")),
            **self._attributes(entry, path),
        )
        bound = self._complete(operation, entry, draft, path)
        if bound is None:
            return None
        return replace(bound, places=self.placing.places(bound, draft, index))

    def _condition(
        self, entry: Operation, draft: Draft, index: Index, path: Path
    ) -> Expression | None:
        """The condition at run time, of those operations that can have one."""
        if entry.when is None:
            return None
        match entry.CONDITION:
            case Condition.TILE:
                return self._tile_condition(entry.when, index, path)
            case Condition.SCALARS:
                return self._load_condition(entry.when, draft, path)
            case Condition.ELEMENTS:
                return self._element_condition(entry, entry.when, draft, path)
            case Condition.NONE:
                message = f"'{entry.id}' has a 'when', but a '{entry.kind}' happens always"
                fix = "use a map: where(condition, new, old) for each of its outputs"
                draft.error("bad-condition", message, Location(path, key=True), fix=fix)
                return None

    def _element_condition(
        self, entry: Operation, text: str | int, draft: Draft, path: Path
    ) -> Expression | None:
        """Of each element; what it reads is from before the map, which one output may write over
        but not several: the later ones would ask again.
        """
        expression = draft.formula(text, path, output=None, condition=True, before=True)
        outputs = {name for name in draft.formulas if name in draft.operands}
        for name in () if expression is None or len(outputs) == 1 else references(expression):
            if name.name in outputs:
                message = (
                    f"'{entry.id}' has several outputs, and writes '{name.name}' of its 'when'"
                )
                fix = f"make each output a map of its own, '{name.name}' the last one"
                draft.error("bad-condition", message, Location(path).of(name), fix=fix)
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
        known: dict[str, Value] = dict.fromkeys(
            [*sorted(sizes), *COORDINATES[2:4], *self.spec.tile_numbers], Fraction(1)
        )
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
                draft.error("bad-condition", message, Location(path).of(name), fix=fix)
                return None
        return draft.formula(text, path, output=None, condition=True)

    def _complete(
        self, operation: kernel.Operation, entry: Operation, draft: Draft, path: Path
    ) -> kernel.Operation | None:
        """Return ``operation`` with what it reads, writes and works, if its operands fit."""
        shapes = Shapes(draft, self.layout, path)
        if not draft.complete or not entry.fits(shapes) or not _numbers(operation, draft, shapes):
            return None
        work = entry.work(shapes)
        if work is None:
            return None
        self.locations.update({(operation.name, read): at for read, at in draft.reads.items()})
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

    def _attributes(self, entry: Operation, path: Path) -> dict[str, Any]:
        """What only its kind has; what is wrong with a share is reported where work is counted."""
        found = entry.attributes()
        if "fill" in found:
            found["fill"] = self.scope.number(found["fill"], (*path, "value"))
        if "polynomial" in found:
            value = self.scope.value(found["polynomial"], (*path, "polynomial"))
            found["polynomial"] = value if isinstance(value, Fraction) else Fraction(0)
        return found

    def _cycles(self, entry: Operation, key: str, path: Path) -> int | None:
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
            location = Location(path, match.start(), len(match[0]))
            dim = match[1]
            if dim is None:
                message = f"'{match[0]}' stands alone"
                fix = "write {tile}, tile being a dimension of 'over'"
                self.scope.error("bad-placeholder", message, location, fix=fix)
            elif dim not in index:
                fix = suggest(dim, index) or f"name a dimension of 'over', not '{dim}'"
                message = f"'{match[0]}' is not an index of this operation"
                self.scope.error("unknown-dimension", message, location, fix=fix)
        return re.sub(r"\{(\w+)\}", lambda match: str(index.get(match[1], "")), text)


_MOVE = (*kernel.LOADS, kernel.Kind.STORE, kernel.Kind.COPY, kernel.Kind.MMA)


def _numbers(operation: kernel.Operation, draft: Draft, shapes: Shapes) -> bool:
    """Whether an operation of elements has elements that are numbers, and not several each, and
    makes none that nothing is rounded to.
    """
    if operation.kind in _MOVE:
        return True
    for operand in draft.operands:
        dtype = shapes.dtype(operand)
        if dtype in WHOLE and {piece.name for piece in shapes.pieces(operand)} & {*draft.writes}:
            message = f"'{operand}' is {dtype}: whole numbers are loaded, moved and read by "
            message += "formulas, and nothing is rounded to them"
            fix = "write to a buffer of another data type"
            draft.error("bad-dtype", message, Location(shapes.path), fix=fix)
            return False
        if dtype in PACKED and not (dtype in WHOLE and operation.kind is kernel.Kind.MAP):
            does = "read by maps" if dtype in WHOLE else "multiplied"
            message = f"'{operand}' is {dtype}: its elements are {PACKED[dtype]} numbers "
            message += f"each, which are only moved and {does}"
            fix = "compute in another data type"
            draft.error("bad-dtype", message, Location(shapes.path), fix=fix)
            return False
    return True
