"""Compiled kernels on disk, so that a second process starts in milliseconds.

An entry is named by what determines it: the text of the generated file, the versions of CuTe DSL,
the kind of processor and the number of SMs. It ends with its own checksum, and it replaces an old
one in one step, so that a reader sees a whole entry or none. ``SCHEDGEN_CACHE_DIR`` says where;
else it is ``schedgen`` in the user's cache folder. Nothing is ever deleted: an entry is some
100 KB.
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from schedgen.codegen.compiling import compile_file
from schedgen.codegen.facts import Facts
from schedgen.kernels.errors import DeviceError

log = logging.getLogger("schedgen.kernels")

_FORMAT = "1"
_PACKAGES = ("", "-libs-base", "-libs-core", "-libs-cu12", "-libs-cu13")
_DIGEST_BYTES = 32


def folder() -> Path:
    """Where entries are, whether or not it exists."""
    if chosen := os.environ.get("SCHEDGEN_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "schedgen"


def compiled(path: Path, facts: Facts, sms: int) -> bytes:
    """The object file of the generated file ``path`` for a GPU with ``sms`` SMs.

    Takes it from the cache, or compiles it, which takes 5 to 30 seconds. Processes that want the
    same entry wait for the first.

    Raises:
        DeviceError: CuTe DSL is not installed.
        CompileError: the file does not compile.
    """
    entry = folder() / f"{path.stem}-{_key(facts, sms)[:32]}.o"
    found = _read(entry)
    if found is not None:
        return found
    try:
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(entry.with_suffix(".lock")):
            found = _read(entry)  # another process may have been faster
            if found is None:
                found = _compile(path, sms)
                _write(entry, found)
    except OSError as error:
        log.warning("%s is not kept in %s: %s", path.stem, entry.parent, error.strerror)
        found = _compile(path, sms) if found is None else found
    return found


def _compile(path: Path, sms: int) -> bytes:
    log.info("compiling %s, once on this machine", path.stem)
    with tempfile.TemporaryDirectory(prefix="schedgen-") as scratch:
        return compile_file(path, Path(scratch), sms=sms).object.read_bytes()


def _key(facts: Facts, sms: int) -> str:
    parts = (_FORMAT, facts.sha256, facts.target, str(sms), platform.machine(), toolchain())
    return sha256("\n".join(parts).encode()).hexdigest()


@cache
def toolchain() -> str:
    """Names and versions of the packages that compile. Raises DeviceError if there are none."""
    found: list[str] = []
    for suffix in _PACKAGES:
        name = f"nvidia-cutlass-dsl{suffix}"
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    if not found:
        raise DeviceError("kernels need CuTe DSL; fix: pip install 'nvidia-cutlass-dsl>=4.8'")
    return ", ".join(found)


def _read(entry: Path) -> bytes | None:
    """The object in ``entry``; None if it is missing or damaged."""
    try:
        data = entry.read_bytes()
    except OSError:
        return None
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if sha256(body).digest() == digest:
        return body
    log.warning("%s is damaged; it is compiled again", entry)
    return None


def _write(entry: Path, body: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=f".{entry.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body + sha256(body).digest())
        os.replace(temporary, entry)
    except OSError:
        os.unlink(temporary)
        raise


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
