"""Text timeline of a schedule: the modulo reservation table, prologue and epilogue, for terminals
and logs.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from schedgen.schedule import Schedule, ScheduledOperation

_LABEL = 14


@dataclass(frozen=True, slots=True)
class _Block:
    """Cycles [begin, end) on the circle of one period."""

    name: str
    begin: int
    end: int
    stage: int


def timeline(schedule: Schedule, width: int = 100) -> str:
    """The timeline of ``schedule`` in at most ``width`` columns, lines ending in a newline."""
    title = (
        f"{schedule.kernel} on {schedule.target}: II {schedule.ii_cycles} cycles, "
        f"{schedule.stages} stage{'s' if schedule.stages > 1 else ''}, "
        f"one iteration {schedule.length_cycles} cycles; "
        f"latencies at their {schedule.latencies} end; "
        f"{schedule.body[0].id}-1 is the instance of the iteration before"
    )
    lines = [
        *textwrap.wrap(title, width),
        "",
        *steady_state(schedule, width),
        "",
        *_fill(schedule, "prologue", width),
        *_fill(schedule, "epilogue", width),
    ]
    outer = [op for op in schedule.ops if op.phase != "body"]
    if outer:
        lines += ["", *_tile(schedule, outer, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def steady_state(schedule: Schedule, width: int) -> list[str]:
    """Lines for one period: a row for each exclusive unit and each role, more where instances
    overlap.
    """
    columns = width - _LABEL
    lines = [f"{'steady state':{_LABEL}}{_axis(schedule.ii_cycles, columns)}"]
    exclusive = {unit.name for unit in schedule.units if unit.kind == "exclusive"}
    for unit in sorted(exclusive):
        blocks = [_block(op, op.cycles) for op in schedule.body if op.unit == unit]
        lines.extend(_rows(unit, blocks, schedule.ii_cycles, columns))
    lines.append("")
    for role in schedule.roles:
        blocks = [_block(op, op.hold) for op in schedule.body if op.role == role.name]
        if blocks:
            lines.extend(_rows(role.name, blocks, schedule.ii_cycles, columns))
    return lines


def _block(op: ScheduledOperation, cycles: int) -> _Block:
    return _Block(op.id, op.slot, op.slot + max(cycles, 1), op.stage)


def _axis(period: int, columns: int) -> str:
    """Tick marks with cycles, about one every 16 columns."""
    marks = [" "] * columns
    count = max(1, columns // 16)
    for number in range(count):
        cycle = period * number // count
        text = f"|{cycle}"
        place = columns * number // count
        marks[place : place + len(text)] = text
    end = f"{period}|"
    marks[columns - len(end) :] = end
    return "".join(marks)


def _rows(label: str, blocks: list[_Block], period: int, columns: int) -> list[str]:
    lanes: list[list[_Block]] = []
    for block in sorted(blocks, key=lambda b: (b.begin, b.name)):
        lane = next(
            (lane for lane in lanes if not any(_meet(block, other, period) for other in lane)), None
        )
        if lane is None:
            lanes.append([block])
        else:
            lane.append(block)
    rows: list[str] = []
    for number, lane in enumerate(lanes):
        cells = [" "] * columns
        for block in lane:
            _draw(cells, block, period)
        name = label if number == 0 else ""
        rows.append(f"{name[: _LABEL - 1]:{_LABEL}}{''.join(cells)}")
    return rows


def _meet(a: _Block, b: _Block, period: int) -> bool:
    return any(
        a.begin + turn * period < b.end and b.begin < a.end + turn * period for turn in (-1, 0, 1)
    )


def _draw(cells: list[str], block: _Block, period: int) -> None:
    """A bar with the name in it; what reaches past the period continues at its start."""
    columns = len(cells)
    for begin, end in ((block.begin, min(block.end, period)), (0, block.end - period)):
        if end <= begin:
            continue
        first, last = (
            columns * begin // period,
            max(columns * begin // period, columns * end // period - 1),
        )
        text = f"{block.name}{f'-{block.stage}' if block.stage else ''}"
        size = last - first + 1
        bar = (
            f"[{text[: size - 2]:-<{size - 2}}]" if size > 2 else "[]"[:size] if size == 2 else "|"
        )
        for offset, char in enumerate(bar):
            if cells[first + offset] in " |":
                cells[first + offset] = char


def _fill(schedule: Schedule, what: str, width: int) -> list[str]:
    """The periods that are not full: which operations run, with the iteration of each."""
    lines: list[str] = []
    last = schedule.stages - 1
    for period in range(last):
        if what == "prologue":
            present = [(op, period - op.stage) for op in schedule.body if op.stage <= period]
        else:
            present = [(op, period - op.stage) for op in schedule.body if op.stage > period]
        texts = [
            f"{op.id}({_iteration(what, number)})"
            for op, number in sorted(present, key=lambda p: (p[0].slot, p[0].id))
        ]
        lines.extend(_wrapped(f"{what} {period + 1}/{last}", texts, width))
    return lines


def _iteration(what: str, number: int) -> str:
    return str(number) if what == "prologue" else f"n{number}" if number < 0 else "n"


def _wrapped(label: str, texts: list[str], width: int) -> list[str]:
    lines: list[str] = []
    current = f"{label:{_LABEL}}"
    for text in texts:
        if len(current) + len(text) > width and current.strip():
            lines.append(current)
            current = " " * _LABEL
        current += text + " "
    lines.append(current)
    return lines


def _tile(schedule: Schedule, outer: list[ScheduledOperation], width: int) -> list[str]:
    """Operations around the main loop, in time, relative to its start."""
    tile = schedule.tile
    share = tile.floor_cycles / tile.period_cycles if tile.period_cycles else 1.0
    text = (
        f"{tile.trips} iterations, one tile every {tile.period_cycles} cycles, "
        f"{share:.1%} of them main loop"
    )
    lines = _wrapped("tile loop", text.split(), width)
    for role in schedule.roles:
        texts = [
            f"{op.id}@{op.start}"
            for op in sorted(outer, key=lambda o: o.start)
            if op.role == role.name
        ]
        if texts:
            lines.extend(_wrapped(role.name[: _LABEL - 1], texts, width))
    return lines
