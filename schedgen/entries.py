"""Entries on disk that save work of later commands: schedules, reports of compilers, objects.

An entry is named by what determines its content. It ends with its own checksum, and it replaces an
old one in one step, so that a reader sees a whole entry or none. ``SCHEDGEN_CACHE_DIR`` says where;
else it is ``schedgen`` in the user's cache folder. All of it can be deleted at any time.
"""

from __future__ import annotations

import logging
import os
import tempfile
from hashlib import sha256
from pathlib import Path

log = logging.getLogger("schedgen.stored")

_DIGEST_BYTES = 32


def folder() -> Path:
    """Where entries are, whether or not it exists."""
    if chosen := os.environ.get("SCHEDGEN_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "schedgen"


def read_entry(entry: Path) -> bytes | None:
    """The content of ``entry``; None if it is missing or damaged."""
    try:
        data = entry.read_bytes()
    except OSError:
        return None
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if sha256(body).digest() == digest:
        return body
    log.warning("%s is damaged; it is made again", entry)
    return None


def write_entry(entry: Path, body: bytes) -> None:
    """Makes ``body`` the content of ``entry``, in a folder that exists. Raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=f".{entry.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body + sha256(body).digest())
        os.replace(temporary, entry)
    except OSError:
        os.unlink(temporary)
        raise
