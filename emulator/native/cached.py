"""Machine code on disk: what LLVM made of a text once, for the same processor.

Files are named by the text, by how much it is optimized, by the versions of LLVM and llvmlite, and
by the processor with all that it can; they end with a checksum and come into being in one step, so
that nothing that is read can be out of date, of another processor or half written
(`schedgen.entries`). What is damaged is made again. Where nothing can be written, or with
``SCHEDGEN_NATIVE_CACHE=0`` in the environment, LLVM compiles in every process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from hashlib import sha256

from schedgen.entries import folder, read_entry, write_entry

log = logging.getLogger("schedgen.native")


def cached(key: str, make: Callable[[], bytes]) -> bytes:
    """The object code that is kept for a key, or that is made now and kept.

    Args:
        key: all that determines it.
        make: makes it.
    """
    if os.environ.get("SCHEDGEN_NATIVE_CACHE") == "0":
        return make()
    entry = folder() / f"native-{sha256(key.encode()).hexdigest()[:32]}.o"
    found = read_entry(entry)
    if found is None:
        found = make()
        try:
            entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_entry(entry, found)
        except OSError as error:
            log.debug("machine code is not kept in %s: %s", entry.parent, error.strerror)
    return found
