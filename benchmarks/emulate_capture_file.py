"""What a campaign needs of one kernel, in a file: recorded launches and how they are judged.

Needs numpy only: launches run again where neither torch nor the DSL is.
"""

from __future__ import annotations

import json
import lzma
import math
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from schedgen.emulator.launch.recording import Recording
from schedgen.emulator.machine.switches import Switches


@dataclass(frozen=True)
class Wanted:
    """What the interpreted spec gives for an output, and where that output lies.

    Attributes:
        memory: which memory of the recording; the output begins where it does.
        dtype: ``bfloat16``, ``float16`` or ``float32``.
        strides: in elements, as ``shape``.
        content: of a contiguous tensor.
        allowed: relative error in the Frobenius norm, as
            `schedgen.driver.emulating.Outcome.allowed`.
    """

    name: str
    memory: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    content: bytes
    allowed: float

    def error(self, memory: Sequence[bytes]) -> float:
        """Of what a launch left in its memory; infinite where one is a number and the other not."""
        flat = _numbers(memory[self.memory], self.dtype)
        last = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        assert last < len(flat), f"{self.name} is larger than its memory"
        steps = tuple(stride * flat.itemsize for stride in self.strides)
        found = as_strided(flat, self.shape, steps, writeable=False)
        wanted = _numbers(self.content, self.dtype).reshape(self.shape)
        if not np.array_equal(np.isnan(found), np.isnan(wanted)):
            return math.inf
        one, other = np.nan_to_num(found), np.nan_to_num(wanted)
        return math.sqrt(np.square(one - other).sum() / max(np.square(other).sum(), 1e-300))


def _numbers(data: bytes, dtype: str) -> NDArray[np.float64]:
    if dtype == "bfloat16":
        bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return np.frombuffer(data, dtype).astype(np.float64)


@dataclass(frozen=True)
class Run:
    """A launch of the unchanged kernel.

    Attributes:
        instructions: warp instructions that it executes, 0 if it never ran where it was recorded.
        lines: those by PTX line.
        wanted: the outputs, if a spec says what they are.
        name: of the extents.
        extents: by name.
    """

    recording: Recording
    instructions: int = 0
    lines: dict[int, int] = field(default_factory=dict[int, int])
    wanted: tuple[Wanted, ...] = ()
    name: str = ""
    extents: dict[str, int] = field(default_factory=dict[str, int])

    def errors(self, memory: Sequence[bytes]) -> str:
        """The outputs that are wrong, for a person; empty if all are right."""
        found = [(one, one.error(memory)) for one in self.wanted]
        return "; ".join(
            f"error of {one.name} {error:.1e}, allowed {one.allowed:.1e}"
            for one, error in found
            if not error <= one.allowed
        )


@dataclass(frozen=True)
class Capture:
    """Launches of one kernel, checked with these switches. ``version`` changes with the PTX, or
    with the generated file."""

    name: str
    version: str
    switches: Switches
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Entry:
    """A line of the index. ``seconds`` is about what one launch takes, ``mutants`` how many there
    are of what is judged; of two kernels, that with the lower ``rank`` comes first."""

    name: str
    version: str
    mutants: int
    seconds: float
    rank: int


def write(folder: Path, capture: Capture, entry: Entry) -> None:
    """Puts a capture into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = lzma.compress(pickle.dumps(capture), preset=1)
    (folder / f"{entry.name}.xz").write_bytes(data)
    (folder / f"{entry.name}.json").write_text(json.dumps(entry.__dict__) + "\n", "utf-8")


def read(folder: Path, name: str) -> Capture:
    """A capture that `write` wrote. Only for files of one's own: pickles execute code."""
    return pickle.loads(lzma.decompress((folder / f"{name}.xz").read_bytes()))


def entries(folder: Path, beginnings: Iterable[str] = ()) -> list[Entry]:
    """What is in a folder, or those whose names begin with one of the words."""
    words = tuple(beginnings)
    found = [Entry(**json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]
    return sorted(
        (one for one in found if not words or one.name.startswith(words)),
        key=lambda one: (one.rank, one.name),
    )
