"""The mbarriers of a launch by their names in the source, and texts that have those names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from schedgen.emulator.launched import Lines
from schedgen.emulator.ptx.tree import Location
from schedgen.emulator.race.names import Name, name_of
from schedgen.emulator.race.places import Barrier, Call

Key = tuple[int, int]
"""CTA and byte offset."""
_NEED = re.compile(r"the mbarrier at (\d+) of CTA (\d+)")
_STATE = re.compile(r"mbarrier at shared offset (0x[0-9a-f]+) of (?=[^()]*\([\d,]+\))")


class Barriers:
    """Names of the mbarriers of a launch.

    Args:
        inits: the line of PTX that initialized each.
        lines: of the launch.
    """

    def __init__(self, inits: Mapping[Key, int], lines: Lines) -> None:
        self._known: dict[Key, Barrier] = {}
        stacks = {line: lines.stack(line) for line in set(inits.values())}
        groups: dict[tuple[int, Name | None, int], list[Key]] = {}
        names = {line: name_of(stack) for line, stack in stacks.items()}
        for key, line in inits.items():
            name = names[line]
            groups.setdefault((key[0], name, 0 if name else line), []).append(key)
        for (_, name, _), keys in groups.items():
            keys.sort()
            for at, key in enumerate(keys):
                self._known[key] = _barrier(key, name, at, len(keys), stacks[inits[key]])

    def __getitem__(self, key: Key) -> Barrier:
        return self._known.get(key) or Barrier("", "", 0, "", key[1])

    def title(self, key: Key) -> str:
        """Its name, or where it lies."""
        return self[key].name or f"mbarrier {key[1]:#x} of CTA {key[0]}"

    def named(self, text: str) -> tuple[str, tuple[Barrier, ...]]:
        """A text of the race checker or the emulator with names in it, and the barriers that it is
        about."""
        found: dict[Barrier, None] = {}

        def need(match: re.Match[str]) -> str:
            one = self[int(match[2]), int(match[1])]
            if one.file:
                found[one] = None
            name = f"{one.name} at " if one.name else "at "
            return f"the mbarrier {name}{match[1]} of CTA {match[2]}"

        def state(match: re.Match[str]) -> str:
            offset = int(match[1], 16)
            one = next((self._known[key] for key in self._known if key[1] == offset), None)
            if one is None or not one.file:
                return match[0]
            found[one] = None
            return f"mbarrier {one.name} at shared offset {match[1]} of " if one.name else match[0]

        return _STATE.sub(state, _NEED.sub(need, text)), tuple(found)

    def at(self, cta: int, low: int) -> Barrier | None:
        """The one at an address in shared memory, if there is one that the source says something
        of."""
        one = self._known.get((cta, low))
        return one if one is not None and one.file else None


def _barrier(
    key: Key, name: Name | None, at: int, count: int, stack: tuple[Location, ...]
) -> Barrier:
    text = ""
    if name is not None:
        half = count // 2
        if name.halves and count % 2 == 0:
            text = f"{name.text}.{'full' if at < half else 'empty'}"
            at %= half
        else:
            text = name.text
        text += f"[{at}]" if count > 1 or name.halves else ""
    if not stack:
        return Barrier(text, "", 0, "", key[1])
    place = Call.of(stack[0])
    return Barrier(text, place.file, place.line, place.text, key[1])
