"""Names of barriers: what they make known, and if several do that, who signals or waits.

A barrier is called after what it is about, ``S[0] full``. Where several barriers would have one
name, it goes on with what tells them apart: the role that signals, operations that signal, the role
or the operations that wait (``S[0] full by softmax1``, ``S[0] full by STP[1,0]``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from schedgen.synchronize.layout import Layout
from schedgen.synchronize.parts import Handoff, Signal


@dataclass(frozen=True, slots=True)
class Guard:
    """What a barrier is for: the signals that it takes and who waits for them."""

    signals: tuple[Signal, ...]
    handoffs: tuple[Handoff, ...]

    @property
    def plain(self) -> str:
        """What it is about, each with whether it is full or empty then."""
        reasons = dict.fromkeys((h.allocation, h.fills) for h in self.handoffs)
        return " ".join(dict.fromkeys(f"{s} {'full' if f else 'empty'}" for s, f in reasons))


def names_of(layout: Layout, guards: Sequence[Guard]) -> list[str]:
    """A name for each, all different."""
    alike: dict[str, list[Guard]] = {}
    for guard in guards:
        alike.setdefault(guard.plain, []).append(guard)
    suffixes = {
        id(guard): suffix
        for group in alike.values()
        for guard, suffix in zip(group, _suffixes(layout, group), strict=True)
    }
    found: list[str] = []
    for guard in guards:
        name = base = f"{guard.plain}{suffixes[id(guard)]}"
        number = 2
        while name in found:
            name, number = f"{base} {number}", number + 1
        found.append(name)
    return found


Label = Callable[[Guard], Iterable[str]]


def _suffixes(layout: Layout, guards: Sequence[Guard]) -> list[str]:
    """What tells them apart, in the shortest way that does; nothing if there is no such way."""
    if len(guards) == 1:
        return [""]
    for most in (1, len(layout.kernel.operations)):
        for word, label in _ways(layout):
            labels = [tuple(dict.fromkeys(label(guard))) for guard in guards]
            if len({*labels}) == len(guards) and max(map(len, labels)) <= most:
                return [f" {word} {' '.join(found)}" for found in labels]
    return ["" for _ in guards]


def _ways(layout: Layout) -> tuple[tuple[str, Label], ...]:
    role, operation = layout.role_of, layout.kernel.operation
    return (
        ("by", lambda guard: (role[s.operation] for s in guard.signals)),
        ("by", lambda guard: (operation[s.operation].base for s in guard.signals)),
        ("by", lambda guard: (s.operation for s in guard.signals)),
        ("for", lambda guard: (role[h.target] for h in guard.handoffs)),
        ("for", lambda guard: (operation[h.target].base for h in guard.handoffs)),
        ("for", lambda guard: (h.target for h in guard.handoffs)),
    )
