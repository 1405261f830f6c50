"""The dependence graph of a schedule for Graphviz: `dot -Tsvg graph.dot -o graph.svg`.

Nodes are the operations of the main loop, edges their dependences. What the critical cycle consists
of is red and heavy; a link of it that is no dependence (two operations that share a unit or a role)
is drawn too.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.schedule import Schedule, ScheduledOperation
from schedgen.visualize.palette import colours
from schedgen.visualize.unrolled import links, split_name

_STYLES = {
    "flow": "color=black",
    "carried": "color=black, style=dashed",
    "anti": "color=gray45, style=dashed, arrowhead=empty",
    "output": "color=gray45, style=dashed, arrowhead=empty",
    "order": "color=gray45, style=dotted",
}
_CRITICAL = 'color="#c00000", penwidth=2.4'

Link = tuple[str, str, int]


def dot(schedule: Schedule) -> str:
    """The graph as DOT text, one statement in each line."""
    critical = {(link.src, link.dst, link.distance) for link in links(schedule.critical_cycle)}
    cycle = {name for src, dst, _ in critical for name in (src, dst)}
    lines = [
        f"digraph {_quoted(schedule.kernel)} {{",
        f"  label={_quoted(_title(schedule))}; labelloc=t; fontname=Helvetica;",
        "  node [shape=box, style=filled, fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=9];",
        *_nodes(schedule, cycle),
        *_edges(schedule, critical),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _title(schedule: Schedule) -> str:
    return (
        f"{schedule.kernel} on {schedule.target}: II {schedule.ii_cycles} cycles. Solid: values; "
        "dashed black: carried to the next iteration; grey: storage and order; red: critical "
        "cycle. (n): n iterations later"
    )


def _nodes(schedule: Schedule, cycle: set[str]) -> Iterator[str]:
    fill = colours((split_name(op.id)[0], op.kind) for op in schedule.body)
    for op in schedule.body:
        outline = f", {_CRITICAL}" if op.id in cycle else ""
        tint = fill[split_name(op.id)[0]]
        yield f'  {_quoted(op.id)} [label={_quoted(_told(op))}, fillcolor="{tint}"{outline}];'


def _told(op: ScheduledOperation) -> str:
    """Name and role; the unit with the cycles that it is busy; start and cycles to the result."""
    unit = f"{op.unit} {op.cycles or op.hold}" if op.unit else f"{op.hold} cycles"
    return f"{op.id} · {op.role}\n{unit}\nat {op.start}, result +{op.latency}"


def _edges(schedule: Schedule, critical: set[Link]) -> Iterator[str]:
    resources: dict[tuple[str, str, int, str], list[str]] = {}
    for edge in schedule.edges:
        key = edge.src, edge.dst, edge.distance, edge.kind
        resources.setdefault(key, []).append(edge.resource)
    drawn: set[Link] = set()
    for (src, dst, distance, kind), names in resources.items():
        hot = (src, dst, distance) in critical and (src, dst, distance) not in drawn
        drawn.add((src, dst, distance))
        style = _STYLES.get(kind, "color=gray45")
        yield _edge(src, dst, distance, ", ".join(dict.fromkeys(names)), style, hot)
    for link in links(schedule.critical_cycle):
        if (link.src, link.dst, link.distance) not in drawn:
            yield _edge(link.src, link.dst, link.distance, link.reason, "style=solid", True)


def _edge(src: str, dst: str, distance: int, text: str, style: str, hot: bool) -> str:
    label = f"{text} ({distance})" if distance else text
    # Only values decide which operation is drawn above which: the rest has cycles.
    loose = "" if style == _STYLES["flow"] and distance == 0 else ", constraint=false"
    extra = f', {_CRITICAL}, fontcolor="#c00000"' if hot else ""
    return f"  {_quoted(src)} -> {_quoted(dst)} [label={_quoted(label)}, {style}{loose}{extra}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
