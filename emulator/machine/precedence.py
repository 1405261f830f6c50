"""In which order divergent lanes run: those first that come first in the control flow.

Lanes that have left the others run until they are where the others wait, if they can get there.
The order of the text does not say that, since compilers put rare blocks at its end. A weak
topological order of the control-flow graph does: every block comes after its predecessors, back
edges aside, and each loop is contiguous (Bourdoncle, "Efficient chaotic iteration strategies with
widenings", 1993). Running the earliest lanes first is what Diamos et al. call thread frontiers
(MICRO 2011).
"""

from __future__ import annotations

from collections.abc import Callable

from schedgen.emulator.ptx.tree import Instruction, Kernel, Symbol


def ranks(kernel: Kernel) -> list[int]:
    """For each instruction, and one past the last, its place in the order."""
    leaders = _leaders(kernel)
    starts = sorted(leaders)
    number = {start: index for index, start in enumerate(starts)}
    ends = [*starts[1:], len(kernel.body)]
    after: list[list[int]] = []
    for start, end in zip(starts, ends, strict=True):
        targets = _targets(kernel, end - 1) if end > start else []
        falls = end > start and end < len(kernel.body) and _falls(kernel.body[end - 1])
        after.append([number[t] for t in ([end] if falls else []) + targets if t in number])
    order: list[int] = []
    _arrange(list(range(len(starts))), after, order.append)
    place = {block: index for index, block in enumerate(order)}
    result = [0] * (len(kernel.body) + 1)
    at = 0
    for block in sorted(range(len(starts)), key=lambda block: place[block]):
        for index in range(starts[block], ends[block]):
            result[index] = at
            at += 1
    result[len(kernel.body)] = at
    return result


def _leaders(kernel: Kernel) -> set[int]:
    leaders = {0, *kernel.labels.values()}
    for index, instruction in enumerate(kernel.body):
        if instruction.opcode in ("bra", "brx", "ret", "exit"):
            leaders.add(index + 1)
    return {leader for leader in leaders if leader <= len(kernel.body)}


def _falls(last: Instruction) -> bool:
    """Whether what follows an instruction can be reached from it."""
    return last.guard is not None or last.opcode not in ("bra", "brx", "ret", "exit")


def _targets(kernel: Kernel, index: int) -> list[int]:
    last = kernel.body[index]
    names = [operand.name for operand in last.operands if isinstance(operand, Symbol)]
    if last.opcode == "bra":
        return [kernel.labels[name] for name in names if name in kernel.labels]
    if last.opcode == "brx":
        tables = [kernel.tables[name] for name in names if name in kernel.tables]
        return [kernel.labels[label] for table in tables for label in table]
    return []


def _arrange(nodes: list[int], after: list[list[int]], place: Callable[[int], None]) -> None:
    """Places components in topological order; in a loop its head, then the rest likewise."""
    for component in _components(nodes, after):
        if len(component) == 1:
            place(component[0])
            continue
        head, rest = component[0], sorted(component[1:])
        place(head)
        _arrange(rest, after, place)


def _components(nodes: list[int], after: list[list[int]]) -> list[list[int]]:
    """Strongly connected components in topological order, the node found first in front.

    Tarjan's algorithm on the subgraph of ``nodes``, without recursion.
    """
    inside = set(nodes)
    found: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    placed: set[int] = set()
    result: list[list[int]] = []
    for root in nodes:
        if root in found:
            continue
        work = [(root, iter(after[root]))]
        found[root] = low[root] = len(found)
        stack.append(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in inside or successor in placed:
                    continue
                if successor not in found:
                    found[successor] = low[successor] = len(found)
                    stack.append(successor)
                    work.append((successor, iter(after[successor])))
                    break
                low[node] = min(low[node], found[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == found[node]:
                    at = stack.index(node)
                    component, stack = stack[at:], stack[:at]
                    placed.update(component)
                    result.append(component)
    result.reverse()
    return result
