"""Small parts of a page as text; all that comes from outside is escaped."""

from __future__ import annotations

from html import escape
from typing import Any

Data = dict[str, Any]
_LONG = 120
"""Characters of an instruction where it is only named."""


def tag(name: str, *inside: str, **attributes: str | bool | None) -> str:
    """An element; ``inside`` is markup already, attributes are not. ``class_`` is ``class``."""
    text = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return f"<{name}{text}>{''.join(inside)}</{name}>"


def code(text: str) -> str:
    """Text of a program."""
    return tag("code", escape(text))


def several(count: int, one: str, many: str = "") -> str:
    """``2 launches``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def place_name(place: Data) -> str:
    """``file:line``, or the line of PTX."""
    if place.get("file"):
        return f"{place['file']}:{place['line']}"
    return f"PTX line {place['ptx_line']}" if place.get("ptx_line") else ""


def shortened(instruction: str) -> str:
    """An instruction whose many registers are left out."""
    text = " ".join(instruction.split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
