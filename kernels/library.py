"""The shipped kernels.

Their locks are shipped (`schedgen.driver.lock_file`), and a few files to read; the file of any
other is made from its lock when it is used first, without solving, and kept on disk.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import torch

from schedgen.codegen.facts import file_name
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Locked
from schedgen.errors import suggest
from schedgen.kernels import written
from schedgen.kernels.errors import DeviceError, KernelError
from schedgen.kernels.launcher import Launcher, architecture
from schedgen.kernels.launcher import launcher as _launcher
from schedgen.kernels.of_file import GeneratedKernel

EXAMPLES = Path(__file__).parent
"""Where the generated files are that are shipped as such."""

log = logging.getLogger("schedgen.kernels")


@cache
def launcher(device: torch.device, spec: str, **settings: str) -> Launcher:
    """The shipped kernel of ``spec`` with these settings, loaded for ``device``.

    Raises DeviceError if there is none for its architecture, and what `file` and
    `launcher.launcher` raise.
    """
    arch = architecture(device)
    found = lock_file.locked(spec, arch, settings)
    if found is None:
        name = file_name(spec, arch, settings)
        raise DeviceError(f"there is no {name} among the shipped kernels")
    return _launcher(file(found), device)


def file(kernel: Locked) -> Path:
    """The generated file of a shipped kernel, which is made if it is not there.

    Raises:
        LockError: what is installed would make another file than the one that was proven.
        KernelError: it cannot be written.
    """
    example = EXAMPLES / kernel.name
    path = written.place(kernel.name, kernel.kernel.text)
    if example.exists():
        return example
    if not path.exists():
        from schedgen.driver.locked import text_of

        log.info("emitting %s, once on this machine", kernel.name)
        written.write(path, text_of(kernel))
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
