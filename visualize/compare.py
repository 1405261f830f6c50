"""Two schedules beside each other: what differs, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest

from schedgen.schedule import Schedule, ScheduledBuffer, ScheduledOperation
from schedgen.visualize.svg import svg
from schedgen.visualize.timeline import steady_state
from schedgen.visualize.unrolled import links, unroll

NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Difference:
    """``what`` is ``first`` in one schedule and ``second`` in the other; NOTHING if it has none."""

    what: str
    first: str
    second: str


def differences(first: Schedule, second: Schedule) -> tuple[Difference, ...]:
    """Everything that differs, from the II down to single start times."""
    found = (row for rows in (_numbers, _details) for row in rows(first, second))
    return tuple(row for row in found if row.first != row.second)


def compared(first: Schedule, second: Schedule, names: Sequence[str], width: int = 100) -> str:
    """One period of each schedule on one scale, then the table of what differs."""
    longest = max(first.ii_cycles, second.ii_cycles)
    lines: list[str] = []
    for letter, name, schedule in zip("AB", names, (first, second), strict=True):
        lines += [f"{letter}: {name}: {_title(schedule)}", ""]
        lines += steady_state(schedule, max(60, width * schedule.ii_cycles // longest))
        lines += [""]
    lines += table(differences(first, second), width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def compared_html(first: Schedule, second: Schedule, names: Sequence[str]) -> str:
    """Both timelines on one scale and the table of what differs, as a page of its own."""
    drawing = svg(unroll(first, cut=True), unroll(second, cut=True), names=names)
    cells = [
        f"<tr><th scope=row>{escape(row.what)}<td>{escape(row.first)}<td>{escape(row.second)}"
        for row in differences(first, second)
    ]
    rows = "\n".join(cells) or "<tr><td colspan=3>no differences"
    heads = "".join(
        f"<th scope=col>{escape(f'{letter}: {name}')}"
        for letter, name in zip("AB", names, strict=True)
    )
    title = escape(f"{names[0]} and {names[1]}")
    return _PAGE.format(title=title, drawing=drawing, heads=heads, rows=rows)


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif }}
body {{ margin: 1rem auto; max-width: 64rem; padding: 0 1rem }}
svg {{ width: 100%; height: auto; border-radius: 4px }}
table {{ border-collapse: collapse; width: 100%; table-layout: fixed }}
th, td {{ border-top: 1px solid #8886; padding: .2rem .5rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere }}
th[scope=row] {{ font-weight: normal; width: 24% }}
</style>
<h1>{title}</h1>
{drawing}
<h2>What differs</h2>
<table>
<thead><tr><th scope=col>{heads}</thead>
<tbody>
{rows}
</tbody>
</table>
</html>
"""


def table(rows: Sequence[Difference], width: int) -> list[str]:
    """``rows`` as lines of text: what, A, B, of at most ``width`` columns."""
    if not rows:
        return ["no differences"]
    cells = [("what differs", "A", "B"), *((r.what, r.first, r.second) for r in rows)]
    what = min(max(len(row[0]) for row in cells), 30)
    first = min(max(len(row[1]) for row in cells), (width - what - 4) // 2)
    second = width - what - first - 4
    lines: list[str] = []
    for row in cells:
        parts = [
            _wrapped(cell, room) for cell, room in zip(row, (what, first, second), strict=True)
        ]
        for a, b, c in zip_longest(*parts, fillvalue=""):
            lines.append(f"{a:{what}}  {b:{first}}  {c}".rstrip())
    return lines


def _wrapped(text: str, room: int) -> list[str]:
    """``text`` in lines of ``room`` columns, cut after blanks where there are any."""
    lines: list[str] = []
    while len(text) > room:
        cut = text.rfind(" ", 1, room + 1)
        cut = cut if cut > 0 else room
        lines.append(text[:cut])
        text = text[cut:].lstrip()
    return [*lines, text]


def _title(schedule: Schedule) -> str:
    return f"{schedule.kernel} on {schedule.target}, II {schedule.ii_cycles} cycles"


def _numbers(first: Schedule, second: Schedule) -> Iterator[Difference]:
    reads: dict[str, Callable[[Schedule], object]] = {
        "kernel": lambda s: s.kernel,
        "target": lambda s: f"{s.target} ({s.arch})",
        "latencies": lambda s: s.latencies,
        "II": lambda s: f"{s.ii_cycles} cycles",
        "proven optimal": lambda s: "yes" if s.proven_optimal else "no",
        "certificate": lambda s: f"{s.certificate.kind}: {s.certificate.text}",
        "critical cycle": lambda s: " > ".join(link.src for link in links(s.critical_cycle)),
        "stages": lambda s: s.stages,
        "one iteration": lambda s: f"{s.length_cycles} cycles",
        "one tile": lambda s: f"{s.tile.period_cycles} cycles, {s.tile.trips} iterations",
        "cycle ratio, low latencies": lambda s: f"{s.cycle_ratios.get('low', 0):g}",
        "cycle ratio, high latencies": lambda s: f"{s.cycle_ratios.get('high', 0):g}",
    }
    for what, read in reads.items():
        yield Difference(what, str(read(first)), str(read(second)))


def _details(first: Schedule, second: Schedule) -> Iterator[Difference]:
    yield from _each("parameter {}", first.parameters.items(), second.parameters.items())
    yield from _each("choice {}", first.choices.items(), second.choices.items())
    yield from _each(
        "unit {}",
        *(((u.name, f"{u.utilization:.0%} busy") for u in s.units) for s in (first, second)),
    )
    yield from _each(
        "role {}",
        *(
            (
                (r.name, f"{r.warps} warp{'s' * (r.warps > 1)}, {r.registers} registers")
                for r in s.roles
            )
            for s in (first, second)
        ),
    )
    yield from _each(
        "buffer {}", *(((b.name, _place(b)) for b in s.buffers) for s in (first, second))
    )
    yield from _each("{}", *(((o.id, _when(o)) for o in s.ops) for s in (first, second)))


def _each(
    title: str, first: Iterable[tuple[str, str]], second: Iterable[tuple[str, str]]
) -> Iterator[Difference]:
    one, other = dict(first), dict(second)
    for name in dict.fromkeys([*one, *other]):
        yield Difference(title.format(name), one.get(name, NOTHING), other.get(name, NOTHING))


def _place(buffer: ScheduledBuffer) -> str:
    ring = f", ring {buffer.ring}" if buffer.ring else ""
    skew = f", version j + {buffer.skew}" if buffer.skew else ""
    if buffer.alias:
        return f"in {buffer.alias}{skew}, at {buffer.address}"
    where = f" at {buffer.address}" if buffer.address >= 0 else ""
    return f"{buffer.space} {buffer.bytes} bytes x {buffer.depth}{where}{ring}"


def _when(op: ScheduledOperation) -> str:
    stage = f", stage {op.stage}" if op.phase == "body" else f", {op.phase} the loop"
    return f"at {op.slot if op.phase == 'body' else op.start}{stage}, {op.role}"
