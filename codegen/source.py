"""Text of generated Python: lines with indentation."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

WIDTH = 100
"""Columns of a line."""


class Source:
    """Lines under construction."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self._depth = depth

    def add(self, *lines: str) -> None:
        """Appends lines at the current depth; an empty one stays empty."""
        self.lines += ["    " * self._depth + line if line else "" for line in lines]

    def insert(self, at: int, *lines: str) -> None:
        """Puts lines of the current depth before line ``at``."""
        self.lines[at:at] = ["    " * self._depth + line for line in lines]

    def call(self, function: str, arguments: Sequence[str], end: str = "") -> None:
        """A call, on one line if it fits, else with its arguments below it."""
        room = WIDTH - 4 * self._depth
        inline = ", ".join(arguments)
        if len(f"{function}({inline}){end}") <= room:
            self.add(f"{function}({inline}){end}")
        elif len(inline) + 4 <= room:
            self.add(f"{function}(", f"    {inline}", f"){end}")
        else:
            self.add(f"{function}(", *(f"    {argument}," for argument in arguments), f"){end}")

    def comment(self, text: str) -> None:
        self.add(f"# {text}")

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """``head`` with what is added inside indented below it."""
        self.add(head)
        self._depth += 1
        start = len(self.lines)
        try:
            yield
        finally:
            if not any(
                line.strip() and not line.strip().startswith("#") for line in self.lines[start:]
            ):
                self.add("pass")
            self._depth -= 1

    def words(self) -> set[str]:
        """All names in its code."""
        return {word for line in self.lines for word in re.findall(r"\w+", line.split("#")[0])}

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
