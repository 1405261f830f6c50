"""Launches of generated kernels and of NVIDIA's examples, kept for `emulate_mutants`.

    python benchmarks/emulate_captures.py FOLDER [--shapes=FOLDER2] [--jobs=2] [BEGINNING ...]
    python benchmarks/emulate_captures.py FOLDER --cutlass=CHECKOUT [--jobs=2] [BEGINNING ...]

Every kernel of `schedgen.kernels.regenerate`, or with ``--cutlass`` the examples of a checkout of
NVIDIA/cutlass, is compiled and launched at a few extents (`extents_of`, `cutlass_drivers.prepare`).
Launches of examples are executed and have to be correct and without findings under round-robin.
Those of generated kernels are only recorded, with what the interpreted spec gives: the campaign
compares. FOLDER gets a file per kernel, for which the emulator alone is enough; FOLDER2 gets the
launches at `schedgen.driver.inputs.shapes`, for `emulate_kernels_recorded`.
``BEGINNING`` picks kernels by how their names begin.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

from emulate_capture_file import Capture, Entry, Run, Wanted, write
from emulate_kernels_recorded import SCHEDULES
from emulated_mutants.run import Campaign

from schedgen.emulator.emulation import Emulator, Report
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.recording import record
from schedgen.emulator.machine.launch import Statistics
from schedgen.emulator.machine.policies import RoundRobin
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.parse import parse
from schedgen.kernel import Kernel

SIZES = ((256, 1024), (512, 256))
"""m = n and k of the examples: more iterations than their rings have slots, which are at most 12 of
64; then more output tiles than fit at a time. Of attention, the first one is how many keys."""
LARGE = 8
"""Value of scalar arguments."""
TOGETHER = 8
"""Kernels that one process compiles."""
ABOUT = 1.0
"""Seconds that a launch takes, more or less; it is for an even share of processes."""


def extents_of(kernel: Kernel) -> list[dict[str, int]]:
    """Several output tiles for one CTA, with fewer iterations each than rings have slots; then one
    tile with more; then a square of tiles, not all of which are stored in the same way (the
    mirrored half of symmetric results). With many iterations in each of several tiles, waits for
    empty slots would order the tiles as well. Scalars are large: so the maxima of attention's
    scores grow enough for it to rescale.
    """
    from schedgen.driver.inputs import default_extents

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
    ragged |= {one.name: LARGE for one in kernel.arguments if not one.shape}
    found = [{**ragged, **small, **short, **tiles}, {**ragged, **small, **long}]
    square = {**ragged, **short, **dict.fromkeys(axes, max(2 * b + 8 for b in axes.values()))}
    return found if square in found else [*found, square]


@contextmanager
def recording(found: list[Run], *, executed: bool = True) -> Generator[None]:
    """Inside, every launch is kept; those that are not executed do nothing."""
    original = Emulator.run

    def run(self: Emulator, launch: Launch) -> None:
        kernel = parse(launch.ptx).kernels[launch.kernel]
        kept = record(launch, [one.size for one in kernel.parameters])
        if not executed:
            nothing = Statistics(0, 0, 0)
            sizes = launch.kernel, launch.grid, launch.block
            self.reports.append(Report(*sizes, nothing, None, "", 0.0))
            found.append(Run(kept))
            return
        self.policy = RoundRobin()
        original(self, launch)
        report = self.reports[-1]
        assert not report.errors, report.text
        count = report.statistics
        found.append(Run(kept, count.instructions, dict(count.lines)))

    with patch.object(Emulator, "run", run):
        yield


def generated(name: str) -> tuple[Capture, Capture]:
    """The launches of a generated kernel, checked as strictly as `schedgen emulate` does: those
    for mutants, and those at `schedgen.driver.inputs.shapes`. Nothing is executed here."""
    from schedgen.driver.emulating import compiled, generated_switches
    from schedgen.driver.inputs import shapes
    from schedgen.kernels.library import named
    from schedgen.kernels.regenerate import TARGETS, shipped
    from schedgen.spec.bind import bind
    from schedgen.spec.reader import read_spec

    one = next(one for one in shipped() if one.name == f"{name}.py")
    spec = read_spec(one.spec)
    kernel = bind(spec.source, spec.file, one.target, dict(one.settings))[0]
    text = named(one.name).read_text("utf-8")
    mutants = {f"mutants {n}": extents for n, extents in enumerate(extents_of(kernel), 1)}
    runs: dict[str, Run] = {}
    found: list[Run] = []
    arch = TARGETS[one.target]
    with recording(found, executed=False), compiled(text, kernel, arch, sms=1) as made:
        for of, extents in {**mutants, **shapes(kernel)}.items():
            outcome = made.run(extents)
            run = found.pop()
            assert not found, "one launch per call"
            # the interpreter may be as far off as the kernel
            allowed = {name: 2 * limit for name, limit in outcome.allowed.items()}
            outputs = wanted(kernel, extents, allowed, run)
            runs[of] = replace(run, wanted=outputs, name=of, extents=dict(outcome.extents))
    switches = generated_switches()
    first, second = (
        tuple(run for of, run in runs.items() if (of in mutants) == mine) for mine in (True, False)
    )
    digest = sha256(text.encode()).hexdigest()[:12]
    return Capture(name, version(first), switches, first), Capture(name, digest, switches, second)


def wanted(
    kernel: Kernel, extents: Mapping[str, int], allowed: Mapping[str, float], run: Run
) -> tuple[Wanted, ...]:
    """What the interpreted spec gives for the inputs of a launch that `Compiled.run` began."""
    import torch

    from schedgen.driver.inputs import random_inputs
    from schedgen.interpret.sequential import run as interpreted

    right = interpreted(kernel, random_inputs(kernel, extents, 0), extents)
    places = {one.name: number for number, one in enumerate(run.recording.memory)}
    found: list[Wanted] = []
    for name, limit in allowed.items():
        value = right[name].contiguous()
        # `Compiled.run` gives tensors rows at multiples of 16 bytes.
        per = 16 // value.element_size()
        shape = tuple(value.shape)
        padded = [*shape[:-1], -(-shape[-1] // per) * per]
        strides = tuple(math.prod(padded[axis + 1 :]) for axis in range(len(padded)))
        last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        size = len(run.recording.memory[places[name]].content)
        assert size == (last + 1) * value.element_size(), f"{name} has other strides"
        content = value.view(torch.uint8).numpy().tobytes()
        dtype = str(value.dtype).removeprefix("torch.")
        found.append(Wanted(name, places[name], dtype, shape, strides, content, limit))
    return tuple(found)


def example(checkout: Path, name: str) -> Capture:
    """The launches of an example of NVIDIA/cutlass, with the default switches. Sizes that need
    another kernel are left out: its mutants would be others."""
    from cutlass_drivers import architecture, prepare

    from schedgen.emulator.emulation import device

    found: list[Run] = []
    with (
        recording(found),
        device(architecture(name), races="report", switches=Switches(), sms=1),
    ):
        for extent, k in SIZES:
            before = len(found)
            prepared = prepare(checkout, name, k, clusters=1, extent=extent)
            prepared.run()
            prepared.check()
            if version(found[before:]) != version(found[: before or None]):
                print(f"{name}: the kernel for {extent} x {extent} x {k} is another one")
                del found[before:]
    return Capture(name, version(found), Switches(), tuple(found))


def version(runs: Iterable[Run]) -> str:
    """Changes with the PTX, but for the names of files."""
    texts = sorted({run.recording.ptx for run in runs})
    lines = [line for text in texts for line in text.splitlines() if ".file" not in line]
    return sha256("\n".join(lines).encode()).hexdigest()[:12]


def keep(name: str, folder: Path, shapes: Path | None, checkout: str | None) -> None:
    """Captures one kernel."""
    begin = perf_counter()
    second = None
    if checkout is None:
        first, second = generated(name)
        rank = 2 * ("_fp16" in name) + ("_tile_n" in name)
    else:
        first, rank = example(Path(checkout), name), 1
    number = len(Campaign(first).mutants)
    write(folder, first, Entry(name, first.version, number, ABOUT, rank))
    if second and shapes:
        number = SCHEDULES * len(second.runs)
        write(shapes, second, Entry(name, second.version, number, ABOUT, rank))
    print(f"{name}: {perf_counter() - begin:.1f} s", flush=True)


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    folder, *words = (word for word in sys.argv[1:] if not word.startswith("--"))
    checkout = options.get("cutlass")
    shapes = Path(options["shapes"]) if "shapes" in options else None
    if "only" in options:
        for name in options["only"].split(","):
            keep(name, Path(folder), shapes, checkout)
        return

    def group(names: list[str]) -> int:
        command = [sys.executable, __file__, folder, f"--only={','.join(names)}"]
        command += [word for word in sys.argv[1:] if word.startswith(("--cutlass", "--shapes"))]
        environment = {**os.environ, "CUTE_DSL_ARCH": arch(names[0])}
        return subprocess.run(command, check=False, env=environment).returncode

    names = [name for name in every(checkout) if not words or name.startswith(tuple(words))]
    groups: dict[str, list[list[str]]] = {}
    for name in names:
        own = groups.setdefault(arch(name), [[]])
        if len(own[-1]) == TOGETHER:
            own.append([])
        own[-1].append(name)
    every_group = [one for own in groups.values() for one in own]
    with ThreadPoolExecutor(int(options.get("jobs", "2"))) as pool:
        status = list(pool.map(group, every_group))
    failed = [",".join(one) for one, code in zip(every_group, status, strict=True) if code]
    if failed:
        raise SystemExit(f"failed in one of: {', '.join(failed)}")


def arch(name: str) -> str:
    """The architecture that a kernel is for."""
    return "sm_90a" if "sm_90a" in name or name.startswith("hopper") else "sm_100a"


def every(checkout: str | None) -> list[str]:
    """Names of the kernels."""
    if checkout is None:
        from schedgen.kernels.regenerate import shipped

        return [one.name.removesuffix(".py") for one in shipped()]
    from cutlass_drivers import LISTED

    return list(LISTED)


if __name__ == "__main__":
    main()
