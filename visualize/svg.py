"""Timelines for papers: vector graphics without scripts, legible in print and in grey.

For each schedule two panels: one period of the steady state, and a whole tile with the middle of
its loop left out. A row is an exclusive unit or a role. Labels name the operation; every other
iteration is paler; operations of the critical cycle have a heavy outline. Several schedules are
drawn one below the other on the same scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from schedgen.visualize.palette import colours, paler
from schedgen.visualize.tracks import lanes
from schedgen.visualize.view import OUTSIDE, Slice, Track, Unrolled

_LEFT, _RIGHT, _ROW, _BAR = 108, 14, 21, 17
_CHARACTER = 0.62  # width of a letter in units of the font size, most are capitals
_STYLE = (
    "text{font-family:Helvetica,Arial,'Liberation Sans',sans-serif;fill:#111}"
    ".title{font-size:13px;font-weight:bold}.note{font-size:10px;fill:#444}"
    ".head{font-weight:bold}.row{font-size:11px;text-anchor:end}.share{font-size:9px;fill:#555}"
    ".tick{font-size:9px;text-anchor:middle;fill:#444}"
    ".op{font-size:9.5px;text-anchor:middle;pointer-events:none}"
    ".bar{stroke:#444;stroke-width:.6}.critical{stroke:#000;stroke-width:1.7}"
    ".grid{stroke:#c4c4c4;stroke-width:.6}.period{stroke:#777;stroke-width:.8}"
    ".cut{stroke:#000;stroke-width:1;stroke-dasharray:3 2}"
)


@dataclass(frozen=True, slots=True)
class _Panel:
    """Cycles [begin, end) of ``view``, ``scale`` pixels per cycle, top edge at ``top``."""

    view: Unrolled
    begin: int
    end: int
    scale: float
    top: float
    steady: bool
    colour: dict[str, str]

    def x(self, cycle: float) -> float:
        return round(_LEFT + (cycle - self.begin) * self.scale, 2)

    def rows(self) -> list[tuple[Track, int, list[Slice]]]:
        """Track, lane and slices of each row, where there is something to draw."""
        found: list[tuple[Track, int, list[Slice]]] = []
        for track in self.view.tracks:
            if track.kind == "unit" and not track.exclusive:
                continue
            seen = [
                s
                for s in self.view.on(track)
                if s.start < self.end and _stop(track, s) > self.begin
            ]
            # Roles that keep nothing busy (machine models without issue times) have no row.
            if not any(_stop(track, s) > s.start for s in seen):
                continue
            place = lanes(seen, "unit_end" if track.kind == "unit" else "hold_end")
            for lane in range(max(place) + 1):
                here = [s for s, at in zip(seen, place, strict=True) if at == lane]
                found.append((track, lane, here))
        return found


def svg(*views: Unrolled, names: Sequence[str] = (), width: int = 1000) -> str:
    """The timelines of ``views`` as an SVG file of ``width`` pixels, told apart by ``names``."""
    colour = colours((s.name, s.kind) for view in views for s in view.slices)
    titles = [_title(view) for view in views]
    if names:
        pairs = zip(names, titles, strict=True)
        titles = [f"{chr(65 + n)}: {name}: {t}" for n, (name, t) in enumerate(pairs)]
    room = width - _LEFT - _RIGHT
    longest = max(view.end - min(view.begin, 0) for view in views)
    period = max(view.ii_cycles for view in views)
    body: list[str] = []
    top = 8.0
    for view, title in zip(views, titles, strict=True):
        body.append(_text(_LEFT, top + 12, title, "title"))
        top += 34
        begin = view.stages * view.ii_cycles
        if (
            view.planned and view.shown > view.stages
        ):  # the first period has no predecessor to reach into it
            panel = _Panel(view, begin, begin + view.ii_cycles, room / period, top, True, colour)
            height, lines = _draw(panel, "Steady state")
            body += lines
            top += height + 26
        begin = min(view.begin, 0)
        panel = _Panel(view, begin, view.end, room / longest, top, False, colour)
        height, lines = _draw(panel, "One tile")
        body += lines
        top += height + 12
    body.append(_text(_LEFT, top + 8, _legend(views), "note"))
    height = round(top + 18)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img"'
            f" aria-label={quoteattr('; '.join(titles))}>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


def _title(view: Unrolled) -> str:
    if not view.planned:
        return f"{view.kernel} on {view.target}: the program, {view.trips} iterations"
    stages = f"{view.stages} stage{'s' if view.stages > 1 else ''}"
    return f"{view.kernel} on {view.target}: II {view.ii_cycles} cycles, {stages}"


def _legend(views: Sequence[Unrolled]) -> str:
    outline = "; heavy outline: critical cycle" if any(v.critical_cycle for v in views) else ""
    ends = ", ".join(dict.fromkeys(view.latencies for view in views))
    cuts = dict.fromkeys(f"{v.cut.iterations} of {v.trips}" for v in views if v.cut)
    line = f"; dashed line: {', '.join(cuts)} iterations left out" if cuts else ""
    return (
        f"Cycles of the machine model (latencies: {ends}), not measured. Every other iteration is "
        f"paler{outline}{line}."
    )


def _draw(panel: _Panel, title: str) -> tuple[float, list[str]]:
    """The height of the panel below its top, and its elements."""
    rows = panel.rows()
    height = len(rows) * _ROW
    lines = [_text(_LEFT - 8, panel.top - 5, title, "row head")]
    if panel.steady:
        lines.append(_text(_LEFT, panel.top - 5, "one period; i is the newest iteration", "note"))
    lines += _grid(panel, height)
    for number, (track, lane, slices) in enumerate(rows):
        top = panel.top + number * _ROW
        if lane == 0:
            lines.append(_label(track, top))
        for one in slices:
            lines.append(_bar(panel, track, one, top + (_ROW - _BAR) / 2))
    return height + 14, lines


def _label(track: Track, top: float) -> str:
    share = f' <tspan class="share">{track.utilization:.0%}</tspan>' if track.utilization else ""
    return f'<text class="row" x="{_LEFT - 8}" y="{top + 14:g}">{escape(track.name)}{share}</text>'


def _grid(panel: _Panel, height: float) -> Iterator[str]:
    """Times below, phases and periods behind the rows."""
    view, bottom = panel.view, panel.top + height
    if view.planned and not panel.steady:
        yield from _phases(panel)
        for turn in range(panel.end // view.ii_cycles + 1):
            x = panel.x(turn * view.ii_cycles)
            yield f'<path class="period" d="M{x} {panel.top:g}V{bottom:g}"/>'
    for cycle, text in _ticks(panel):
        x = panel.x(cycle)
        yield f'<path class="grid" d="M{x} {panel.top:g}V{bottom + 3:g}"/>'
        yield _text(x, bottom + 13, text, "tick")
    if view.cut and not panel.steady:
        x = panel.x(view.cut.at)
        yield f'<path class="cut" d="M{x} {panel.top:g}V{bottom + 6:g}"/>'


def _phases(panel: _Panel) -> Iterator[str]:
    """Names of the phases above the panel."""
    view = panel.view
    first, last = (view.stages - 1) * view.ii_cycles, view.shown * view.ii_cycles
    for begin, end, name in (
        (0, first, "prologue"),
        (first, last, "steady state"),
        (max(last, first), panel.end, "epilogue and end of the tile"),
    ):
        room = (end - begin) * panel.scale
        if end > begin and _fits(name, room, 10):
            yield (
                f'<text class="note" text-anchor="middle" x="{panel.x((begin + end) / 2)}"'
                f' y="{panel.top - 5:g}">{escape(name)}</text>'
            )


def _ticks(panel: _Panel) -> Iterator[tuple[int, str]]:
    """Times to name: round ones, those of the schedule beyond a cut."""
    cut = panel.view.cut
    zero = panel.begin if panel.steady else 0
    step = _step(64 / panel.scale)
    parts = [(panel.begin, panel.end, -zero)]
    if cut and not panel.steady:
        parts = [(panel.begin, cut.at - step // 2, 0), (cut.at + step // 4, panel.end, cut.cycles)]
    for begin, end, shift in parts:
        first = -(-(begin + shift) // step) * step
        yield from ((t - shift, str(t)) for t in range(first, end + shift + 1, step))


def _step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... that is at least ``least``."""
    scale = 1
    while True:
        for digit in (1, 2, 5):
            if digit * scale >= least:
                return digit * scale
        scale *= 10


def _bar(panel: _Panel, track: Track, one: Slice, top: float) -> str:
    begin, end = max(one.start, panel.begin), min(_stop(track, one), panel.end)
    x, wide = panel.x(begin), max(round((end - begin) * panel.scale, 2), 0.8)
    fill = panel.colour[one.name]
    odd = one.iteration != OUTSIDE and panel.view.place(one) % 2 == 1
    fill = paler(fill) if odd else fill
    on_cycle = any(one.operation in (link.src, link.dst) for link in panel.view.critical_cycle)
    critical = on_cycle and wide > 6  # a narrower bar would be all outline
    rect = (
        f'<rect class="bar{" critical" if critical else ""}" x="{x}" y="{top:g}" width="{wide:g}"'
        f' height="{_BAR}" fill="{fill}"><title>{escape(_told(panel, track, one))}</title></rect>'
    )
    text = next((t for t in _names(panel, one) if _fits(t, wide - 2, 9.5)), "")
    return rect + (_text(round(x + wide / 2, 2), top + 12.4, text, "op") if text else "")


def _names(panel: _Panel, one: Slice) -> Iterator[str]:
    """What to write on a bar, the longest first."""
    if panel.steady and one.iteration != OUTSIDE:
        age = (panel.end - 1) // panel.view.ii_cycles - panel.view.place(one)
        yield f"{one.operation} i−{age}" if age else f"{one.operation} i"
    yield one.operation
    yield one.name


def _told(panel: _Panel, track: Track, one: Slice) -> str:
    """What a bar says to whoever points at it."""
    shift = panel.view.cut.cycles if panel.view.cut and one.start >= panel.view.cut.at else 0
    which = one.phase if one.iteration == OUTSIDE else f"iteration {one.iteration}"
    until = _stop(track, one)
    return f"{one.operation}, {which}: {track.name} from {one.start + shift} to {until + shift}"


def _stop(track: Track, one: Slice) -> int:
    return one.unit_end if track.kind == "unit" else one.hold_end


def _fits(text: str, room: float, size: float) -> bool:
    return len(text) * size * _CHARACTER <= room


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
