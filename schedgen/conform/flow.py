"""Basic blocks of a kernel's PTX: where control goes, where it meets again, which blocks repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import networkx as nx

from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Guard, Instruction, Kernel, Symbol

END = -1
"""The block that everything ends in."""
_JUMPS = ("bra", "ret", "exit")


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions [begin, end) of the body.

    Where ``guard`` holds control goes to ``taken``, else to ``next``; without a guard to ``next``.
    """

    begin: int
    end: int
    next: int
    taken: int = END
    guard: Guard | None = None

    @property
    def successors(self) -> tuple[int, ...]:
        return (self.next,) if self.guard is None else (self.taken, self.next)


class Flow:
    """The blocks of a kernel, by the index of their first instruction.

    Raises Refusal for control flow that nothing here understands.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.blocks = self._blocks()
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from((0, END))
        graph.add_edges_from((a, b) for a, block in self.blocks.items() for b in block.successors)
        reached = {0, *nx.descendants(graph, 0)}
        if END not in reached:
            raise Refusal("the kernel has no end")
        self.graph: nx.DiGraph[int] = graph.subgraph(reached)

    def _blocks(self) -> dict[int, Block]:
        body, labels = self.kernel.body, self.kernel.labels
        starts = {0, *labels.values()}
        starts |= {at + 1 for at, one in enumerate(body) if one.opcode in _JUMPS}
        ordered = sorted(start for start in starts if start < len(body))
        ends = [*ordered[1:], len(body)]
        return {a: self._block(a, b, labels) for a, b in zip(ordered, ends, strict=True)}

    def _block(self, begin: int, end: int, labels: dict[str, int]) -> Block:
        last, after = self.kernel.body[end - 1], end if end < len(self.kernel.body) else END
        if last.opcode in ("brx", "call"):
            raise Refusal(f"'{last.name}' is not followed", last)
        if last.opcode not in _JUMPS:
            return Block(begin, end, after)
        to = END
        if last.opcode == "bra":
            to = self._target(last, labels)
        if last.guard is None:
            return Block(begin, end - 1, to)
        return Block(begin, end - 1, after, to, last.guard)

    def _target(self, one: Instruction, labels: dict[str, int]) -> int:
        label = one.operands[0]
        if not isinstance(label, Symbol):
            raise Refusal("a branch to an address is not followed", one)
        at = labels[label.name]
        return at if at < len(self.kernel.body) else END

    @cached_property
    def meets(self) -> dict[int, int]:
        """Block -> the next one that all ways from it come to (immediate post-dominator)."""
        return _dominators(self.graph.reverse(copy=False), END)

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        """Header -> the blocks of its natural loop."""
        found = natural_loops(self.graph, 0)
        order: nx.DiGraph[int] = nx.DiGraph(self.graph)
        order.remove_edges_from(
            [(a, b) for a, b in self.graph.edges if b in found and a in found[b]]
        )
        if not nx.is_directed_acyclic_graph(order):
            raise Refusal("there is a loop with two beginnings")
        return found


def natural_loops(graph: nx.DiGraph[int], start: int) -> dict[int, frozenset[int]]:
    """Header -> the blocks of its natural loop, in a graph of blocks that all come from ``start``:
    those that come to an edge back to a block that dominates them, on ways that avoid it.
    """
    above = _dominators(graph, start)
    found: dict[int, set[int]] = {}
    for a, b in graph.edges:
        if _dominates(above, b, a):
            found.setdefault(b, {b}).update(_back_from(graph, a, b))
    return {header: frozenset(blocks) for header, blocks in found.items()}


def dominators(graph: nx.DiGraph[int], start: int, block: int) -> frozenset[int]:
    """The blocks that all ways from ``start`` to ``block`` come through, both included."""
    above, found = _dominators(graph, start), {block}
    while above.get(block, block) != block:
        block = above[block]
        found.add(block)
    return frozenset(found)


def innermost(loops: Mapping[int, frozenset[int]], having: set[int]) -> list[list[int]]:
    """The blocks of each loop with one of ``having`` and no such loop inside, all in order."""
    found = [loop for loop in loops.values() if loop & having]
    return sorted(sorted(loop) for loop in found if not any(other < loop for other in found))


def _back_from(graph: nx.DiGraph[int], latch: int, header: int) -> set[int]:
    found, stack = {header}, [latch]
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack += graph.predecessors(one)
    return found


def _dominators(graph: nx.DiGraph[int], start: int) -> dict[int, int]:
    """Immediate dominators of all blocks but the first."""
    found = cast("dict[int, int | None]", nx.immediate_dominators(graph, start))
    return {block: above for block, above in found.items() if above is not None}


def _dominates(above: dict[int, int], a: int, b: int) -> bool:
    while b != a:
        up = above.get(b, b)
        if up == b:
            return False
        b = up
    return True
