"""`schedgen build`: compiles the shipped kernels ahead of their first call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import print_json
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.kernels.library import Built

DONE, FAILED, BAD_INPUT = 0, 1, 2


def run_build(
    names: Sequence[str], target: str | None, sms: int | None, jobs: int | None, as_json: bool
) -> int:
    """Fills the cache with the shipped kernels whose names begin with one of ``names``, and tells
    of each as it is done.

    Returns the exit status: 0 all are there, 1 one does not compile, 2 bad input.
    """
    from schedgen.kernels import cache
    from schedgen.kernels.library import build, shipped
    from schedgen.kernels.regenerate import TARGETS

    if target is not None and target not in TARGETS:
        typer.echo(f"'{target}' has no shipped kernels; use {', '.join(TARGETS)}", err=True)
        return BAD_INPUT
    kernels = shipped([TARGETS[target]] if target else list(TARGETS.values()), names)
    if not kernels:
        typer.echo(
            f"no shipped kernel begins with {', '.join(names)}; fix: give the beginning of a "
            "name, such as attention_fwd, or none",
            err=True,
        )
        return BAD_INPUT
    found: list[Built] = []
    try:
        for one in build(kernels, jobs or os.cpu_count() or 1, sms):
            found.append(one)
            if not as_json:
                typer.echo(f"{len(found)}/{len(kernels)} {_line(one)}")
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return FAILED
    if as_json:
        print_json({"folder": str(cache.folder()), "kernels": [asdict(one) for one in found]})
    else:
        typer.echo(f"{sum(not one.error for one in found)} kernels in {cache.folder()}")
    return FAILED if any(one.error for one in found) else DONE


def _line(one: Built) -> str:
    if one.error:
        return f"{one.name}: {one.error}"
    return f"{one.name}: {'was there' if one.kept else f'{one.size} bytes, {one.seconds:.1f} s'}"
