"""Tiles in the registers of a warpgroup, laid out as the tensor cores leave them.

Thread t of a warpgroup has of 64 rows and N columns the elements v = v0 + 2 v1 + 4 v2 with row
16 (t / 32) + (t / 4) % 8 + 8 v1 and column 8 v2 + 2 (t % 4) + v0 (PTX ISA, register fragments of
wgmma.mma_async). Four neighbouring threads share a row; a vector with a value per row has two
elements in each thread, and all four hold the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code
from schedgen.codegen.masks import always
from schedgen.codegen.plan import DTYPES, Part, Plan, number
from schedgen.codegen.source import Source
from schedgen.expressions import Expression, Name, references
from schedgen.kernel import Kind, Operation, Region, Space
from schedgen.program.model import Access
from schedgen.tensors import Place

ROWS = 64
"""Rows of a warpgroup's fragment."""


@dataclass
class Work:
    """An operation under emission: where it stands, and names of what it has read."""

    operation: Operation
    i: str
    c: str
    loaded: dict[str, str]


class Fragments:
    """Element-wise operations, reductions, masks and copies of one role."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    # -- registers -----------------------------------------------------------------------------

    def name(self, region: Region) -> str:
        return self.plan.names.of("registers", region.name, "r_")

    def declare(self, source: Source, role: str) -> None:
        """Registers of all regions that a role works on."""
        for region in self._regions(role):
            count = 2 if len(region.shape) == 1 else region.shape[1] // 2
            source.add(
                f"{self.name(region)} = cute.make_rmem_tensor({count}, {DTYPES[region.dtype]})"
            )

    def initialize(self, source: Source, role: str) -> None:
        """At the beginning of a tile."""
        for region in self._regions(role):
            if region.initial is not None:
                source.add(f"{self.name(region)}.fill({_initial(region.initial)})")

    def _regions(self, role: str) -> list[Region]:
        found: dict[str, Region] = {}
        for operation in self.plan.runs[role]:
            for _, pieces in operation.operands:
                region = self.plan.kernel.region_of(pieces[0])
                if region.space is Space.REGISTERS:
                    self._check(self.plan.covered([self.plan.kernel.piece[p] for p in pieces]))
                    found[region.name] = region
        return list(found.values())

    def _check(self, part: Part) -> None:
        if part.rows != ROWS:
            raise EmitError(f"'{part.region.name}': a warpgroup has {ROWS} rows, not {part.rows}")
        slots = self.plan.program.store
        if part.region.name in slots and slots[part.region.name].slots > 1:
            raise EmitError(f"'{part.region.name}': a ring of registers is not supported")

    def offset(self, part: Part) -> int:
        """The first element of a part in its registers."""
        return part.column0 // 2

    # -- operations ----------------------------------------------------------------------------

    def run(self, source: Source, operation: Operation, i: str, c: str) -> None:
        """Writes an operation of the threads."""
        work = Work(operation, i, c, {})
        match operation.kind:
            case Kind.REDUCE:
                self._reduce(source, work)
            case Kind.MASK:
                self._mask(source, work)
            case Kind.MAP:
                self._load(source, work, [formula for _, formula in operation.formulas])
                self._map(source, work, list(operation.formulas))
            case Kind.COPY:
                self._load(source, work, [Name("from")])
                self._map(source, work, [("to", Name("from"))])
            case _:
                raise EmitError(f"{operation.name}: {operation.kind} is no operation of threads")

    def _is_vector(self, operation: Operation, operand: str) -> bool:
        return len(self.plan.part(operation, operand).region.shape) == 1

    def _map(self, source: Source, work: Work, formulas: list[tuple[str, Expression]]) -> None:
        """Each output in the order of the formulas; a later one sees what earlier ones made."""
        operation = work.operation
        groups: list[tuple[bool, list[tuple[str, Expression]]]] = []
        for output, formula in formulas:
            vector = self._is_vector(operation, output)
            if not groups or groups[-1][0] != vector:
                groups.append((vector, []))
            groups[-1][1].append((output, formula))
        for vector, some in groups:
            self._loop(source, work, some, vector=vector)

    def _loop(
        self, source: Source, work: Work, formulas: list[tuple[str, Expression]], *, vector: bool
    ) -> None:
        operation = work.operation
        parts = {output: self.plan.part(operation, output) for output, _ in formulas}
        count = 2 if vector else next(iter(parts.values())).columns // 2
        for output, part in parts.items():
            if part.region.space is Space.SMEM:
                name = f"o_{self.plan.names.of('operation', operation.name)}_{output}"
                source.add(f"{name} = cute.make_rmem_tensor({count}, {DTYPES[part.region.dtype]})")
                work.loaded[f"={output}"] = name
        with source.block(f"for v in cutlass.range_constexpr({count}):"):
            self._elements(source, work, formulas, parts, vector=vector)
        for output, part in parts.items():
            if part.region.space is Space.SMEM:
                self._put(source, work, output, part)

    def _elements(
        self,
        source: Source,
        work: Work,
        formulas: list[tuple[str, Expression]],
        parts: dict[str, Part],
        *,
        vector: bool,
    ) -> None:
        """One element of each output; values of this iteration go through ``y_…``."""
        operation, made = work.operation, dict[str, str]()

        def look(name: Name) -> str:
            pieces = dict(operation.operands).get(name.name)
            if pieces is not None and name.distance == 0:
                for output, value in made.items():
                    if dict(operation.operands)[output] == pieces:
                        return value
            return self._element(work, name, vector=vector)

        when = operation.when if operation.kind is Kind.MAP else None
        row_old = {n for _, f in formulas for n in references(f) if n.distance}
        for name in row_old:  # what an earlier output of the same iteration may write over
            old = f"old_{name.name}"
            source.add(f"{old} = {self._element(work, Name(name.name), vector=vector)}")
        olds = {name.name for name in row_old}

        def seen(name: Name) -> str:
            return f"old_{name.name}" if name.distance and name.name in olds else look(name)

        for output, formula in formulas:
            value = f"y_{output}"
            text = code(formula, seen)
            if when is not None:
                kept = self._element(work, Name(output), vector=vector)
                text = f"Float32({text}) if {code(when, seen)} else Float32({kept})"
            source.add(f"{value} = Float32({text})")
            target = work.loaded.get(f"={output}")
            if target is None:
                at = "v" if vector else _plus("v", self.offset(parts[output]))
                target, index = self.name(parts[output].region), at
            else:
                index = "v"
            dtype = DTYPES[parts[output].region.dtype]
            source.add(
                f"{target}[{index}] = {value}" + ("" if dtype == "Float32" else f".to({dtype})")
            )
            made[output] = value

    def _element(self, work: Work, name: Name, *, vector: bool) -> str:
        """Element v of what a name means, as float32."""
        operation = work.operation
        if name.name not in dict(operation.operands):
            return name.name
        part = self.plan.part(operation, name.name)
        row = "v" if vector else "v // 2 % 2"
        if part.region.space is Space.REGISTERS:
            at = row if len(part.region.shape) == 1 else _plus("v", self.offset(part))
            text = f"{self.name(part.region)}[{at}]"
        else:
            view = self.plan.views[part.region.name]
            text = f"{work.loaded[name.name]}[{row if view.columns == 1 else 'v'}]"
        return text if part.region.dtype == "f32" else f"Float32({text})"

    # -- shared memory -------------------------------------------------------------------------

    def _slot(self, access: Access, c: str) -> str:
        slots = self.plan.slots(access)
        return f"slot({number(access.version, slots, c)}, {slots})" if slots > 1 else "0"

    def _tile(self, work: Work, operand: str, part: Part, *, write: bool) -> str:
        """The part of a view in shared memory that an operand means, in its slot."""
        view = self.plan.views[part.region.name]
        slot = self._slot(self.plan.access(work.operation, operand, write=write), work.c)
        whole = (part.rows, part.columns) == (view.rows, view.columns)
        if whole:
            return f"{view.name}[(None, None, {slot})]"
        tile = f"({part.rows}, {part.columns})"
        at = f"({part.row0 // part.rows}, {part.column0 // part.columns})"
        return f"cute.local_tile({view.name}[(None, None, {slot})], {tile}, {at})"

    def _load(self, source: Source, work: Work, formulas: list[Expression]) -> None:
        """Copies what lies in shared memory to registers."""
        operation = work.operation
        names = {name.name for formula in formulas for name in references(formula)}
        for operand in sorted(names & set(dict(operation.operands))):
            part = self.plan.part(operation, operand)
            if part.region.space is not Space.SMEM:
                continue
            view = self.plan.views[part.region.name]
            name = f"x_{self.plan.names.of('operation', operation.name)}_{operand}"
            work.loaded[operand] = name
            dtype = DTYPES[part.region.dtype]
            if view.columns == 1:
                slot = self._slot(self.plan.access(operation, operand, write=False), work.c)
                source.add(f"{name} = rows_of({view.name}, {slot}, thread)")
            elif view.rows == 1:
                slot = self._slot(self.plan.access(operation, operand, write=False), work.c)
                columns = f"{part.column0}, {part.columns}"
                source.add(f"{name} = columns_of({view.name}, {columns}, {slot}, thread)")
            else:
                tile = self._tile(work, operand, part, write=False)
                source.add(f"{name} = load_fragment({tile}, {part.columns}, {dtype}, thread)")

    def _put(self, source: Source, work: Work, output: str, part: Part) -> None:
        """Copies what was computed from registers to shared memory."""
        view, name = self.plan.views[part.region.name], work.loaded[f"={output}"]
        access = self.plan.access(work.operation, output, write=True)
        if view.columns == 1:
            source.add(f"store_rows({name}, {view.name}, {self._slot(access, work.c)}, thread)")
            return
        tile = self._tile(work, output, part, write=True)
        if work.operation.transposed:
            source.add(f"store_fragment({name}, transposed({tile}), {part.rows}, thread)")
        else:
            source.add(f"store_fragment({name}, {tile}, {part.columns}, thread)")

    # -- reductions and masks ------------------------------------------------------------------

    def _reduce(self, source: Source, work: Work) -> None:
        operation = work.operation
        formulas = dict(operation.formulas)
        if "keep" in formulas:
            raise EmitError(f"{operation.name}: a reduction with a mask is not supported")
        part, to = self.plan.part(operation, "from"), self.plan.part(operation, "to")
        largest = operation.reduction == "max"
        first = self.offset(part)
        registers, result = self.name(part.region), self.name(to.region)
        if part.region.space is not Space.REGISTERS or to.region.space is not Space.REGISTERS:
            raise EmitError(f"{operation.name}: reductions work on registers")
        with source.block("for v in cutlass.range_constexpr(2):"):
            function = "row_max" if largest else "row_sum"
            source.add(f"y = {function}({registers}, {first}, {part.columns // 2}, v)")
            if "carry" in formulas:
                carry = code(formulas["carry"], lambda n: self._element(work, n, vector=True))
                source.add(f"y = cute.arch.fmax({carry}, y)" if largest else f"y = {carry} + y")
            source.add(f"{result}[v] = y")
        rest = [(n, f) for n, f in operation.formulas if n != "carry"]
        if rest:
            self._map(source, work, rest)

    def _mask(self, source: Source, work: Work) -> None:
        operation = work.operation
        part = self.plan.part(operation, "from")
        keep = dict(operation.formulas)["keep"]
        rows, columns = (self._start(operation.places[side], work.i) for side in (0, 1))
        label = self.plan.names.of("operation", operation.name)
        source.add(f"row_{label}, column_{label} = {rows}, {columns}")
        everywhere = always(keep, f"row_{label}", f"column_{label}", part.rows, part.columns)
        loop = f"for v in cutlass.range_constexpr({part.columns // 2}):"
        with source.block(f"if not {everywhere}:"), source.block(loop):
            source.add(
                f"row = row_{label} + thread // 32 * 16 + thread % 32 // 4 + 8 * (v // 2 % 2)",
                f"column = column_{label} + 8 * (v // 4) + 2 * (thread % 4) + v % 2",
            )
            text = code(keep, lambda name: name.name)
            target = f"{self.name(part.region)}[{_plus('v', self.offset(part))}]"
            with source.block(f"if not {text}:"):
                source.add(f"{target} = {_initial(operation.fill or '-inf')}")

    def _start(self, place: Place, i: str) -> str:
        terms = [f"{place.block} * at_{place.along}"] if place.block else []
        terms += [f"{place.step} * ({i})"] if place.step else []
        terms += [str(place.offset)] if place.offset else []
        return " + ".join(terms) or "0"


def _plus(text: str, offset: int) -> str:
    return f"{text} + {offset}" if offset else text


def _initial(value: str) -> str:
    known = {"-inf": "-Float32.inf", "inf": "Float32.inf"}
    return known[value] if value in known else str(float(value))
