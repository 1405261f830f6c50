"""A listing by nvdisasm as instructions, and the loops among them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

from schedgen.conform.flow import innermost, natural_loops
from schedgen.errors import SchedgenError

_LINE = re.compile(
    r"^(?P<label>\.L_\w+):|/\*(?P<at>[0-9a-f]{4,})\*/\s+(?P<guard>@!?U?P\w+\s+)?"
    r"(?P<name>[A-Z][\w.]*)(?P<operands>[^;]*);",
    re.MULTILINE,
)
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_ENDS = ("EXIT", "RET", "KILL")


@dataclass(frozen=True, slots=True)
class Machine:
    """An instruction of a cubin: its name with modifiers, and where it stands."""

    name: str
    operands: str
    address: str
    guarded: bool = False

    @property
    def opcode(self) -> str:
        """The name without modifiers."""
        return self.name.partition(".")[0]


def disassembled(program: Path, cubin: Path) -> str:
    """The listing of ``cubin``; ``program`` is nvdisasm. Raises SchedgenError if it cannot read
    that.
    """
    run = subprocess.run(
        [str(program), "-c", str(cubin)], capture_output=True, text=True, check=False
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
        for found in _LINE.finditer(text):
            if found["label"]:
                self._labels[found["label"]] = len(self.body)
            else:
                guarded = found["guard"] is not None
                self.body.append(
                    Machine(found["name"], found["operands"], f"0x{found['at']}", guarded)
                )

    def loops(self, wanted: Callable[[Machine], bool]) -> list[list[Machine]]:
        """The instructions of the innermost loops with a ``wanted`` one, by address."""
        blocks = self._blocks()
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(0)
        graph.add_edges_from((a, b) for a, end in blocks.items() for b in self._next(end))
        reached = {0, *nx.descendants(graph, 0)}
        having = {a for a, end in blocks.items() if any(wanted(one) for one in self.body[a:end])}
        return [
            [one for start in loop for one in self.body[start : blocks[start]]]
            for loop in innermost(natural_loops(graph.subgraph(reached), 0), having)
        ]

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
