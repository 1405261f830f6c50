"""Compiles shipped kernels ahead of their first call, for images and clusters: no GPU is needed.

Entries of the cache are for machines with the same versions of CuTe DSL, processors of the same
kind and GPUs with that number of SMs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import read_facts
from schedgen.kernels import cache
from schedgen.kernels.library import FOLDER

SMS = {"sm_90a": 132, "sm_100a": 148}
"""SMs of an H200 and of a B200, for which kernels are compiled unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of one kernel: the size of its object in bytes, or what the compiler said.

    ``kept``: it was there before.
    """

    name: str
    seconds: float
    size: int = 0
    kept: bool = False
    error: str = ""


def shipped_files(archs: Sequence[str], names: Sequence[str] = ()) -> list[Path]:
    """The shipped kernels of these architectures whose names begin with one of ``names``, if there
    are any.
    """
    found = (path for arch in archs for path in sorted(FOLDER.glob(f"*_{arch}_*.py")))
    return [path for path in found if path.name.startswith(tuple(names) or "")]


def build(files: Sequence[Path], jobs: int, sms: int | None = None) -> Iterator[Built]:
    """Compiles ``files`` into the cache, ``jobs`` at a time; each as it is done.

    ``sms``: of the GPU, by default those of `SMS`. What is in the cache is not compiled again, so a
    build that was interrupted goes on. Raises DeviceError: CuTe DSL is not installed.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Built]] = [pool.submit(_built, path, sms) for path in files]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _built(path: Path, sms: int | None) -> Built:
    begin = perf_counter()
    facts = read_facts(path)
    count = sms or SMS[facts.target]
    kept = cache.entry(path, facts, count).exists()
    try:
        size = len(cache.compiled(path, facts, count))
    except CompileError as error:
        return Built(path.stem, perf_counter() - begin, error=str(error))
    return Built(path.stem, perf_counter() - begin, size, kept)
