"""Runs of elementwise instructions as `interpreter` executes them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.elementwise import Elementwise, described
from schedgen.emulator.machine.lanes import LANES, Lanes
from schedgen.emulator.native.bodies import Bodies, body
from schedgen.emulator.native.engine import Builtin, Engine, engine
from schedgen.emulator.native.interpreter import bound
from schedgen.emulator.native.lowering import Call, lowered, needs_half

_FEW, _LONG = 4, 16
"""Parts that a run may have in any case, and instructions for each further one."""
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "float": 4, "i64": 8}
_LINE = 8 * LANES
"""Bytes of the lanes of the widest register."""


class Native(NamedTuple):
    """What a run does: ``full`` takes the register lists of warps, ``masked`` the lanes and one
    such list. They return False, and have done nothing, where a register is no array."""

    full: Builtin
    masked: Builtin


class _Part(NamedTuple):
    """A call of all steps with a key. ``sources``: numbers of the instruction's, or addresses of
    literals. ``put`` is what puts the result into some lanes."""

    function: int
    target: int
    sources: tuple[tuple[int, int], ...]
    put: int


@cache
def _bodies(made: Engine) -> Bodies:
    return Bodies(made)


_calls: dict[Hashable, tuple[Call, ...] | None] = {}
"""By the key of instructions, as the next one."""
_parts: dict[Hashable, tuple[_Part, ...]] = {}


def calls_of(step: Elementwise) -> tuple[Call, ...] | None:
    """The calls that compute a step; None where numpy does."""
    key = step.key
    if key in _calls:
        return _calls[key]
    made = engine()
    found = None if made is None else lowered(described(key), step)
    if found is not None and not (_fit(found, step) and _can(found)):
        found = None
    _calls[key] = found
    return found


def _can(calls: Sequence[Call]) -> bool:
    """Whether the processor has what bodies need."""
    made = engine()
    return made is not None and (made.half or not needs_half(calls))


def _fit(calls: Sequence[Call], step: Elementwise) -> bool:
    """Whether literals are as wide as bodies take them."""
    for call in calls:
        types = getattr(body(call.body), "sources", ("float",))
        for one, type_ in zip(call.sources, types, strict=True):
            lanes = step.sources[one].constant if isinstance(one, int) else one
            if lanes is not None and lanes.itemsize != _BYTES[type_]:
                return False
    return True


def prepared(steps: Iterable[Elementwise]) -> None:
    """Compiles at once what some steps need: much less work than one after the other."""
    made = engine()
    if made is not None:
        names = [call.body for step in steps for call in calls_of(step) or ()]
        _bodies(made).load([*names, *(f"put.i{8 << n}" for n in range(4))])


def split(steps: list[Elementwise]) -> Sequence[list[Elementwise]]:
    """A run as parts that are native as a whole or not at all; in one where these would be many:
    numpy computes what is alike together, wherever in the run it is."""
    parts = [[*group] for _, group in groupby(steps, lambda step: calls_of(step) is None)]
    return parts if len(parts) <= _FEW + len(steps) // _LONG else [steps]


def native(steps: Sequence[Elementwise], wanted: Collection[int] | None) -> Native | None:
    """The run of some steps; None where one of them has no calls.

    Args:
        steps: the instructions.
        wanted: registers that have to hold, at the end, what the run leaves in them; None: all.
            What the run reads from before is wanted in any case.
    """
    made = engine()
    if made is None or any(calls_of(step) is None for step in steps):
        return None
    known = _bodies(made)
    parts = [_parts.get(step.key) or _parts_of(known, step) for step in steps]
    return Native(*bound(made, _words(steps, parts, wanted)))


def _parts_of(known: Bodies, step: Elementwise) -> tuple[_Part, ...]:
    found: list[_Part] = []
    for call in calls_of(step) or ():
        sources: list[tuple[int, int]] = []
        for one in call.sources:
            lanes = step.sources[one].constant if isinstance(one, int) else one
            number = one if isinstance(one, int) else -1
            sources.append((number, 0) if lanes is None else (-1, _constant(lanes)))
        put = known[f"put.i{8 * np.dtype(step.targets[call.target].kept).itemsize}"]
        found.append(_Part(known[call.body], call.target, tuple(sources), put))
    parts = _parts[step.key] = tuple(found)
    return parts


def _words(
    steps: Sequence[Elementwise],
    parts: Sequence[tuple[_Part, ...]],
    wanted: Collection[int] | None,
) -> NDArray[np.int64]:
    """A run as `interpreter` reads it. Places: registers that are read before they are written,
    those that are only written, then literals."""
    reads: dict[int, type[np.generic]] = {}
    writes: dict[int, type[np.generic]] = {}
    for step in steps:
        for source in step.sources:
            if source.constant is None and source.slot not in writes:
                reads.setdefault(source.slot, source.kept)
        for target in step.targets:
            writes.setdefault(target.slot, target.kept)
    places = dict(zip(reads, range(len(reads)), strict=True))
    for slot in writes:
        places.setdefault(slot, len(places))
    hidden = [s for s in writes if s not in reads and wanted is not None and s not in wanted]
    room = _scratch.room(len(places) + len(reads))
    known = [0] * len(places)
    for slot in hidden:
        known[places[slot]] = room + _LINE * places[slot]
    literals: dict[int, int] = {}
    calls: list[int] = []
    for step, every in zip(steps, parts, strict=True):
        sources, targets = step.sources, step.targets
        for function, target, taken, put in every:
            three = [0, 0, 0]
            for at, (number, address) in enumerate(taken):
                if number >= 0:
                    three[at] = places[sources[number].slot]
                else:
                    three[at] = literals.setdefault(address, len(places) + len(literals))
            calls += (function, places[targets[target].slot], *three, put)
    words = [len(reads), len(writes) - len(hidden), len(calls) // 6]
    words += [len(places) + len(literals), *known, *literals]
    beside = room + _LINE * len(places)
    for at, (slot, kept) in enumerate(reads.items()):
        words += (slot, _types[kept].itemsize, beside + _LINE * at)
    skipped = set(hidden)
    for slot, kept in writes.items():
        if slot not in skipped:
            type_ = _types[kept]
            words += (slot, type_.itemsize, places[slot], int(slot in reads), id(type_))
    return np.array(words + calls, np.int64)


_types: dict[type[np.generic], np.dtype[np.generic]] = {
    kind: np.dtype(kind) for kind in (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64)
}
"""Of registers; kept here because runs have their addresses."""


class _Scratch:
    """Memory for lanes that no register keeps."""

    def __init__(self) -> None:
        self._memory: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._kept: list[object] = []
        self.start = 0

    def room(self, lines: int) -> int:
        """The address of so many lines, which others use, too, at other times."""
        if lines * _LINE + 64 > self._memory.size:
            self._memory = np.zeros(2 * lines * _LINE + 64, np.uint8)
            self._kept.append(self._memory)
            self.start = (self._memory.ctypes.data + 63) // 64 * 64
        return self.start


_scratch = _Scratch()
_constants: dict[tuple[np.dtype[np.generic], bytes], tuple[Lanes, int]] = {}
"""Lanes of literals, which stay, and their addresses."""


def _constant(lanes: Lanes) -> int:
    key = lanes.dtype, lanes[:1].tobytes()
    found = _constants.get(key)
    if found is None:
        every = np.full(LANES, lanes[0])
        found = _constants[key] = every, every.ctypes.data
    return found[1]
