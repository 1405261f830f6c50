"""Compiles shipped kernels ahead of their first call, for images and clusters: no GPU is needed.

Entries of the cache are for machines with the same versions of CuTe DSL, processors of the same
kind and GPUs with that number of SMs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from time import perf_counter

from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import read_facts
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Locked, LockError
from schedgen.kernels import cache, library

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


def shipped(archs: Sequence[str], names: Sequence[str] = ()) -> list[Locked]:
    """The shipped kernels of these architectures whose names begin with one of ``names``, if there
    are any.
    """
    found = (one for one in lock_file.every() if one.lock.arch in archs)
    return [one for one in found if one.name.startswith(tuple(names) or "")]


def build(kernels: Sequence[Locked], jobs: int, sms: int | None = None) -> Iterator[Built]:
    """Emits and compiles ``kernels`` into the cache, ``jobs`` at a time; each as it is done.

    ``sms``: of the GPU, by default those of `SMS`. What is in the cache is not compiled again, so a
    build that was interrupted goes on. Raises DeviceError: CuTe DSL is not installed.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Built]] = [pool.submit(_built, one, sms) for one in kernels]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _built(kernel: Locked, sms: int | None) -> Built:
    begin = perf_counter()
    name = kernel.name.removesuffix(".py")
    count = sms or SMS[kernel.lock.arch]
    try:
        path = library.file(kernel)
        facts = read_facts(path)
        kept = cache.entry(path, facts, count).exists()
        size = len(cache.compiled(path, facts, count))
    except (CompileError, LockError) as error:
        return Built(name, perf_counter() - begin, error=str(error))
    return Built(name, perf_counter() - begin, size, kept)
