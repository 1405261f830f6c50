"""The emulator of this checkout beside that of another one, on the same launches, in turns.

    python benchmarks/emulate_beside.py CHECKOUT [--rounds=5] [--save]

CHECKOUT is another checkout of this repository, such as ``git worktree add ../before COMMIT``. The
launches of `emulate` (attention forward with 512 queries and keys, a product of 512 x 512 matrices)
are recorded once; then both emulators execute the recordings, race checker on, each time in a new
process: a first launch, which decodes the kernel, and five later ones. Machine code that is kept on
disk is there from the second round on. The order within a round is random. Seconds are processor
time; the figures are the least of all rounds, as what disturbs a process only ever makes it slower.
One computer, the same minutes, the same PTX: that is what a comparison of figures of different days
is not.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
LATER = 5
ROUNDS = 5
Row = dict[str, Any]


def executed(root: Path, recording: Path) -> dict[str, Any]:
    """What the emulator of the checkout ``root`` makes of a recording, in this process. Nothing of
    schedgen may have been imported."""
    package = types.ModuleType("schedgen")
    package.__path__ = [str(root / "schedgen"), str(root)]
    sys.modules["schedgen"] = package
    sys.meta_path[:] = [one for one in sys.meta_path if "Editable" not in str(one)]
    import schedgen.emulator as found
    from schedgen.emulator.emulation import Emulator
    from schedgen.emulator.launch.recording import Replay

    assert Path(str(found.__file__)).is_relative_to(root), found.__file__
    replay = Replay(pickle.loads(recording.read_bytes()))
    emulator = Emulator(races="raise")
    with patch("schedgen.emulator.emulation.perf_counter", process_time):
        for _ in range(1 + LATER):
            replay.reset()
            emulator.run(replay.launch)
    seconds = [one.seconds for one in emulator.reports]
    count = emulator.reports[0].statistics.instructions
    return {"instructions": count, "first": seconds[0], "later": min(seconds[1:])}


def recorded(spec: str, target: str, extents: Mapping[str, int], file: Path) -> str:
    """Writes a launch of a shipped spec, unexecuted, and returns the architecture."""
    from emulate import emitted
    from emulate_captures import recording

    from schedgen.driver.emulating import compiled

    text, kernel, arch = emitted(spec, target)
    found: list[Any] = []
    with recording(found, executed=False), compiled(text, kernel, arch) as made:
        made.run(extents)
    file.write_bytes(pickle.dumps(found[0].recording))
    return arch


def compared(name: str, arch: str, file: Path, roots: Mapping[str, Path], rounds: int) -> Row:
    """A launch under the emulators of all checkouts, in turns."""
    found: dict[str, list[dict[str, Any]]] = {which: [] for which in roots}
    turns = random.Random(0)
    for _ in range(rounds):
        for which in turns.sample(list(roots), len(roots)):
            command = [sys.executable, __file__, "--execute", str(roots[which]), str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{roots[which]} fails on {name} for {arch}:\n{done.stderr}")
            found[which].append(json.loads(done.stdout.splitlines()[-1]))
    row: Row = {"kernel": name, "arch": arch}
    counts = {which: every[0]["instructions"] for which, every in found.items()}
    for kind in ("first", "later"):
        rates = {
            which: counts[which] / min(one[kind] for one in every) for which, every in found.items()
        }
        for which, rate in rates.items():
            row[f"{kind}: {which}"] = int(round(rate, -2))
        row[f"{kind}: times"] = round(rates["here"] / rates["there"], 2)
    return {**row, "warp instructions": counts["here"]}


def main() -> None:
    from emulate import ATTENTION, SIDE, TARGETS
    from report import keep, table

    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) != 1:
        raise SystemExit("give the folder of another checkout")
    rounds = next((int(w[9:]) for w in sys.argv if w.startswith("--rounds=")), ROUNDS)
    roots = {"there": Path(words[0]).resolve(), "here": ROOT}
    cases = {"attention_fwd": ATTENTION, "gemm": {"m": SIDE, "n": SIDE, "k": SIDE}}
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        for name, extents in cases.items():
            for target in TARGETS:
                file = Path(folder) / f"{name}_{target}"
                arch = recorded(name, target, extents, file)
                rows.append(compared(name, arch, file, roots, rounds))
                print(table(rows[-1:]).splitlines()[-1], flush=True)
    keep("emulate_beside", rows)
    print()
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--execute"]:
        print(json.dumps(executed(Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main()
