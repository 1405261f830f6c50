"""Draws what benchmarks/muon_training.py and benchmarks/training.py have measured.

    python benchmarks/muon_plot.py [muon_training | training]

Reads results/NAME.json and writes docs/images/NAME.svg: held-out losses of both, and below how far
they are apart. For pages that are light or dark.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, IMAGES = ROOT / "benchmarks" / "results", ROOT / "docs" / "images"
TITLES = {
    "muon_training": "Losses of a small transformer with Muon of {} and of {}",
    "training": "Losses of a small transformer with functions and Muon of {} and of {}",
}

WIDTH, HEIGHT, LOW = 600, 260, 90
"""Of the curves, and the height of what is drawn below them."""
LEFT, TOP, GAP, BOTTOM, RIGHT = 56, 28, 44, 44, 24
GREY, ORANGE, GREEN = "#808080", "#d95f02", "#1b9e77"


class Panel:
    """A rectangle with a scale from ``low`` to ``high``, in the order of the axis."""

    def __init__(self, top: float, height: float, low: float, high: float) -> None:
        self.top, self.height, self.low, self.high = top, height, low, high

    def y(self, value: float) -> float:
        return self.top + self.height * (self.high - value) / (self.high - self.low)

    def points(self, values: Sequence[float]) -> str:
        step = WIDTH / (len(values) - 1)
        return " ".join(f"{LEFT + step * n:.1f},{self.y(v):.1f}" for n, v in enumerate(values))

    def grid(self, ticks: Sequence[float], unit: str) -> list[str]:
        """Lines and their values."""
        lines = list[str]()
        for tick in ticks:
            y = f"{self.y(tick):.1f}"
            lines.append(f'<path d="M{LEFT} {y}h{WIDTH}" stroke="{GREY}" stroke-opacity=".3"/>')
            lines.append(f'<text x="{LEFT - 6}" y="{y}" dy=".35em" text-anchor="end">')
            lines.append(f"{tick:g}{unit}</text>")
        return lines


def svg(curves: dict[str, list[float]], every: int, title: str) -> str:
    """The picture.

    Args:
        curves: losses on held-out text by what they are of; the first is compared to the second.
        every: steps between two losses.
        title: with places for both names.
    """
    (name, ours), (other, theirs) = curves.items()
    low, high = int(min(ours + theirs)), int(max(ours + theirs)) + 1
    above = Panel(TOP, HEIGHT, low, high)
    apart = [100 * (a / b - 1) for a, b in zip(ours, theirs, strict=True)]
    most = max(1, math.ceil(round(max(map(abs, apart)), 3)))
    below = Panel(TOP + HEIGHT + GAP, LOW, -most, most)
    bottom = below.top + below.height
    width, height = LEFT + WIDTH + RIGHT, bottom + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{GREY}">',
        f"<title>{title.format(name, other)}</title>",
        f'<text x="{LEFT}" y="16">loss on held-out text</text>',
        *above.grid(range(low, high + 1), ""),
        _line(above.points(theirs), GREEN, 5, ".5"),
        _line(above.points(ours), ORANGE, 1.5, "1"),
        *_legend(LEFT + WIDTH - 150, above.top + 20, {name: ORANGE, other: GREEN}),
        f'<text x="{LEFT}" y="{below.top - 10}">{name} over {other}, less 1</text>',
        *below.grid([-most, 0, most], " %"),
        _line(below.points(apart), ORANGE),
    ]
    for n in range(0, len(ours), 3):
        x = LEFT + WIDTH * n / (len(ours) - 1)
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">')
        lines.append(f"{n * every}</text>")
    middle = LEFT + WIDTH / 2
    lines.append(f'<text x="{middle:.0f}" y="{bottom + 36}" text-anchor="middle">step</text></svg>')
    return "\n".join(lines) + "\n"


def _line(points: str, colour: str, width: float = 1.5, opacity: str = "1") -> str:
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-opacity="{opacity}" stroke-linejoin="round"/>'
    )


def _legend(left: float, top: float, colours: dict[str, str]) -> list[str]:
    lines = list[str]()
    for n, (name, colour) in enumerate(colours.items()):
        y = top + 18 * n
        lines.append(f'<path d="M{left} {y}h24" stroke="{colour}" stroke-width="3"/>')
        lines.append(f'<text x="{left + 32}" y="{y}" dy=".35em">{name}</text>')
    return lines


def drawn(name: str) -> str:
    """The picture of the saved results ``name``."""
    rows = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["rows"]
    curves = {row.get("by", row.get("optimizer")): row["curve"] for row in rows}
    return svg(curves, rows[0]["every"], TITLES[name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=TITLES, default="muon_training")
    chosen = parser.parse_args().name
    (IMAGES / f"{chosen}.svg").write_text(drawn(chosen), "utf-8")
