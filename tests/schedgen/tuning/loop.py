"""`schedgen tune` of a small product on a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schedgen.cli.common import write
from schedgen.cli.tune import Files, Options, run_tune
from schedgen.tuning.shapes import Shape
from tests.schedgen.tuning.bench import benches, uncompiled

SPEC = str(Path(__file__).parents[3] / "docs" / "examples" / "tiny_gemm.yaml")
OPTIONS = Options(
    SPEC,
    "h200",
    settings={"slices": "4"},
    tries={"tile_n": ["128", "256", "192", "320"]},
    shapes=["m=1024,n=1024,k=512", "m=8192,n=8192,k=512"],
    seconds=1e6,
)


def silent(text: str) -> None:
    del text


def cost(settings: Mapping[str, str], shape: Shape) -> float:
    """Small problems want small tiles."""
    tile = int(settings.get("tile_n", "256"))
    return 0.1 + abs(tile - (128 if shape["m"] < 4096 else 192)) * (shape["m"] / 1e6)


def tune(files: Files, options: Options = OPTIONS, as_json: bool = False, **bench: object) -> int:
    made = benches(cost, **bench)
    return run_tune(options, files, write, silent, as_json=as_json, benches=made, make=uncompiled)
