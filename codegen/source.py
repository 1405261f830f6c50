"""Text of generated Python: lines with indentation, and identifiers."""

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


def identifier(name: str) -> str:
    """``EXP[0,1]`` -> ``EXP_0_1``; ``sA full sB full`` -> ``sA_full_sB_full``."""
    text = re.sub(r"\W+", "_", name.replace("'", "_prime")).strip("_")
    return f"_{text}" if text[:1].isdigit() else text


class Names:
    """Distinct identifiers, the same for equal names."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def of(self, kind: str, name: str, prefix: str = "", base: str = "") -> str:
        """The identifier of something; ``kind`` keeps an operation apart from a buffer.

        It is made of ``base``, or else of the name.
        """
        if (kind, name) not in self._given:
            base = prefix + identifier(base or name)
            text, number = base, 2
            while text in self._taken:
                text, number = f"{base}_{number}", number + 1
            self._taken.add(text)
            self._given[kind, name] = text
        return self._given[kind, name]
