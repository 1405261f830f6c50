"""The compiled side of operators: `native.cpp`, built once on a machine and loaded.

It needs a C++ compiler, no headers of torch or Python, and takes half a second. Without a compiler
everything works, and a call costs more on the host. ``SCHEDGEN_LAUNCHER=python`` leaves it away.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path

import torch

from schedgen.stored import folder

log = logging.getLogger("schedgen.kernels")

SOURCE = Path(__file__).with_name("native.cpp")
_COMPILERS = ("c++", "g++", "clang++")
_OPTIONS = ("-std=c++17", "-O2", "-shared", "-fPIC")

_slots = count()


class Native:
    """The compiled implementation of an operator for tensors of one dispatch key."""

    def __init__(self, library: ctypes.CDLL, slot: int) -> None:
        self._library, self._slot = library, slot

    def missed(self) -> bytes:
        """The signature for which this thread has last found no plan; empty if there can be none,
        for addresses that are not aligned, say.
        """
        key = ctypes.c_char_p()
        length = self._library.schedgen_missed(ctypes.byref(key))
        return ctypes.string_at(key, length) if length else b""

    def keep(self, key: bytes, words: Sequence[int]) -> None:
        """Keeps a plan (`schedgen.kernels.plans.encoded`) for a signature."""
        data = array("q", words)
        self._library.schedgen_keep(self._slot, key, len(key), data.buffer_info()[0])

    def forget(self) -> None:
        """Drops all plans."""
        self._library.schedgen_forget(self._slot)

    @property
    def plans(self) -> int:
        """How many plans there are."""
        return self._library.schedgen_plans(self._slot)


def operator(space: str, name: str, key: str, types: str, results: int) -> Native | None:
    """Implements the operator ``space::name`` for the dispatch ``key``; None if that cannot be done
    here.

    Args:
        types: a letter for each argument: T tensor, W tensor that it overwrites, O tensor or None,
            F float, U float that is looked at for being 1, B bool, I int.
        results: how many it has, tensors or None; 0 if it returns a bool.
    """
    library = _library()
    if library is None:
        return None
    slot = next(_slots)
    status = library.schedgen_operator(
        slot, space.encode(), name.encode(), key.encode(), types.encode(), results
    )
    return None if status else Native(library, slot)


def keep_counter(device: int, stream: int, address: int) -> None:
    """Tells plans where the counter of a stream is (`schedgen.kernels.counters`)."""
    library = _library()
    if library is not None:
        library.schedgen_counter(device, stream, address)


@cache
def _library() -> ctypes.CDLL | None:
    if os.environ.get("SCHEDGEN_LAUNCHER") == "python":
        return None
    try:
        library = ctypes.CDLL(str(_built()))
        library.schedgen_operator.argtypes = [
            ctypes.c_int, *[ctypes.c_char_p] * 4, ctypes.c_int64,
        ]  # fmt: skip
        library.schedgen_missed.restype = ctypes.c_int64
        library.schedgen_missed.argtypes = [ctypes.c_void_p]
        library.schedgen_keep.restype = None
        library.schedgen_keep.argtypes = [
            ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p,
        ]  # fmt: skip
        library.schedgen_forget.restype = None
        library.schedgen_counter.restype = None
        library.schedgen_counter.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        library.schedgen_plans.restype = ctypes.c_int64
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        log.warning(
            "calls of kernels go through Python, which takes some 100 us of each: %s; "
            "fix: install a C++ compiler, such as g++",
            error,
        )
        return None
    return library


def libraries() -> Path:
    """Where the libraries of torch are."""
    return Path(torch.__file__).parent / "lib"


def _built() -> Path:
    """The shared library, named by what it is built from. Raises OSError, SubprocessError."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    options = [*_OPTIONS, f"-L{libraries()}", f"-Wl,-rpath,{libraries()}"]
    made_from = "\n".join([SOURCE.read_text("utf-8"), str(torch.__version__), *options])
    path = folder() / f"native-{sha256(made_from.encode()).hexdigest()[:32]}.so"
    if path.exists():
        return path
    if compiler is None:
        raise OSError(f"there is no compiler here ({', '.join(_COMPILERS)})")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="schedgen-") as scratch:
        made = Path(scratch) / path.name
        run = subprocess.run(
            [compiler, *options, str(SOURCE), "-o", str(made), "-ltorch_cpu"],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise OSError(f"{compiler} does not compile {SOURCE}: {run.stderr.strip()[:500]}")
        # In two steps, so that another process sees all of it or nothing.
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        shutil.copy(made, beside)
        os.replace(beside, path)
    return path
