"""What several commands need: settings, files, progress, how a command ends."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer

from schedgen.errors import SchedgenError

PROVEN, INFEASIBLE, BAD_INPUT, UNPROVEN = 0, 1, 2, 3


def print_json(value: object) -> None:
    """``value`` as indented JSON."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def whole(text: str) -> int:
    """The size in ``text``. Raises SchedgenError."""
    if not text.isdecimal():
        raise SchedgenError(f"--extent: '{text}' is not a whole number")
    return int(text)


def settings_of(texts: list[str], option: str = "--set") -> dict[str, str]:
    """NAME=VALUE as a mapping; ends the command if something given to ``option`` is not of this
    form.
    """
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            fail(f"{option} {text}: write NAME=VALUE")
        if name in settings:
            fail(f"{option} {name} is given twice")
        settings[name] = value
    return settings


def write(path: Path, text: str) -> None:
    """Writes the whole file or nothing: a new file in the same folder takes the place of the old
    one.
    """
    try:
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
        )
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        fail(f"{path}: {error.strerror}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class Ticker:
    """Progress on a terminal once the work has lasted a second; silent in pipes."""

    def __enter__(self) -> Callable[[str], None]:
        from time import perf_counter

        self._begin, self._shown, self._clock = perf_counter(), False, perf_counter
        return self.tick

    def tick(self, text: str) -> None:
        if sys.stderr.isatty() and self._clock() - self._begin > 1.0:
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")


def fail(message: str, status: int = BAD_INPUT) -> NoReturn:
    """Ends the command with a message."""
    typer.echo(message, err=True)
    raise typer.Exit(status)
