"""Layout of the dependence graph: a lane for each role, columns in the order of the schedule.

An operation stands to the right of what its role starts before it and of what it uses from the same
iteration. So dependences within an iteration lead to the right, and those that lead back are the
ones that carry over to later iterations. The same schedule always gives the same picture.
"""

from __future__ import annotations

from typing import Any

from schedgen.schedule import Schedule
from schedgen.visualize.unrolled import links


def graph(schedule: Schedule) -> dict[str, Any]:
    """Nodes with ``column`` and ``lane`` (an index into ``lanes``), and the critical cycle's links
    that are no dependences: the order of a unit or a role.
    """
    used = {op.role for op in schedule.body}
    lanes = [role.name for role in schedule.roles if role.name in used]
    column = columns(schedule)
    listed = {(edge.src, edge.dst) for edge in schedule.edges}
    return {
        "lanes": lanes,
        "columns": max(column.values(), default=-1) + 1,
        "nodes": [
            {"id": op.id, "column": column[op.id], "lane": lanes.index(op.role)}
            for op in schedule.body
        ],
        "orders": [
            {
                "src": link.src,
                "dst": link.dst,
                "distance": link.distance,
                "delay": link.cycles,
                "reason": link.reason,
            }
            for link in links(schedule.critical_cycle)
            if (link.src, link.dst) not in listed
        ],
    }


def columns(schedule: Schedule) -> dict[str, int]:
    """The column of each operation of the main loop."""
    place = {op.id: number for number, op in enumerate(schedule.body)}
    order = sorted(schedule.body, key=lambda op: (op.start, place[op.id]))
    into: dict[str, list[str]] = {}
    for edge in schedule.edges:
        if edge.distance == 0:
            into.setdefault(edge.dst, []).append(edge.src)
    found: dict[str, int] = {}
    last: dict[str, int] = {}
    for op in order:
        before = (found[src] for src in into.get(op.id, []) if src in found)
        found[op.id] = max(last.get(op.role, -1), *before, -1) + 1
        last[op.role] = found[op.id]
    return found
