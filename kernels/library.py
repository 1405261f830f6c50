"""The shipped kernels.

Their locks are shipped (`schedgen.driver.lock_file`), and a few files to read; the file of any
other is made from its lock when it is used first, without solving, and kept on disk. `build`
compiles them ahead of their first call, for images and clusters: no GPU is needed for that.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import file_name, read_facts
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Locked, LockError
from schedgen.errors import suggest
from schedgen.kernels import cache
from schedgen.kernels.errors import DeviceError, KernelError
from schedgen.kernels.launcher import Launcher, architecture
from schedgen.kernels.launcher import launcher as _launcher
from schedgen.kernels.of_file import GeneratedKernel

EXAMPLES = Path(__file__).parent
"""Where the generated files are that are shipped as such."""
SMS = {"sm_90a": 132, "sm_100a": 148}
"""SMs of an H200 and of a B200, for which kernels are compiled unless somebody says otherwise."""

log = logging.getLogger("schedgen.kernels")


@functools.cache
def launcher(device: torch.device, spec: str, **settings: str) -> Launcher:
    """The shipped kernel of ``spec`` with these settings, loaded for ``device``.

    Raises what `path_of` and `launcher.launcher` raise.
    """
    return _launcher(path_of(spec, architecture(device), settings), device)


def path_of(spec: str, arch: str, settings: Mapping[str, str]) -> Path:
    """The file of the shipped kernel of ``spec`` with these settings, as of `file`.

    Raises DeviceError: there is none.
    """
    found = lock_file.locked(spec, arch, settings)
    if found is None:
        name = file_name(spec, arch, settings)
        raise DeviceError(f"there is no {name} among the shipped kernels")
    return file(found)


def file(kernel: Locked) -> Path:
    """The generated file of a shipped kernel, which is made if it is not there.

    Raises:
        LockError: what is installed would make another file than the one that was proven.
        KernelError: it cannot be written.
    """
    example = EXAMPLES / kernel.name
    path = cache.place(kernel.name, kernel.kernel.text)
    if example.exists():
        return example
    if not path.exists():
        from schedgen.driver.locked import text_of

        log.info("emitting %s, once on this machine", kernel.name)
        cache.write(path, text_of(kernel))
    return path


def named(name: str) -> Path:
    """The file of the shipped kernel that is called ``name``, as of `file`.

    Raises KernelError: there is none.
    """
    found = lock_file.named(name)
    if found is None:
        close = suggest(name, [one.name for one in lock_file.every()])
        fix = close or "names are SPEC_ARCH_SETTINGS.py, such as gemm_sm_90a_fp16.py"
        raise KernelError(f"'{name}' is no shipped kernel; fix: {fix}")
    return file(found)


def load(path: str | Path) -> GeneratedKernel:
    """The kernel in a file written by ``schedgen emit``; or, if there is no such file, the shipped
    one that is called so, such as ``"gemm_sm_90a_fp16.py"``.

    Raises EmitError: the file is no generated one. KernelError: it is neither.
    """
    path = Path(path)
    shipped = not path.exists() and path.name == str(path)
    return GeneratedKernel(named(path.name) if shipped else path)


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
    build that was interrupted goes on. Raises DeviceError: CuTe DSL is not installed. The
    same versions of CuTe DSL, processors of the same kind and GPUs with so many SMs find them.
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
    try:
        path = file(kernel)
    except LockError as error:
        return Built(kernel.name.removesuffix(".py"), perf_counter() - begin, error=str(error))
    return built(path, sms, begin)


def built(path: Path, sms: int | None, begin: float) -> Built:
    """Compiles a generated file into the cache, if it is not there, and says what came of it.

    ``sms``: as of `build`. ``begin``: when it was begun to make the file (`time.perf_counter`).
    """
    facts = read_facts(path)
    count = sms or SMS[facts.target]
    try:
        kept = cache.entry(path, facts, count).exists()
        size = len(cache.compiled(path, facts, count))
    except CompileError as error:
        return Built(path.stem, perf_counter() - begin, error=str(error))
    return Built(path.stem, perf_counter() - begin, size, kept)
