"""Programs as JSON: everything in a stable order; what is read back is checked."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, cast

from schedgen.errors import SchedgenError
from schedgen.program.model import Program

if TYPE_CHECKING:
    from pydantic import ValidationError

PROGRAM_FORMAT = 5


class ProgramFileError(SchedgenError, ValueError):
    """A program file that cannot be read; the message says what is wrong with it."""


def to_json(program: Program, **extra: object) -> str:
    """``program`` as JSON text, one object; ``extra`` adds keys, such as ``proof``."""
    data = {"program_format": PROGRAM_FORMAT, **asdict(program), **extra}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def is_program(data: object) -> bool:
    """Whether JSON data claims to be a program."""
    return isinstance(data, dict) and "program_format" in data


def read_program(text: str, file: str = "<text>") -> Program:
    """The program in ``text``; raises ProgramFileError for what `to_json` did not write."""
    from pydantic import TypeAdapter, ValidationError

    again = "give a file written by 'schedgen solve --program'"
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramFileError(f"{file}: this is not JSON ({error}); {again}") from None
    if not is_program(data):
        raise ProgramFileError(f"{file}: this JSON is not a program; {again}")
    found = cast("dict[str, Any]", data)
    if found["program_format"] != PROGRAM_FORMAT:
        raise ProgramFileError(
            f"{file}: program format {found['program_format']!r}, this schedgen reads "
            f"{PROGRAM_FORMAT}; make it again"
        )
    known = {entry.name for entry in fields(Program)}
    plain = {key: value for key, value in found.items() if key in known}
    try:
        return TypeAdapter(Program).validate_python(plain)
    except ValidationError as error:
        raise ProgramFileError(
            f"{file}: this program is damaged ({_first(error)}); make it again"
        ) from None


def _first(error: ValidationError) -> str:
    problems = error.errors()
    # An action is one of several; those that it does not even claim to be are not meant.
    others = [p["loc"][:-1] for p in problems if p["loc"][-1:] == ("do",)]
    meant = [p for p in problems if not any(p["loc"][: len(o)] == o for o in others)]
    problem = (meant or problems)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}"
