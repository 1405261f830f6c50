"""Places in the source that findings name: lines, calls around them, barriers."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from schedgen.emulator.launched import Lines
from schedgen.emulator.ptx.tree import Location


@dataclass(frozen=True, slots=True)
class Call:
    """A line of the source, with its text without indentation."""

    file: str
    line: int
    text: str

    @staticmethod
    def of(location: Location) -> Call:
        """The line that `location` names."""
        text = linecache.getline(location.file, location.line).strip()
        return Call(location.file, location.line, text)

    @property
    def name(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source.

    Attributes:
        file: as the compiler names it; empty where PTX says nothing of its source.
        line: from 1; 0 if not known.
        text: of the line of the source, without indentation.
        ptx: the line of PTX, 0 if not known.
        instruction: the text of that line.
        who: the warp and what it does there.
        calls: through which it was inlined, innermost first, to the kernel.
    """

    file: str
    line: int
    text: str
    ptx: int
    instruction: str
    who: str = ""
    calls: tuple[Call, ...] = ()

    @staticmethod
    def of(
        location: Location | None,
        ptx: int,
        instruction: str,
        who: str = "",
        calls: Iterable[Location] = (),
    ) -> Place:
        """The place that `location`, of the instruction in line `ptx`, names."""
        if location is None:
            return Place("", 0, "", ptx, instruction, who)
        at = Call.of(location)
        around = tuple(map(Call.of, calls))
        return Place(at.file, at.line, at.text, ptx, instruction, who, around)

    @staticmethod
    def at(lines: Lines, ptx: int, who: str = "") -> Place:
        """The place of the instruction in a line of PTX, with the calls around it."""
        return Place.of(lines.location(ptx), ptx, lines.text(ptx), who, lines.stack(ptx)[1:])

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "file": self.file,
            "line": self.line,
            "source": self.text,
            "ptx_line": self.ptx,
            "instruction": self.instruction,
            "who": self.who,
            "calls": [asdict(call) for call in self.calls],
        }

    @property
    def name(self) -> str:
        """``file:line``, or the line of PTX."""
        return f"{self.file}:{self.line}" if self.file else f"PTX line {self.ptx}"


@dataclass(frozen=True, slots=True)
class Barrier:
    """An mbarrier.

    Attributes:
        name: as ``storage.full[1]``; empty where it has none.
        file, line, text: of the source, where it was initialized; empty if PTX does not say it.
        offset: in bytes, in the shared memory of its CTA.
    """

    name: str
    file: str
    line: int
    text: str
    offset: int
