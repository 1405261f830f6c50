"""`schedgen bench`: speed of the shipped kernels on the GPU at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import typer

DONE, NO_GPU, BAD_INPUT = 0, 1, 2


def run_bench(spec: str, as_json: bool) -> int:
    """Times the shipped kernels of ``spec`` beside their peers and prints a table, or JSON.

    ``spec`` may be ``polar``, too, whose iterations take many launches.

    Returns the exit status: 0 done, 1 there is no GPU or no kernel for it, 2 bad input.
    """
    import torch

    from schedgen.benchmarks.shipped import SPECS, where
    from schedgen.kernels.errors import KernelError

    if spec not in SPECS:
        typer.echo(f"'{spec}' has no benchmark; use {', '.join(SPECS)}", err=True)
        return BAD_INPUT
    if not torch.cuda.is_available():
        typer.echo("there is no GPU here; schedgen bench times kernels on one", err=True)
        return NO_GPU
    try:
        rows = list(SPECS[spec]())
    except KernelError as error:
        typer.echo(str(error), err=True)
        return NO_GPU
    if as_json:
        typer.echo(json.dumps({**where(), "rows": rows}, indent=1))
        return DONE
    typer.echo(", ".join(f"{name} {text}" for name, text in where().items()))
    typer.echo(_table(rows))
    return DONE


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    """Aligned columns: all that any row has, in the order in which they first appear."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)
