"""`schedgen build`: compiles shipped kernels, or those of a spec, ahead of their first call."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from schedgen.cli.common import print_json
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.kernels.library import Built
    from schedgen.kernels.of_spec import SpecKernel

DONE, FAILED, BAD_INPUT = 0, 1, 2


def run_build(
    names: Sequence[str], target: str | None, sms: int | None, jobs: int | None, as_json: bool
) -> int:
    """Fills the cache with the shipped kernels whose names begin with one of ``names``, and tells
    of each as it is done.

    Returns the exit status: 0 all are there, 1 one does not compile, 2 bad input.
    """
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
    try:
        return _told(build(kernels, jobs or os.cpu_count() or 1, sms), len(kernels), as_json)
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return FAILED


def run_build_spec(
    spec: str,
    settings: Mapping[str, str],
    target: str | None,
    sms: int | None,
    progress: Callable[[str], None],
    as_json: bool,
) -> int:
    """Fills the cache with the kernels of a spec or a plan, as `schedgen.kernels.kernel` makes them
    on the first call: for ``target``, or for each GPU that it is written for.

    Returns the exit status: 0 all are there, 1 one has no schedule, or the compiler refuses it, 2
    bad input.
    """
    try:
        targets = [target] if target else _targets(spec)
        with _heard(progress):
            return _told(_each(spec, settings, targets, sms), len(targets), as_json)
    except SchedgenError as error:
        typer.echo(str(error), err=True)
        return error.status


def _targets(spec: str) -> list[str]:
    """The machine models of GPUs that a spec or a plan is written for."""
    from schedgen.kernels.regenerate import TARGETS
    from schedgen.spec.plan import read_plan
    from schedgen.spec.reader import find_source, is_plan, read_spec

    file = (read_plan if is_plan(find_source(spec)) else read_spec)(spec).file
    return [one for one in file.targets if one in TARGETS] or list(file.targets[:1])


def _each(
    spec: str, settings: Mapping[str, str], targets: Sequence[str], sms: int | None
) -> Iterator[Built]:
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.found import Infeasible
    from schedgen.kernels.library import Built, built

    for target in targets:
        begin = perf_counter()
        try:
            made = _kernels(spec, settings, target)
        except (EmitError, Infeasible) as error:
            yield Built(f"{spec} for {target}", perf_counter() - begin, error=str(error))
            continue
        for one in made:
            yield built(one.path, sms, begin)
            begin = perf_counter()


def _kernels(spec: str, settings: Mapping[str, str], target: str) -> tuple[SpecKernel, ...]:
    from schedgen.kernels.of_plan import plan_kernel
    from schedgen.kernels.of_spec import spec_kernel
    from schedgen.spec.reader import find_source, is_plan

    if is_plan(find_source(spec)):
        return plan_kernel(spec, settings, target).kernels
    return (spec_kernel(spec, settings, target),)


@contextmanager
def _heard(progress: Callable[[str], None]) -> Generator[None]:
    """What functions say while they make kernels goes to ``progress``, and nowhere else."""
    log, handler = logging.getLogger("schedgen.kernels"), logging.Handler()
    handler.emit = lambda record: progress(record.getMessage())
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


def _told(every: Iterator[Built], count: int, as_json: bool) -> int:
    """Tells of each kernel as it is done."""
    from schedgen.kernels import cache

    found: list[Built] = []
    for one in every:
        found.append(one)
        if not as_json:
            typer.echo(f"{len(found)}/{max(count, len(found))} {_line(one)}")
    if as_json:
        print_json({"folder": str(cache.folder()), "kernels": [asdict(one) for one in found]})
    else:
        typer.echo(f"{sum(not one.error for one in found)} kernels in {cache.folder()}")
    return FAILED if any(one.error for one in found) else DONE


def _line(one: Built) -> str:
    if one.error:
        return f"{one.name}: {one.error}"
    return f"{one.name}: {'was there' if one.kept else f'{one.size} bytes, {one.seconds:.1f} s'}"
