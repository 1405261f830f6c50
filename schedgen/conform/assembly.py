"""The cubin of a kernel beside its PTX, as far as order goes.

The assembler may move instructions, and it adds some. Waits, arrivals, products, groups and bulk
copies of both are put side by side in the order of their texts; what has no counterpart there was
moved, merged or added. That needs nvdisasm, from the path or from the package nvidia-cuda-nvdisasm.
What instructions of a cubin are called was found by comparing cubins with their PTX (CUDA 13.5).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path

from schedgen.conform.actions import bulk_kind, kind
from schedgen.conform.listing import disassembled
from schedgen.conform.overlap import NOTHING, Overlap, overlap
from schedgen.emulator.ptx.tree import Immediate, Instruction, Kernel

_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
_COUNT = re.compile(r",\s*0x([0-9a-f]+)\s*$")
KINDS = (
    ("SYNCS.EXCH", "init"),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT", "wait"),
    ("SYNCS.ARRIVE.TRANS64.ART0", "arrive"),
    ("SYNCS.ARRIVE.TRANS64.A1T0", "arrive"),  # of one, as CUDA 13's assembler writes it
    ("SYNCS.ARRIVE.TRANS64", "expect"),
    ("UTMALDG", "load"),
    ("UTMASTG", "store"),
    ("UTMAREDG", "add"),
    ("UTMACMDFLUSH", "close copies"),
    ("HGMMA", "wgmma"),
    ("QGMMA", "wgmma"),
    ("WARPGROUP.DEPBAR", "wait_group products"),
    ("UTCHMMA", "mma"),
    ("UTCQMMA", "mma"),
    ("UTCCP", "factors"),
    ("UTCBAR", "commit"),
    ("LDTM", "tmem read"),
    ("STTM", "tmem write"),
)
"""What names of instructions of a cubin begin with, and what these are; the first one counts."""
_COMPARED = {found for _, found in KINDS} | {"close products", "wait_group copies"}


@dataclass(frozen=True, slots=True)
class Entry:
    """An instruction of either text: what it is, and where: a line, or an address."""

    kind: str
    where: str

    @property
    def text(self) -> str:
        return f"{self.kind} ({self.where})"


@dataclass(frozen=True, slots=True)
class Assembly:
    """How the order of the cubin differs: ``same`` instructions have a counterpart in order.

    ``moved`` are those of the PTX that have none there, ``added`` those of the cubin; second tests
    of phases, behind the code, are not listed. ``overlap``: what is beside products.
    """

    same: int
    moved: tuple[Entry, ...]
    added: tuple[Entry, ...]
    overlap: Overlap = NOTHING


def disassembler() -> Path | None:
    """Where nvdisasm is; None if it is not installed."""
    found = shutil.which("nvdisasm")
    if found:
        return Path(found)
    package = find_spec("nvidia")
    folders = list(package.submodule_search_locations or ()) if package else []
    paths = (path for folder in folders for path in sorted(Path(folder).glob("*/bin/nvdisasm")))
    return next(paths, None)


def assembled(program: Path, cubin: Path, kernel: Kernel) -> Assembly:
    """Compares a cubin with the kernel of its PTX; ``program`` is nvdisasm.

    Raises SchedgenError if that cannot read it.
    """
    text = disassembled(program, cubin)
    found = ordered(list(of_kernel(kernel)), list(of_listing(text)))
    return replace(found, overlap=overlap(kernel, text))


def ordered(wanted: list[Entry], found: list[Entry]) -> Assembly:
    """The longest runs that both have in order."""
    match = SequenceMatcher(None, [e.kind for e in wanted], [e.kind for e in found], autojunk=False)
    moved: list[Entry] = []
    added: list[Entry] = []
    same = 0
    for what, a, b, c, d in match.get_opcodes():
        if what == "equal":
            same += b - a
        else:
            moved += wanted[a:b]
            added += found[c:d]
    waits = sum(entry.kind == "wait" for entry in wanted)
    again = [entry for entry in added if entry.kind == "wait"]
    if not any(entry.kind == "wait" for entry in moved) and len(again) <= waits:
        added = [entry for entry in added if entry.kind != "wait"]
    return Assembly(same, tuple(moved), tuple(added))


def of_kernel(kernel: Kernel) -> Iterator[Entry]:
    """What is compared of a kernel's PTX."""
    for one in kernel.body:
        what = bulk_kind(one) or kind(one)
        if what.startswith("wait_group"):
            what = f"{what.removesuffix(' read')} {_left(one)}"
        if what.partition(" 0x")[0] in _COMPARED:
            yield Entry(what, f"line {one.line}")


def _left(one: Instruction) -> str:
    """Groups that a wait leaves."""
    last = one.operands[-1] if one.operands else Immediate(0)
    return f"0x{int(last.value):x}" if isinstance(last, Immediate) else "0x?"


def of_listing(text: str) -> Iterator[Entry]:
    """What is compared of a listing by nvdisasm."""
    for match in _LINE.finditer(text):
        address, name, operands = match.groups()
        where = f"{name} at 0x{address}"
        what = next((found for start, found in KINDS if name.startswith(start)), None)
        count = _COUNT.search(operands)
        if name.startswith("DEPBAR") and " SB0" in operands:
            what = "wait_group copies"
        if what is None:
            continue
        if what.startswith("wait_group"):
            what += f" 0x{count[1]}" if count else " 0x?"
        group = what == "wgmma" and "gsb" in operands
        if not (group and operands.split(",")[0].split()[-1] == "RZ"):  # an empty group
            yield Entry(what, where)
        if group:
            yield Entry("close products", where)
