"""Listings as nvdisasm writes them, of instructions given as text and control bits."""

from __future__ import annotations

from collections.abc import Sequence

NONE = 7


def line(
    at: int, text: str, stall: int = 1, writes: int = NONE, reads: int = NONE, waits: str = ""
) -> str:
    """An instruction at the address ``16 at``; ``waits``: digits of scoreboards."""
    mask = sum(1 << int(digit) for digit in waits)
    word = stall << 41 | writes << 46 | reads << 49 | mask << 52
    return f"  /*{16 * at:04x}*/  {text} ;  /* 0x0000000000000000 */\n  /* 0x{word:016x} */"


def listing(lines: Sequence[str | tuple[object, ...]]) -> str:
    """Labels are texts; instructions are tuples of what `line` takes behind the address."""
    found: list[str] = []
    at = 0
    for one in lines:
        if isinstance(one, str):
            found.append(one)
        else:
            found.append(line(at, *one))  # pyright: ignore[reportArgumentType]
            at += 1
    return "\n".join(found)


WAIT = (
    ".L_x_1:",
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4+URZ], R5", 2, 2, NONE, "1"),
    ("@!P0 BRA `(.L_x_1)", 5, NONE, NONE, "2"),
)
LOOP = (
    ("MOV R1, c[0x0][0x28]", 1),
    ".L_x_0:",
    ("UMOV UR4, UR5", 1),
    *WAIT,
    ("LDS R6, [R7]", 1, 3),
    ("@P2 BRA `(.L_x_2)", 5),
    ("FADD R8, R8, 1", 1),
    ".L_x_2:",
    ("FADD R8, R8, R6", 4, NONE, NONE, "3"),
    ("MEMBAR.ALL.CTA", 6, NONE, 4),
    ("FENCE.VIEW.ASYNC.S", 1, 4, NONE, "4"),
    ("SYNCS.ARRIVE.TRANS64.ART0 RZ, [R4+URZ+0x50], R9", 1, NONE, 1, "4"),
    ("@P1 BRA `(.L_x_0)", 5),
    ("EXIT", 5),
)
"""A loop that waits, reads, adds, sometimes twice, and says that it has read."""
