"""Where products accumulate, and how the rows of their tiles are spread over warpgroups, where a
spec leaves that to the target: ``space: accumulator``.

On Hopper that is the registers of warpgroups, each of which has 64 rows; on Blackwell tensor
memory, which has 128 lanes. Tiles with more rows are cut into bands, one for each instance of a
dimension that the spec does not have: accumulators, what is computed from their rows, and the left
operands of their products. Which bands a role works on is the solver's choice; where the spec names
the role, each band has its own of that name.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from schedgen.errors import DiagnosticSink
from schedgen.kernel import Space
from schedgen.layouts import TMEM_LANES
from schedgen.operations import Copy, Load, Mma, Operation, Store
from schedgen.spec.schema import Buffer, Dimension, Operations, SpecFile, Split
from schedgen.spec.values import Scope

WORD = "accumulator"
"""The space that the target decides, unless a parameter has that name."""
ROWS = {Space.REGISTERS: 64, Space.TMEM: TMEM_LANES}
"""Rows of an accumulator that a warpgroup holds in its registers, or that tensor memory has."""
DIMENSION = "warpgroup"
_NAME = re.compile(r"[A-Za-z_]\w*")
_OTHERS = {"id", "kind", "about", "label", "role", "unit", "over", "only", "op"}
"""Keys of operations that name no buffers."""


def spread(spec: SpecFile, scope: Scope, space: Space | None) -> tuple[SpecFile, tuple[str, ...]]:
    """``spec`` with accumulators in ``space`` where it leaves that open, and what was decided, for
    people. Mistakes are reported to ``scope``.
    """
    open_ = [] if WORD in spec.parameters else [n for n, b in spec.buffers.items() if _is_open(b)]
    if not open_:
        return spec, ()
    if space is None:
        message = "nothing says where products of this target accumulate"
        path = ("buffers", open_[0], "space")
        scope.error("unknown-space", message, path, fix="write 'tmem' or 'registers'")
        return spec, ()
    placed = {n: _placed(b, space) if n in open_ else b for n, b in spec.buffers.items()}
    spec = spec.model_copy(update={"buffers": placed})
    rows = {name: _rows(spec, scope, name) for name in spec.buffers}
    bands = _Bands(spec, rows)
    for name in open_:
        if rows[name] > ROWS[space] and not _cut(scope, bands, name, space):
            return spec, ()
    bands.follow()
    return bands.applied(open_, space), tuple(_told(rows[name], name, space) for name in open_)


def _is_open(buffer: Buffer) -> bool:
    return buffer.space == WORD


def _placed(buffer: Buffer, space: Space) -> Buffer:
    return buffer.model_copy(update={"space": space.value})


def _rows(spec: SpecFile, scope: Scope, name: str) -> int:
    """Rows of a buffer, 0 if nobody knows: what is wrong with it is reported where it is bound."""
    quiet = Scope(scope.source, DiagnosticSink(), scope.values)
    buffer = spec.buffers[name]
    if not quiet.truth(buffer.only, ("buffers", name, "only")):
        return 0
    found = quiet.integer(buffer.shape[0], ("buffers", name, "shape", 0))
    return 0 if quiet.errors else found


def _cut(scope: Scope, bands: _Bands, name: str, space: Space) -> bool:
    """Whether an accumulator can be cut into bands; notes that it is."""
    each, rows, path = ROWS[space], bands.rows[name], ("buffers", name, "shape", 0)
    if bands.spec.buffers[name].split.rows is not None:
        message = f"the rows of '{name}' are split here, and would be spread over warpgroups"
        fix = f"write '{space.value}' for its space, or leave 'split: {{rows: ...}}' away"
        scope.error("contradicting-keys", message, ("buffers", name, "split"), key=True, fix=fix)
        return False
    if rows % each:
        where = "a warpgroup holds" if space is Space.REGISTERS else "tensor memory has"
        message = f"'{name}' has {rows} rows, and {where} {each}"
        scope.error("rows-of-accumulator", message, path, fix=f"make it a multiple of {each}")
        return False
    bands.count[name] = rows // each
    return True


def _told(rows: int, name: str, space: Space) -> str:
    number = max(1, rows // ROWS[space])
    if space is Space.TMEM:
        return f"{name} is in tensor memory" + (f", {number} x {TMEM_LANES} rows" * (number > 1))
    bands = f"{number} bands of {ROWS[space]} rows, each in the registers of one warpgroup"
    return f"{name} is in " + (bands if number > 1 else "the registers of one warpgroup")


@dataclass
class _Bands:
    """Buffers that are cut into bands, with how many; those in ``turned`` along their columns."""

    spec: SpecFile
    rows: Mapping[str, int]

    def __post_init__(self) -> None:
        self.count: dict[str, int] = {}
        self.turned: set[str] = set()

    def follow(self) -> None:
        """Finds what else is cut: what operations of threads have in the same rows, and the left
        operands of products.
        """
        before = -1
        while before != len(self.count):
            before = len(self.count)
            for entry in _entries(self.spec):
                self._visit(entry)

    def _visit(self, entry: Operation) -> None:
        if isinstance(entry, Load | Store):
            return
        names = list(self._named(entry))
        across = ""  # a left operand of [k, m]: its columns go with the rows of the result
        if isinstance(entry, Mma):
            names = [name for name in names if name != entry.b.partition("@")[0]]
            across = entry.a.partition("@")[0] if entry.transpose_a else ""
        found = [name for name in names if name in self.count and name not in self.turned]
        if not found:
            return
        first = found[0]
        for name in names:
            if name == across:
                self.count.setdefault(name, self.count[first])
                self.turned.add(name)
            elif self.rows[name] == self.rows[first]:
                self.count.setdefault(name, self.count[first])
            elif isinstance(entry, Copy) and entry.transposed:
                self.count.setdefault(name, self.count[first])
                self.turned.add(name)

    def _named(self, entry: Operation) -> Iterator[str]:
        """Buffers that an operation of threads, or a product, has to do with."""
        yield from (name for name in named(entry, self.spec.buffers) if self.rows[name])

    def applied(self, accumulators: list[str], space: Space) -> SpecFile:
        """The spec with its bands: more dimensions, cut buffers, operations for each band."""
        numbers = sorted(set(self.count.values()))
        names = {n: DIMENSION if len(numbers) == 1 else f"{DIMENSION}s_of_{n}" for n in numbers}
        names = {n: self._free(name) for n, name in names.items()}
        dimensions = {name: Dimension(count=n, sizes=None, about="") for n, name in names.items()}
        buffers = dict(self.spec.buffers)
        for name, number in self.count.items():
            alone = space is Space.TMEM and name in accumulators
            buffers[name] = self._banded(name, names[number], number, alone=alone)
        listed = self.spec.operations
        operations = Operations(
            before=[self._over(entry, names) for entry in listed.before],
            body=[self._over(entry, names) for entry in listed.body],
            after=[self._over(entry, names) for entry in listed.after],
        )
        update = {
            "dimensions": {**self.spec.dimensions, **dimensions},
            "buffers": buffers,
            "operations": operations,
        }
        return self.spec.model_copy(update=update)

    def _free(self, name: str) -> str:
        while name in self.spec.dimensions:
            name += "_"
        return name

    def _banded(self, name: str, dimension: str, number: int, *, alone: bool) -> Buffer:
        """A cut buffer, or one for each band where they lie beside each other (``alone``)."""
        buffer = self.spec.buffers[name]
        if alone:
            shape = [self.rows[name] // number, *buffer.shape[1:]]
            return buffer.model_copy(update={"shape": shape, "per": [*buffer.per, dimension]})
        side = {"columns" if name in self.turned else "rows": dimension}
        split = Split(**{**buffer.split.model_dump(), **side})
        return buffer.model_copy(update={"split": split})

    def _over(self, entry: Operation, names: Mapping[int, str]) -> Operation:
        if isinstance(entry, Load | Store):
            return entry
        touched = [name for name in self._named(entry) if name in self.count]
        if isinstance(entry, Mma):
            touched = [name for name in touched if name == entry.d]
        if not touched:
            return entry
        dimension = names[self.count[touched[0]]]
        role = None if entry.role is None else f"{entry.role}{{{dimension}}}"  # of each band
        return entry.model_copy(update={"over": [*entry.over, dimension], "role": role})


def named(entry: Operation, buffers: Container[str]) -> list[str]:
    """Which of ``buffers`` an operation of a spec names, whatever of its keys does."""
    words = _NAME.findall(repr(entry.model_dump(exclude=_OTHERS)))
    return [word for word in dict.fromkeys(words) if word in buffers]


def _entries(spec: SpecFile) -> Iterator[Operation]:
    listed = spec.operations
    yield from (*listed.before, *listed.body, *listed.after)
