"""Whether rows that threads copy are waited for before anything touches them.

A `gather` only begins copies. To all that comes later it has written its buffer, and so has the
`land` that waits for the copies: as nothing touches the buffer between the two, whatever is ordered
with both is ordered with the copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.kernel import Kind, Operation
from schedgen.operations import Operation as Entry
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope

_RULE = "rows-in-flight"


def check_landing(spec: SpecFile, scope: Scope, operations: Sequence[Operation]) -> None:
    """Report gathers that nothing waits for, waits for none, and what comes in between."""
    for number, one in enumerate(operations):
        if one.kind is Kind.GATHER:
            _gather(spec, scope, one, operations[number + 1 :])
        if one.kind is Kind.LAND and not _begun(one, operations[:number]):
            message = f"no gather before '{one.name}', in its list and with its role, fills "
            message += f"exactly '{', '.join(one.writes)}'"
            fix = "give it the buffer, the dimensions and the 'role' of the gather that it is for"
            scope.error(_RULE, message, _listed(spec, one.base), fix=fix)
            return


def _gather(spec: SpecFile, scope: Scope, gather: Operation, later: Sequence[Operation]) -> None:
    """Whether the first that touches what ``gather`` copies waits for it."""
    copied = set(gather.writes)
    first = next((o for o in later if copied & touched(o)), None)
    at = _listed(spec, gather.base)
    fix = f"write {{kind: land, to: {_buffer(spec, gather.base)}, role: ...}} right behind it, "
    fix += "with the role of the gather"
    if first is None or first.kind is not Kind.LAND:
        message = f"nothing waits for the rows that '{gather.name}' copies"
        if first is not None:
            message += f" before '{first.name}' touches them"
        scope.error(_RULE, message, at, fix=fix)
    elif not _pair(gather, first):
        message = f"'{first.name}' cannot wait for the rows that '{gather.name}' copies: it stands "
        message += "in another list, has another role or is for other rows or columns"
        scope.error(_RULE, message, at, fix=fix)


def _begun(land: Operation, before: Sequence[Operation]) -> bool:
    """Whether the last that touches what ``land`` waits for is a gather of just that."""
    mine = set(land.writes)
    last = next((o for o in reversed(before) if mine & touched(o)), None)
    return last is not None and _pair(last, land)


def _pair(gather: Operation, land: Operation) -> bool:
    """Whether ``land`` waits for what ``gather`` begins: they are executed as often, by the same
    threads.
    """
    alike = [(o.phase, o.boundary, o.role, tuple(o.writes)) for o in (gather, land)]
    return gather.kind is Kind.GATHER and gather.role is not None and alike[0] == alike[1]


def touched(operation: Operation) -> set[str]:
    """The pieces that an operation reads or writes."""
    return {*(read.piece for read in operation.reads), *operation.writes}


def _entries(spec: SpecFile) -> list[tuple[Path, Entry]]:
    lists = (("before", "body", "after"), spec.operations)
    return [
        (("operations", phase, n), entry)
        for phase in lists[0]
        for n, entry in enumerate(getattr(lists[1], phase))
    ]


def _listed(spec: SpecFile, base: str) -> Path:
    return next((*path, "id") for path, entry in _entries(spec) if entry.id == base)


def _buffer(spec: SpecFile, base: str) -> str:
    return next(str(getattr(entry, "to", "")) for _, entry in _entries(spec) if entry.id == base)
