"""Paths through the PTX of a kernel: its control flow graph.

Paths are those of the text, whether or not a launch takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import cast

from schedgen.emulator.ptx.tree import Instruction, Kernel

Test = Callable[[Instruction], bool]
END = -1
"""The place that everything ends in."""


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

    def until(self, places: set[int], starts: Iterable[int] = (0,)) -> set[int]:
        """What can be executed from the beginning, or ``starts``, without coming through some
        places."""
        seen: set[int] = set()
        open_ = list(starts)
        while open_:
            at = open_.pop()
            if at not in seen and at not in places:
                seen.add(at)
                open_ += self.following[at]
        return seen

    def decided(self, branch: int) -> set[int]:
        """What is executed or not by what a branch does: until all ways from it meet."""
        meets = self._meets.get(self._block[branch], END)
        return self.until({meets}, self.following[branch])

    @cached_property
    def _block(self) -> list[int]:
        """Of each place the one at which its basic block begins."""
        turns = [at for at, to in enumerate(self.following) if to != [at + 1]]
        starts = {at + 1 for at in turns} | {to for at in turns for to in self.following[at]}
        found: list[int] = []
        for at in range(len(self.body)):
            found.append(at if at in starts or not at else found[-1])
        return found

    @cached_property
    def _meets(self) -> dict[int, int]:
        """Block -> the next one that all ways from it come to (immediate post-dominator)."""
        import networkx as nx

        block = self._block
        back: nx.DiGraph[int] = nx.DiGraph()
        back.add_node(END)
        for at, targets in enumerate(self.following):
            if at + 1 == len(block) or block[at + 1] == at + 1:
                back.add_edges_from((block[to], block[at]) for to in targets)
                if not targets or ends(self.body[at]):
                    back.add_edge(END, block[at])
        found = cast("dict[int, int | None]", nx.immediate_dominators(back, END))
        return {one: above for one, above in found.items() if above is not None}


def ends(one: Instruction) -> bool:
    """Whether a thread may end there, or go on who knows where."""
    return one.opcode in ("ret", "exit", "trap", "brx")


def _following(kernel: Kernel, at: int) -> Iterator[int]:
    one = kernel.body[at]
    if one.opcode == "bra":
        to = kernel.labels[getattr(one.operands[0], "name", "")]
        if to < len(kernel.body):
            yield to
    goes_on = one.guard is not None or (one.opcode != "bra" and not ends(one))
    if goes_on and at + 1 < len(kernel.body):
        yield at + 1
