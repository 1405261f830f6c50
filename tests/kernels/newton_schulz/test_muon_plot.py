"""The picture of the training comparison is the one of the results that are kept."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def test_picture_is_fresh() -> None:
    plot = runpy.run_path(str(ROOT / "benchmarks" / "muon_plot.py"))
    for name in plot["TITLES"]:
        if (plot["RESULTS"] / f"{name}.json").exists():
            assert plot["drawn"](name) == (plot["IMAGES"] / f"{name}.svg").read_text("utf-8")


def test_lines() -> None:
    plot = runpy.run_path(str(ROOT / "benchmarks" / "muon_plot.py"))
    picture = ElementTree.fromstring(
        plot["svg"]({"ours": [4.0, 2.02, 1.0], "theirs": [4.0, 2.0, 1.0]}, 20, "{} and {}")
    )
    theirs, ours, apart = (
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in picture.iter(SVG + "polyline")
    )
    assert [x for x, _ in ours] == [x for x, _ in theirs] == [x for x, _ in apart]
    assert ours[0] == theirs[0]
    assert ours[1][1] < theirs[1][1]  # a larger loss is further up
    assert apart[0][1] - apart[1][1] == pytest.approx(plot["LOW"] / 2)  # 1 % is half of the scale


def test_the_comparison_ends_within_a_percent() -> None:
    text = (ROOT / "benchmarks" / "results" / "muon_training.json").read_text("utf-8")
    ours, theirs = (row["curve"] for row in json.loads(text)["rows"])
    assert abs(ours[-1] / theirs[-1] - 1) < 0.01
