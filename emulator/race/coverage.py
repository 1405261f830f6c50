"""Which waits, arrives and fences of the kernels were executed at all, in any launch and schedule.

What was not executed was not checked: a race behind a branch that no input takes is not found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schedgen.emulator.launched import Lines
from schedgen.emulator.ptx.synchronization import synchronizes, waits
from schedgen.emulator.ptx.tree import Location
from schedgen.emulator.race.places import Place


@dataclass(frozen=True, slots=True)
class Gap:
    """Synchronization of one line of the source that was not executed, or never had to wait.

    Attributes:
        kernel: its name.
        place: the first instruction of it.
        instruction: its name.
        lines: of PTX, of all such instructions that the line became.
        of: how many instructions of this name the line became, those that were executed, too.
        launches: of the kernel that came to their end.
    """

    kernel: str
    place: Place
    instruction: str
    lines: tuple[int, ...]
    of: int
    launches: int

    @property
    def whole(self) -> bool:
        """Whether this is all that the line became."""
        return len(self.lines) == self.of


@dataclass(frozen=True, slots=True)
class _Known:
    """An instruction that synchronizes; ``stack`` is where it stands, innermost first."""

    line: int
    name: str
    text: str
    stack: tuple[Location, ...]
    waits: bool


@dataclass
class _Kernel:
    name: str
    known: tuple[_Known, ...]
    launches: int = 0
    executed: set[int] = field(default_factory=set[int])
    blocked: set[int] = field(default_factory=set[int])


class Coverage:
    """What of the synchronization of kernels was executed.

    A kernel is told from others by its name and the text of its module.
    """

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, int], _Kernel] = {}

    def note(
        self, kernel: str, ptx: str, lines: Lines, executed: Iterable[int], blocked: Iterable[int]
    ) -> None:
        """A launch has ended: which lines of PTX were executed, in which warps had to wait."""
        key = kernel, hash(ptx)
        if key not in self._kernels:
            self._kernels[key] = _Kernel(kernel, tuple(_synchronization(kernel, lines)))
        one = self._kernels[key]
        one.launches += 1
        one.executed.update(executed)
        one.blocked.update(blocked)

    @property
    def instructions(self) -> int:
        """Instructions that synchronize, of all kernels."""
        return sum(len(one.known) for one in self._kernels.values())

    def unexecuted(self) -> tuple[Gap, ...]:
        """What no launch executed under any schedule, in the order of kernels and lines."""
        return tuple(
            gap
            for one in self._kernels.values()
            for gap in _gaps(one, one.known, {k.line for k in one.known} - one.executed)
        )

    def unblocked(self) -> tuple[Gap, ...]:
        """Waits that were executed, and in which no warp ever had to wait."""
        return tuple(
            gap
            for one in self._kernels.values()
            for gap in _gaps(one, [k for k in one.known if k.waits], one.executed - one.blocked)
            if gap.whole
        )


def _synchronization(kernel: str, lines: Lines) -> Iterator[_Known]:
    for one in lines.module.kernels[kernel].body:
        if synchronizes(one):
            stack = lines.stack(one.line)
            yield _Known(one.line, one.name, lines.text(one.line), stack, waits(one))


def _gaps(kernel: _Kernel, among: Iterable[_Known], missing: Iterable[int]) -> Iterator[Gap]:
    """Instructions of one name and place together."""
    wanted = set(missing)
    groups: dict[tuple[object, ...], list[_Known]] = {}
    for one in among:
        groups.setdefault((one.stack or one.line, one.name), []).append(one)
    for group in groups.values():
        lines = tuple(one.line for one in group if one.line in wanted)
        if not lines:
            continue
        first = next(one for one in group if one.line == lines[0])
        where = first.stack[0] if first.stack else None
        place = Place.of(where, first.line, first.text, calls=first.stack[1:])
        yield Gap(kernel.name, place, first.name, lines, len(group), kernel.launches)
