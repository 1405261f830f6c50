"""Generated files on disk, where compiled kernels are kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from schedgen.kernels.errors import KernelError
from schedgen.stored import folder


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
