"""Programs, run in this process as Python would run them."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedgen.emulator.race.session import LimitReached
from schedgen.errors import SchedgenError, suggest


class ProgramError(SchedgenError):
    """There is no such program."""


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        status: its exit status; 1 if it raised an exception.
        error: the text of the exception with its traceback, empty if there was none.
        limited: why it was ended before, empty if it was not.
    """

    status: int = 0
    error: str = ""
    limited: str = ""


@dataclass(frozen=True)
class Program:
    """What is to be run. ``run`` takes no arguments, ``sys.argv`` has the program's; ``path`` is
    the folder that Python puts in front of ``sys.path``."""

    name: str
    run: Callable[[], object]
    path: str
    arguments: tuple[str, ...]


def script(name: str, arguments: tuple[str, ...]) -> Program:
    """The file `name`, or the function ``MODULE:FUNCTION``, which is called without arguments.

    Raises:
        ProgramError: there is no such file.
    """
    path = Path(name)
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise ProgramError(f"{name} is a folder without __main__.py; fix: name a file in it")
    if path.exists():
        where = str(path.resolve() if path.is_dir() else path.resolve().parent)
        return Program(name, lambda: runpy.run_path(name, run_name="__main__"), where, arguments)
    module, colon, function = name.partition(":")
    if colon and module and function.isidentifier():
        return Program(name, lambda: _call(module, function), str(Path.cwd()), arguments)
    near = suggest(path.name, _beside(path))
    fix = near or "give the path of a Python file, MODULE:FUNCTION, or -m MODULE"
    raise ProgramError(f"{name}: no such file; fix: {fix}")


def module(name: str, arguments: tuple[str, ...]) -> Program:
    """The module `name`, as ``python -m`` runs it.

    Raises:
        ProgramError: there is no such module.
    """
    try:
        there = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        there = False
    if not there and not (Path.cwd() / Path(*name.split("."))).with_suffix(".py").exists():
        raise ProgramError(f"-m {name}: no such module; fix: install it, or run in its folder")
    return Program(
        f"-m {name}",
        lambda: runpy.run_module(name, run_name="__main__", alter_sys=True),
        str(Path.cwd()),
        arguments,
    )


def run(program: Program) -> Ended:
    """Runs it. Whatever it raises is how it ended, except an interrupt.

    Raises:
        ProgramError: the module has no such function.
    """
    with _arguments(program):
        try:
            program.run()
        except LimitReached as limit:
            return Ended(limited=str(limit))
        except ProgramError:
            raise
        except SystemExit as end:
            return _ended(end)
        except Exception as error:
            return Ended(1, _told(error))
    return Ended()


def _call(module: str, function: str) -> object:
    found = importlib.import_module(module)
    if not callable(called := getattr(found, function, None)):
        near = suggest(function, [name for name in vars(found) if callable(vars(found)[name])])
        raise ProgramError(f"{module} has no function '{function}'; fix: {near or 'name another'}")
    return called()


@contextmanager
def _arguments(program: Program) -> Generator[None]:
    argv, path = sys.argv, list(sys.path)
    name = program.name.removeprefix("-m ")
    sys.argv = [name, *program.arguments]
    sys.path.insert(0, program.path)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _ended(end: SystemExit) -> Ended:
    if end.code is None or isinstance(end.code, int):
        return Ended(int(end.code or 0))
    return Ended(1, str(end.code))


def _told(error: BaseException) -> str:
    """The traceback, without the frames in front of the program's own."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [at for at, frame in enumerate(frames) if frame.filename == __file__]
    machinery = ("<frozen runpy>",)
    first = inside[-1] + 1 if inside else 0
    kept = [frame for frame in frames[first:] if frame.filename not in machinery]
    text = "".join(traceback.format_list(kept))
    return f"Traceback (most recent call last):\n{text}{type(error).__name__}: {error}"


def _beside(path: Path) -> list[str]:
    folder = path.parent
    return [one.name for one in folder.iterdir()] if folder.is_dir() else []
