"""What a campaign needs of one kernel, in a file: recorded launches and how they are judged."""

from __future__ import annotations

import json
import lzma
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from schedgen.emulator.launch.recording import Recording
from schedgen.emulator.machine.switches import Switches


@dataclass(frozen=True)
class Run:
    """A launch of the unchanged kernel: its recording, the warp instructions that it executed,
    all of them and by PTX line."""

    recording: Recording
    instructions: int
    lines: dict[int, int]


@dataclass(frozen=True)
class Capture:
    """Launches of one kernel, checked with these switches. ``version`` changes with the PTX."""

    name: str
    version: str
    switches: Switches
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Entry:
    """A line of the index. ``seconds`` is what one launch takes, ``mutants`` how many there are;
    of two kernels, that with the lower ``rank`` comes first."""

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
