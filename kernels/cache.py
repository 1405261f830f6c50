"""Kernels on disk: generated files, and what they compile to, so that a second process starts in
milliseconds.

A compiled kernel is named by what determines it: the text of the generated file, the versions of
CuTe DSL, the kind of processor and the number of SMs. `schedgen.stored` says where it is and how it
is written. Nothing is ever deleted: an entry is some 100 KB.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from schedgen.codegen.compiling import compile_file, packages
from schedgen.codegen.facts import Facts
from schedgen.kernels.errors import DeviceError, KernelError
from schedgen.stored import folder, read_entry, write_entry

log = logging.getLogger("schedgen.kernels")

_FORMAT = "1"


def place(name: str, digest: str) -> Path:
    """Where the generated file ``name`` is kept; ``digest`` tells it from others of that name."""
    return folder() / "kernels" / digest[:16] / name


def write(path: Path, text: str) -> Path:
    """``path`` with ``text`` as its content; a reader sees a whole file or none.

    Raises KernelError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise KernelError(
            f"{path}: {error.strerror}; fix: set SCHEDGEN_CACHE_DIR to a folder that can be written"
        ) from None
    return path


def compiled(path: Path, facts: Facts, sms: int) -> bytes:
    """The object file of the generated file ``path`` for a GPU with ``sms`` SMs.

    Takes it from the cache, or compiles it, which takes 5 to 30 seconds. Processes that want the
    same entry wait for the first.

    Raises:
        DeviceError: CuTe DSL is not installed.
        CompileError: the file does not compile.
    """
    where = entry(path, facts, sms)
    found = read_entry(where)
    if found is not None:
        return found
    try:
        where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(where.with_suffix(".lock")):
            found = read_entry(where)  # another process may have been faster
            if found is None:
                found = _compile(path, sms)
                write_entry(where, found)
    except OSError as error:
        log.warning("%s is not kept in %s: %s", path.stem, where.parent, error.strerror)
        found = _compile(path, sms) if found is None else found
    return found


def entry(path: Path, facts: Facts, sms: int) -> Path:
    """Where that object file is, or will be. Raises DeviceError: CuTe DSL is not installed."""
    return folder() / f"{path.stem}-{_key(facts, sms)[:32]}.o"


def _compile(path: Path, sms: int) -> bytes:
    log.info("compiling %s, once on this machine", path.stem)
    with tempfile.TemporaryDirectory(prefix="schedgen-") as scratch:
        return compile_file(path, Path(scratch), sms=sms).object.read_bytes()


def _key(facts: Facts, sms: int) -> str:
    parts = (_FORMAT, facts.sha256, facts.target, str(sms), platform.machine(), toolchain())
    return sha256("\n".join(parts).encode()).hexdigest()


def toolchain() -> str:
    """Names and versions of the packages that compile. Raises DeviceError if there are none."""
    found = packages()
    if not found:
        raise DeviceError("kernels need CuTe DSL; fix: pip install 'nvidia-cutlass-dsl>=4.8'")
    return ", ".join(found)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
