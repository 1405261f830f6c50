"""Launches of generated kernels and of NVIDIA's examples, kept for `emulate_mutants`.

    python benchmarks/emulate_captures.py FOLDER [--cutlass=CHECKOUT] [--jobs=2] [BEGINNING ...]

Every kernel of `schedgen.kernels.regenerate`, or with ``--cutlass`` the examples of a checkout of
NVIDIA/cutlass, is compiled and run at a few extents (`extents_of`, `cutlass_drivers.prepare`). Each
launch has to be correct and without findings under round-robin; the campaign looks at adversarial
schedules of the unchanged kernel as well. FOLDER gets a file per kernel, for which the emulator
alone is enough.
``BEGINNING`` picks kernels by how their names begin. One process per kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from emulate_capture_file import Capture, Entry, Run, write
from emulate_mutants_run import Campaign

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.recording import record
from schedgen.emulator.machine.policies import RoundRobin
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.parse import parse
from schedgen.kernel import Kernel

LONG = 1024
"""k of the examples: their rings have at most 12 slots of 64."""


def extents_of(kernel: Kernel) -> list[dict[str, int]]:
    """Several output tiles for one CTA, with fewer iterations each than rings have slots; then one
    tile with more. With many iterations in each of several tiles, waits for empty slots would
    order the tiles as well.
    """
    from schedgen.emulating import default_extents

    ragged = default_extents(kernel, {})
    places = [place for o in kernel.operations for place in o.places]
    ragged |= {place.along: 1 for place in places if place.grouped}
    steps = {place.extent: place.step for place in places if place.step}
    fixed = {*steps, *(name for name, _ in kernel.parameters)}
    axes = {a.extent: a.block for a in kernel.grid if a.block > 1 and a.extent not in fixed}
    small = dict.fromkeys(axes, 8)
    first = next(iter(axes.items()), None)
    tiles = {first[0]: 2 * first[1] + 8} if first else {}
    short = {extent: 2 * step + 8 for extent, step in steps.items()}
    long = {extent: 7 * step + 8 for extent, step in steps.items()}
    return [{**ragged, **small, **short, **tiles}, {**ragged, **small, **long}]


@contextmanager
def recording(found: list[tuple[Run, Switches, float]]) -> Generator[None]:
    """Inside, every launch is kept as well."""
    original = Emulator.run

    def run(self: Emulator, launch: Launch) -> None:
        kernel = parse(launch.ptx).kernels[launch.kernel]
        kept = record(launch, [one.size for one in kernel.parameters])
        self.policy = RoundRobin()
        original(self, launch)
        report = self.reports[-1]
        assert not report.errors, report.text
        count = report.statistics
        run = Run(kept, count.instructions, dict(count.lines))
        found.append((run, self.switches, report.seconds))

    with patch.object(Emulator, "run", run):
        yield


def generated(name: str) -> list[tuple[Run, Switches, float]]:
    """The launches of a generated kernel, checked as strictly as `schedgen emulate` does."""
    from schedgen.emulating import compiled
    from schedgen.kernels.regenerate import FOLDER, TARGETS, shipped
    from schedgen.spec.bind import bind
    from schedgen.spec.reader import read_spec

    one = next(one for one in shipped() if one.name == f"{name}.py")
    spec = read_spec(one.spec)
    kernel = bind(spec.source, spec.file, one.target, dict(one.settings))[0]
    found: list[tuple[Run, Switches, float]] = []
    text = (FOLDER / one.name).read_text("utf-8")
    with recording(found), compiled(text, kernel, TARGETS[one.target], sms=1) as made:
        for extents in extents_of(kernel):
            assert made.run(extents).correct
    return found


def example(checkout: Path, name: str) -> list[tuple[Run, Switches, float]]:
    """The launches of an example of NVIDIA/cutlass, with the default switches."""
    from cutlass_drivers import architecture, prepare

    from schedgen.emulator.emulation import device

    found: list[tuple[Run, Switches, float]] = []
    with recording(found), device(architecture(name), races="report", sms=1):
        prepared = prepare(checkout, name, LONG, clusters=1)
        prepared.run()
        prepared.check()
    return found


def keep(folder: Path, name: str, checkout: str | None) -> None:
    """Captures one kernel."""
    found = generated(name) if checkout is None else example(Path(checkout), name)
    runs, switches = tuple(one for one, _, _ in found), found[0][1]
    texts = sorted({run.recording.ptx for run in runs})
    lines = [line for text in texts for line in text.splitlines() if ".file" not in line]
    version = sha256("\n".join(lines).encode()).hexdigest()[:12]
    capture = Capture(name, version, switches, runs)
    number = len(Campaign(capture).mutants)
    seconds = sum(one for _, _, one in found)
    rank = 2 if name.endswith(("fp16", "fp16_causal")) else 0 if checkout is None else 1
    entry = Entry(name, version, number, round(seconds, 2), rank)
    write(folder, capture, entry)
    print(f"{name}: {entry.mutants} mutants, {len(runs)} launches of {seconds:.1f} s", flush=True)


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    folder, *words = (word for word in sys.argv[1:] if not word.startswith("--"))
    checkout = options.get("cutlass")
    if "one" in options:
        keep(Path(folder), options["one"], checkout)
        return

    def one(name: str) -> int:
        arch = "sm_90a" if "sm_90a" in name or name.startswith("hopper") else "sm_100a"
        command = [sys.executable, __file__, folder, f"--one={name}"]
        command += [f"--cutlass={checkout}"] if checkout else []
        return subprocess.run(
            command, check=False, env={**os.environ, "CUTE_DSL_ARCH": arch}
        ).returncode

    names = [name for name in every(checkout) if not words or name.startswith(tuple(words))]
    with ThreadPoolExecutor(int(options.get("jobs", "2"))) as pool:
        failed = [name for name, status in zip(names, pool.map(one, names), strict=True) if status]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def every(checkout: str | None) -> list[str]:
    """Names of the kernels."""
    if checkout is None:
        from schedgen.kernels.regenerate import shipped

        return [one.name.removesuffix(".py") for one in shipped()]
    from cutlass_drivers import LISTED

    return list(LISTED)


if __name__ == "__main__":
    main()
