"""Paths through the PTX of a kernel: the control flow graph that `paths` looks at.

Paths are those of the text, whether or not a launch takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from schedgen.emulator.ptx.tree import Instruction, Kernel

Test = Callable[[Instruction], bool]


class Flow:
    """Which instructions may follow which."""

    def __init__(self, kernel: Kernel) -> None:
        self.body = kernel.body
        self.following = [list(_following(kernel, at)) for at in range(len(kernel.body))]
        self.preceding: list[list[int]] = [[] for _ in kernel.body]
        for at, targets in enumerate(self.following):
            for to in targets:
                self.preceding[to].append(at)

    def reached(
        self, starts: Iterable[int], stops: Test, *, back: bool = False
    ) -> tuple[set[int], set[int]]:
        """What can be executed behind (``back``: before) some places up to and without the first
        unconditional instructions for which ``stops`` holds; and these."""
        graph = self.preceding if back else self.following
        seen: set[int] = set()
        ends: set[int] = set()
        open_ = [to for at in starts for to in graph[at]]
        while open_:
            at = open_.pop()
            if at in seen or at in ends:
                continue
            if self.body[at].guard is None and stops(self.body[at]):
                ends.add(at)
                continue
            seen.add(at)
            open_ += graph[at]
        return seen, ends

    def until(self, places: set[int]) -> set[int]:
        """What can be executed from the beginning without coming through some places."""
        seen: set[int] = set()
        open_ = [0]
        while open_:
            at = open_.pop()
            if at not in seen and at not in places:
                seen.add(at)
                open_ += self.following[at]
        return seen


def ends(one: Instruction) -> bool:
    """Whether a thread may end there, or go on who knows where."""
    return one.opcode in ("ret", "exit", "trap", "brx")


def _following(kernel: Kernel, at: int) -> Iterator[int]:
    one = kernel.body[at]
    if one.opcode == "bra":
        yield kernel.labels[getattr(one.operands[0], "name", "")]
    goes_on = one.guard is not None or (one.opcode != "bra" and not ends(one))
    if goes_on and at + 1 < len(kernel.body):
        yield at + 1
