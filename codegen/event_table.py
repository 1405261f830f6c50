"""Which words of a record say what: the table at the end of a kernel that was emitted with events.

A kernel with events writes 32-bit words, for one of its blocks, into the tensor `ARGUMENT`:

    word 0                  the block that writes, set by the host
    word 1                  words of each role, set by the host
    then for each role      `CALIBRATION` clocks one right after the other
        for each tile       its trip count, then the words of the section ``before``, those of
                            ``loop`` for each of its turns, those of ``after``

A clock is that of the SM, in cycles modulo 2 ** 32 (PTX ISA, ``%clock``). Words are 0 until they
are written: a step that does not run in a turn leaves 0, and a trip count of 0 ends the list.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from schedgen.codegen.errors import EmitError
from schedgen.codegen.trees import read_tree

ARGUMENT = "event_words"
"""The name of the tensor in ``launch``, after all others."""
HEADER = 2
"""Words before those of the first role."""
CALIBRATION = 8
"""Clocks at the start of each role, from which follows what reading and writing one costs."""

_NAMES = ("SPEC", "EVENT_ROLES", "EVENTS")


@dataclass(frozen=True, slots=True)
class RoleWords:
    """How many words a role writes in each section, and its turns beyond the trip count."""

    role: str
    before: int
    loop: int
    after: int
    shifts: int

    def of_tile(self, trips: int) -> int:
        """Words of a tile with ``trips`` iterations."""
        return 1 + self.before + (max(trips, 1) + self.shifts) * self.loop + self.after


@dataclass(frozen=True, slots=True)
class Event:
    """Something that takes time in a role.

    Attributes:
        kind: ``run`` for the issue of an operation, or all of it if threads compute it; ``wait``
            for a barrier; ``wait_group`` for operations of this role.
        name: of the operation that is run or awaited; of a barrier.
        why: what a wait is for.
        shift: turn of the loop in which iteration 0 comes.
        lag: a wait_group waits for the operation of that many iterations before.
        begin, end: words, in those of the section, with the clocks before and after it.
    """

    role: str
    section: str
    kind: str
    name: str
    why: str
    shift: int
    lag: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class EventTable:
    """What a kernel writes; ``spec_sha256`` is that of its spec."""

    spec_sha256: str
    roles: tuple[RoleWords, ...]
    events: tuple[Event, ...]

    def text(self) -> str:
        """The lines that `read_events` reads back."""
        return "\n".join(
            [
                f'SPEC = "{self.spec_sha256}"',
                *_rows("EVENT_ROLES", [astuple(role) for role in self.roles]),
                *_rows("EVENTS", [astuple(event) for event in self.events]),
                "",
            ]
        )


def read_events(path: Path) -> EventTable:
    """The table in the generated file ``path``.

    Raises EmitError if it has none: it was not emitted with events, or is no generated file.
    """
    _, tree = read_tree(path)
    found: dict[str, Any] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _NAMES:
                found[name] = ast.literal_eval(value)
            case _:
                pass
    if missing := [name for name in _NAMES if name not in found]:
        raise EmitError(
            f"{path}: there is no {missing[0]}, so this kernel records nothing; emit it with "
            "'schedgen emit --events'"
        )
    return table_of(found["SPEC"], found["EVENT_ROLES"], found["EVENTS"])


def table_of(spec: str, roles: Sequence[Any], events: Sequence[Any]) -> EventTable:
    """A table from its rows. Raises EmitError if they are not of this form."""
    try:
        return EventTable(
            spec, tuple(RoleWords(*row) for row in roles), tuple(Event(*row) for row in events)
        )
    except TypeError as error:
        raise EmitError(
            f"the table of events is damaged ({error}); emit the kernel again"
        ) from None


def _rows(name: str, rows: Sequence[tuple[object, ...]]) -> list[str]:
    return [f"{name} = (", *(f"    {_text(row)}," for row in rows), ")"]


def _text(row: tuple[object, ...]) -> str:
    quoted = (f'"{item}"' if isinstance(item, str) else str(item) for item in row)
    return f"({', '.join(quoted)})"
