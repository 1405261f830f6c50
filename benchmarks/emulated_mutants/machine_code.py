"""Barriers of a warp that are nothing in machine code: ptxas knows that the warp is converged.

The emulator has no more to say about them: lanes of a warp count as ordered. Needs ptxas and
nvdisasm.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing, Machine, disassembled

_MATTER = (
    *("LD", "ST", "AT", "RED", "SYNCS", "UTMA", "UBLK", "BAR", "WARPSYNC", "FENCE", "MEMBAR"),
    *("CCTL", "ELECT", "HGMMA", "WARPGROUP", "UTC", "ARRIVES", "DEPBAR", "BRA", "EXIT", "BSSY"),
    *("BSYNC", "CALL", "RET", "UCGABAR", "ACQBULK", "PREEXIT", "SHFL", "VOTE", "ERRBAR", "MATCH"),
)
"""How opcodes begin of what threads do to memory, or to each other, and of branches."""


def nothing(ptx: str, target: str, line: int) -> str:
    """Why the statement in a line of PTX may go; empty if its machine code does something.

    Args:
        target: such as ``sm_90a``.
    """
    tool = disassembler()
    if tool is None:
        return ""
    # Line numbers of the source are no code, and would differ.
    lines = [one if ".loc" not in one and ".file" not in one else "" for one in ptx.splitlines()]
    own = _compiled(tool, lines, target)
    without = _compiled(tool, [*lines[: line - 1], "", *lines[line:]], target)
    if _counted(own) != _counted(without) or _doing(own) != _doing(without):
        return ""
    return (
        "ptxas makes a NOP of it, and what accesses memory or branches is the same without it: "
        "the warp is converged there"
    )


def _compiled(tool: Path, lines: list[str], target: str) -> list[Machine]:
    with TemporaryDirectory() as folder:
        text, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        text.write_text("\n".join(lines) + "\n", "utf-8")
        command = ["ptxas", f"-arch={target}", str(text), "-o", str(cubin)]
        subprocess.run(command, check=True, capture_output=True)
        return Listing(disassembled(tool, cubin)).body


def _counted(body: list[Machine]) -> Counter[str]:
    return Counter(one.name for one in body if one.opcode != "NOP")


def _doing(body: list[Machine]) -> list[str]:
    return [one.name for one in body if one.opcode.startswith(_MATTER)]
