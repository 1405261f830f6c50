"""Whether values flow as the sequential order of a spec says, and every buffer has its use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from schedgen.expressions import references
from schedgen.kernel import Operation, Phase, Read, Region, Ring
from schedgen.spec.layout import Layout
from schedgen.spec.values import Location, Scope

_Mistake = tuple[str, str, str]  # rule, message, fix


class Dataflow:
    """Who reads and who writes each piece, in which part of the kernel.

    Boundary operations do not count: the steady state runs without them.
    """

    def __init__(self, layout: Layout, operations: tuple[Operation, ...]) -> None:
        self.layout = layout
        self.operations = operations
        self.steady = tuple(o for o in operations if not o.boundary)

    @cached_property
    def before(self) -> set[str]:
        """Pieces written before the main loop."""
        return _written(o for o in self.steady if o.phase is Phase.BEFORE)

    @cached_property
    def body(self) -> set[str]:
        """Pieces written in every iteration of the main loop."""
        return _written(o for o in self.steady if o.phase is Phase.BODY)

    @cached_property
    def region_of(self) -> dict[str, Region]:
        """The region that each piece is part of."""
        return {
            piece: self.layout.regions[region]
            for region, pieces in self.layout.pieces.items()
            for piece in pieces
        }

    def rotates(self, region: str) -> bool:
        """Whether the main loop writes a region."""
        return any(piece in self.body for piece in self.layout.pieces[region])


def check_dataflow(
    scope: Scope,
    flow: Dataflow,
    rings: tuple[Ring, ...],
    locations: Mapping[tuple[str, Read], Location],
) -> None:
    """Report reads without a write, buffers without a use, and sharing that cannot be ordered.

    ``locations`` says where in the file each read of each operation stands.
    """
    _check_reads(scope, flow, locations)
    _check_unused(scope, flow)
    if scope.sink:
        return
    _check_lifetimes(scope, flow)
    for ring in rings:
        turning = [flow.rotates(region) for region in ring.regions]
        if any(turning) and not all(turning):
            still = flow.layout.regions[ring.regions[turning.index(False)]].base
            message = f"ring '{ring.name}' mixes buffers that the main loop fills with '{still}'"
            at = ("rings", ring.name, "buffers")
            scope.error("mixed-ring", message, at, fix=f"give '{still}' storage of its own")
    _check_aliases(scope, flow)


def _check_reads(
    scope: Scope, flow: Dataflow, locations: Mapping[tuple[str, Read], Location]
) -> None:
    """Everything read was written before, or is carried over from an earlier iteration."""
    written: dict[Phase, set[str]] = {phase: set() for phase in Phase}
    masked: set[str] = set()  # written by boundary operations, for boundary operations only
    reported: set[tuple[str, str, _Mistake]] = set()
    for operation in flow.operations:
        here = written[operation.phase]
        for read in operation.reads:
            fresh = here | masked if operation.boundary else here
            region = flow.region_of[read.piece]
            if operation.phase is Phase.BODY:
                mistake = _mistake_in_loop(flow, region, operation, read, fresh)
            else:
                mistake = _mistake_outside(region, operation, read, written)
            if mistake is not None and (operation.base, region.base, mistake) not in reported:
                reported.add((operation.base, region.base, mistake))
                rule, message, fix = mistake
                scope.error(rule, message, locations[operation.name, read], fix=fix)
        (masked if operation.boundary else here).update(operation.writes)


def _mistake_in_loop(
    flow: Dataflow, region: Region, operation: Operation, read: Read, fresh: set[str]
) -> _Mistake | None:
    """Return what is wrong with a read, given the pieces that this iteration has written."""
    name, reader = region.base, operation.base
    if read.distance == 0:
        if read.piece in fresh:
            return None
        if read.piece in flow.body:
            message = f"'{reader}' reads '{name}' before this iteration has written it"
            return "read-before-write", message, f"read '{name}@1', or list its writer first"
        if read.piece in flow.before:
            return None
        message = f"'{reader}' reads '{name}', which nothing has written before"
        return "read-before-write", message, f"load or compute '{name}' first"
    if read.piece not in flow.body:
        message = f"'{name}@{read.distance}': the main loop does not write '{name}'"
        return "carried-constant", message, f"write '{name}', or list its writer in 'body'"
    if region.initial is None and read.piece not in flow.before:
        message = f"'{reader}' reads '{name}' of an iteration earlier, which the first one has not"
        fix = f"give '{name}' an initial value, such as 'initial: 0', or write it before the loop"
        return "missing-initial", message, fix
    return None


def _mistake_outside(
    region: Region, operation: Operation, read: Read, written: dict[Phase, set[str]]
) -> _Mistake | None:
    """Return what is wrong with a read before or after the main loop."""
    name = region.base
    if read.distance:
        message = f"'{name}@{read.distance}' has no meaning outside the main loop"
        return "carried-outside-loop", message, f"write '{name}'"
    if region.initial is not None or any(read.piece in pieces for pieces in written.values()):
        return None
    message = f"'{operation.base}' reads '{name}', which nothing has written before"
    return "read-before-write", message, f"load or compute '{name}' first"


def _check_unused(scope: Scope, flow: Dataflow) -> None:
    """A buffer that nothing writes or nothing reads is a mistake.

    An operation that uses one region of a buffer has instances for all of them. What a formula
    takes from one before it in the same operation is no read that waits for anything.
    """
    read = {flow.region_of[read.piece].base for o in flow.operations for read in o.reads}
    formulas = (formula for o in flow.operations for _, formula in o.formulas)
    read |= {name.name for formula in formulas for name in references(formula)}
    written = {flow.region_of[piece].base for o in flow.operations for piece in o.writes}
    for name in flow.layout.present:
        verb = "writes" if name not in written else "reads" if name not in read else None
        if verb is not None:
            fix = "remove it, or leave it out with 'only'"
            path = ("buffers", name)
            scope.error("unused-buffer", f"nothing {verb} '{name}'", path, key=True, fix=fix)


def _check_lifetimes(scope: Scope, flow: Dataflow) -> None:
    """What is written once per tile and read in every iteration must not change its slot."""
    read = {read.piece for o in flow.operations if o.phase is Phase.BODY for read in o.reads}
    kept = (read & flow.before) - flow.body
    for name in {flow.region_of[piece].base: None for piece in sorted(kept)}:
        if flow.layout.present[name].lives == "iteration":
            message = f"'{name}' is written before the main loop, and every iteration reads it"
            path = ("buffers", name)
            scope.error("wrong-lifetime", message, path, key=True, fix="add 'lives: tile'")


def _check_aliases(scope: Scope, flow: Dataflow) -> None:
    """Who shares bytes takes turns in every iteration: only then is each reuse ordered."""
    for name, regions in flow.layout.names.items():
        region = flow.layout.regions[regions[0]]
        hosts = [option.host for option in region.options if option.host is not None]
        for member in [region.name, *hosts] if hosts else []:
            buffer = flow.layout.regions[member]
            if buffer.per_tile or not flow.rotates(member):
                why = "lives for a tile" if buffer.per_tile else "is not written in the main loop"
                message = f"'{buffer.base}' {why} and cannot share bytes with others"
                at = ("buffers", name, "alias")
                scope.error("alias-lifetime", message, at, fix="remove the alias")
                break


def _written(operations: Iterable[Operation]) -> set[str]:
    return {piece for operation in operations for piece in operation.writes}
