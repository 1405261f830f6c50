"""Texts on disk that save work of later commands: schedules, reports of compilers.

What is kept is named by what determines it (`schedgen.entries` says where, and how).
"""

from __future__ import annotations

import json
import logging
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import schedgen
from schedgen.codegen import errors  # for its folder
from schedgen.entries import folder, read_entry, write_entry

log = logging.getLogger("schedgen.stored")

_SOLVERS = ("ortools", "z3-solver")


class Store:
    """Texts on disk by what they are made from: nothing that is kept can be out of date."""

    def __init__(self, where: Path | None = None) -> None:
        self._where = folder() if where is None else where

    def get(self, kind: str, made_from: object) -> str | None:
        """The text that was kept; ``made_from`` is plain data that determines it."""
        found = read_entry(self._entry(kind, made_from))
        return None if found is None else found.decode("utf-8")

    def put(self, kind: str, made_from: object, text: str) -> None:
        """Keeps ``text``; where that is not possible, the work is done again next time."""
        entry = self._entry(kind, made_from)
        try:
            entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_entry(entry, text.encode("utf-8"))
        except OSError as error:
            log.warning("a %s is not kept in %s: %s", kind, entry.parent, error.strerror)

    def _entry(self, kind: str, made_from: object) -> Path:
        key = sha256(json.dumps([solver(), made_from], sort_keys=True).encode()).hexdigest()
        return self._where / f"{kind}-{key[:32]}.json"


@cache
def solver() -> str:
    """What solves: the version, the text of this package and the versions of its solvers.

    The text, because a version has many of them while somebody works on it.
    """
    digest = sha256()
    for root in (Path(schedgen.__file__).parent, Path(errors.__file__).parent):
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    packages = [f"{name} {_version(name)}" for name in _SOLVERS]
    return " ".join([schedgen.__version__, digest.hexdigest(), *packages])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
