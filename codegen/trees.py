"""Python text as trees, in several threads."""

from __future__ import annotations

import ast
from pathlib import Path
from threading import Lock

from schedgen.codegen.errors import EmitError

_ONE_AT_A_TIME = Lock()
"""Python 3.11 counts the depth of the tree that it builds for all threads together, and refuses
one during which another was begun (SystemError: AST constructor recursion depth mismatch; CPython
issue 106905).
"""


def parsed(text: str | bytes, name: str = "<text>") -> ast.Module:
    """The tree of a module. Raises SyntaxError or ValueError: it is not Python."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, filename=name)


def read_tree(path: Path) -> tuple[bytes, ast.Module]:
    """What stands in a Python file, and its tree. Raises EmitError: there is none."""
    try:
        data = path.read_bytes()
        return data, parsed(data, str(path))
    except OSError as error:
        raise EmitError(f"{path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise EmitError(f"{path}: this is not Python: {error}") from None
