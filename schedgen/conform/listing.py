"""A listing by nvdisasm as instructions, and the loops among them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import networkx as nx

from schedgen.conform.flow import dominators, innermost, natural_loops
from schedgen.errors import SchedgenError

_LINE = re.compile(
    r"^(?P<label>\.L_\w+):|/\*(?P<at>[0-9a-f]{4,})\*/\s+(?P<guard>@!?U?P\w+\s+)?"
    r"(?P<name>[A-Z][\w.]*)(?P<operands>[^;]*);",
    re.MULTILINE,
)
_WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
PRODUCTS = ("HGMMA", "QGMMA")
"""Hopper's products of 16 bits and of 8."""
_ENDS = ("EXIT", "RET", "KILL")
_SCOREBOARDS = 6
_SPIN = 12
_OF_SPIN = ("SYNCS", "NANOSLEEP", "BRA", "IMAD", "MOV", "NOP", "R2UR", "LEA", "SHF")
"""A loop that waits for a barrier has fewer instructions, and no others."""
_WORD_OF_TURN, _OF_TURN = "LDG.E.STRONG", ("LDG", "CCTL", "ISETP", "BRA", "NANOSLEEP")
"""A loop that waits for a word in global memory, such as whose turn it is, reads it again."""


@dataclass(frozen=True, slots=True)
class Control:
    """What the assembler tells the scheduler with an instruction.

    ``stall``: cycles until the next one of the warp may be issued; ``writes`` and ``reads``: the
    scoreboard that is free again when its result is there, or its operands were read, -1 for none;
    ``waits``: scoreboards that have to be free before it.
    """

    stall: int
    writes: int
    reads: int
    waits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """An instruction of a cubin: its name with modifiers, and where it stands."""

    name: str
    operands: str
    address: str
    guarded: bool = False
    control: Control | None = None
    """Of listings with encodings."""

    @property
    def opcode(self) -> str:
        """The name without modifiers."""
        return self.name.partition(".")[0]

    @property
    def text(self) -> str:
        """Name and operands, without what guards it."""
        return f"{self.name} {self.operands.strip()}".strip()

    @property
    def closes(self) -> bool:
        """Whether it is the last one of a group of Hopper's products."""
        return self.opcode in PRODUCTS and "gsb" in self.operands

    @property
    def multiplies(self) -> bool:
        """Whether it is a product of Hopper, and not one that only closes a group."""
        empty = self.closes and self.operands.split(",")[0].split()[-1] == "RZ"
        return self.opcode in PRODUCTS and not empty


def disassembled(program: Path, cubin: Path, *, encodings: bool = False) -> str:
    """The listing of ``cubin``, with the ``encodings`` of instructions if they are wanted;
    ``program`` is nvdisasm. Raises SchedgenError if it cannot read that.
    """
    changed = cubin.stat().st_mtime_ns if cubin.exists() else 0
    return _disassembled(program, cubin, changed, encodings=encodings)


@lru_cache(maxsize=1)
def _disassembled(program: Path, cubin: Path, _: int, *, encodings: bool) -> str:
    """The listing of a file as it was changed last, for whoever asks next."""
    options = ["-hex", "-c"] if encodings else ["-c"]
    run = subprocess.run(
        [str(program), *options, str(cubin)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SchedgenError(f"{cubin}: nvdisasm cannot read it: {run.stderr.strip()}")
    return run.stdout


class Listing:
    """The instructions of a listing with one kernel, and where control goes.

    Calls and what waits for branches to meet (BSYNC) are taken to go on behind themselves, where
    they come back to.
    """

    def __init__(self, text: str) -> None:
        self.body: list[Machine] = []
        self._labels: dict[str, int] = {}
        words = [int(word, 16) for word in _WORD.findall(text)]
        """Two of each instruction, if there are any; the second one has its control bits."""
        for found in _LINE.finditer(text):
            if found["label"]:
                self._labels[found["label"]] = len(self.body)
            else:
                control = _control(words[2 * len(self.body) + 1]) if words else None
                guarded = found["guard"] is not None
                self.body.append(
                    Machine(found["name"], found["operands"], f"0x{found['at']}", guarded, control)
                )

    def loops(self, wanted: Callable[[Machine], bool]) -> list[list[Machine]]:
        """The instructions of the innermost loops with a ``wanted`` one, by address."""
        blocks = self._blocks()
        having = {a for a, end in blocks.items() if any(wanted(one) for one in self.body[a:end])}
        return [
            [one for start in loop for one in self.body[start : blocks[start]]]
            for loop in innermost(natural_loops(self._graph(blocks), 0), having)
        ]

    def turns(self) -> list[list[Machine]]:
        """What each turn of the innermost loops executes, by address: instructions that some turns
        leave out are not among them. Loops that do nothing but wait are none.
        """
        blocks = self._blocks()
        graph = self._graph(blocks)
        found: list[tuple[frozenset[int], list[Machine]]] = []
        for header, loop in natural_loops(graph, 0).items():
            latches = [block for block in loop if graph.has_edge(block, header)]
            always = loop
            for block in latches:
                always &= dominators(graph, 0, block)
            found.append((loop, self._of(sorted(always), blocks)))
        found = [one for one in found if not _asks(self._of(sorted(one[0]), blocks))]
        return [turn for loop, turn in found if not any(other < loop for other, _ in found)]

    def _of(self, starts: Iterable[int], blocks: Mapping[int, int]) -> list[Machine]:
        return [one for start in starts for one in self.body[start : blocks[start]]]

    def _graph(self, blocks: Mapping[int, int]) -> nx.DiGraph[int]:
        """Blocks that control comes to, and where it goes from each."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(0)
        graph.add_edges_from((a, b) for a, end in blocks.items() for b in self._next(end))
        return nx.DiGraph(graph.subgraph({0, *nx.descendants(graph, 0)}))

    def _blocks(self) -> dict[int, int]:
        """The first instruction of each block, and the first one behind it."""
        marks = {0, *self._labels.values()}
        marks |= {n + 1 for n, one in enumerate(self.body) if one.opcode in ("BRA", *_ENDS)}
        starts = sorted(mark for mark in marks if mark < len(self.body))
        return dict(zip(starts, [*starts[1:], len(self.body)], strict=True))

    def _next(self, end: int) -> list[int]:
        """Blocks that come behind one that ends before ``end``."""
        last = self.body[end - 1]
        target = _TARGET.search(last.operands) if last.opcode == "BRA" else None
        found = [self._labels[target[1]]] if target else []
        # 'BRA P0, L' and 'BRA.U UP0, L' ask for a predicate as well.
        asks = last.guarded or (target is not None and "P" in last.operands[: target.start()])
        leaves = last.opcode in _ENDS or target is not None
        if (asks or not leaves) and end < len(self.body):
            found.append(end)
        return [at for at in found if at < len(self.body)]


def _control(word: int) -> Control:
    """The control bits of an encoding's second word: 4 of stalls, a hint, 3 and 3 of scoreboards, 6
    of those that are waited for (Volta and later: Jia et al., arXiv:1804.06826, section 2.1).
    """
    stall, writes, reads, waits = (
        word >> 41 & 15,
        word >> 46 & 7,
        word >> 49 & 7,
        word >> 52 & 63,
    )
    return Control(
        stall,
        writes if writes < _SCOREBOARDS else -1,
        reads if reads < _SCOREBOARDS else -1,
        tuple(number for number in range(_SCOREBOARDS) if waits >> number & 1),
    )


def _asks(turn: Sequence[Machine]) -> bool:
    """Whether a loop does nothing but wait for a barrier, or for a word in global memory."""
    if any(one.name.startswith(_WORD_OF_TURN) for one in turn):
        return all(one.opcode in _OF_TURN for one in turn)
    return (
        len(turn) < _SPIN
        and any(one.opcode == "SYNCS" for one in turn)
        and all(one.opcode in _OF_SPIN or one.opcode.startswith("U") for one in turn)
    )
