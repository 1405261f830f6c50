"""Runs a kernel that was emitted with events, and keeps what one of its blocks recorded.

``python -m schedgen.kernels.recording KERNEL.py --extent m=4096 ... -o RECORD.json`` needs a GPU,
torch and CuTe DSL, but no solver. `schedgen.visualize.measured` reads the records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor

from schedgen.codegen.event_table import (
    ARGUMENT,
    CALIBRATION,
    HEADER,
    EventTable,
    RoleWords,
    read_events,
)
from schedgen.codegen.facts import Facts, read_facts
from schedgen.errors import SchedgenError
from schedgen.kernels import layouts, turns
from schedgen.kernels.cache import toolchain
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.launcher import DTYPES, Launcher

FORMAT = 1
ROOM = 1 << 15
"""Words for each role."""
_WARM_UP, _TIMED = 5, 30


def record(
    path: Path,
    extents: Mapping[str, int],
    scalars: Mapping[str, float] | None = None,
    *,
    device: torch.device | None = None,
    block: int = 0,
    tiles: int = 4,
    plain: Path | None = None,
) -> dict[str, Any]:
    """What block number ``block`` does in its first ``tiles`` output tiles, as data for JSON.

    Inputs are normal numbers, scalars 1 unless given. The launch that is recorded is the last of
    several. ``plain`` is the same kernel emitted without events: it is timed as well, and has to
    compute the same bits.

    Raises:
        EmitError: ``path`` was not emitted with events.
        DeviceError: there is no GPU, or the file is for another one.
        SchedgenError: an extent is missing or unknown.
    """
    facts, table = read_facts(path), read_events(path)
    device = device or check_device()
    launcher = Launcher(path, device)
    tensors = inputs(facts, extents, device)
    given_numbers = scalars or {}
    numbers = [one.number(given_numbers.get(one.name, 1.0)) for one in facts.scalars]
    words = torch.zeros(HEADER + len(table.roles) * ROOM, dtype=torch.int32, device=device)
    words[:HEADER] = torch.tensor([block, ROOM], dtype=torch.int32)

    def launch(launcher: Launcher, *more: Tensor) -> None:
        turns.begin(facts, tensors)
        launcher.launch([*tensors.values(), *more], numbers)

    times = {"with_events": _microseconds(partial(launch, launcher, words))}
    words[HEADER:].zero_()
    launch(launcher, words)
    found = cast("list[int]", words.tolist())
    same = None
    if plain is not None:
        results = [tensors[name] for name in facts.outputs]
        wanted = [tensor.clone() for tensor in results]
        times["without"] = _microseconds(partial(launch, Launcher(plain, device)))
        same = all(torch.equal(a, b) for a, b in zip(results, wanted, strict=True))
    return {
        "event_format": FORMAT,
        "kernel": facts.kernel,
        "target": facts.target,
        "spec_sha256": table.spec_sha256,
        "file_sha256": facts.sha256,
        "ii_cycles": facts.cycles,
        "date": date.today().isoformat(),
        "device": torch.cuda.get_device_name(device),
        "software": f"torch {torch.__version__}, {toolchain()}",
        "extents": dict(extents),
        "block": block,
        "microseconds": times,
        "same_result": same,
        "roles": [astuple(role) for role in table.roles],
        "events": [astuple(event) for event in table.events],
        "words": split(found, table, tiles),
    }


def split(words: Sequence[int], table: EventTable, tiles: int) -> dict[str, list[int]]:
    """Role -> its words as numbers from 0 to 2 ** 32 - 1, as many as its first ``tiles`` take."""
    room = words[1]
    found: dict[str, list[int]] = {}
    for number, role in enumerate(table.roles):
        start = HEADER + number * room
        mine = [word & 0xFFFFFFFF for word in words[start : start + room]]
        found[role.role] = mine[: _used(mine, role, tiles)]
    return found


def _used(words: Sequence[int], role: RoleWords, tiles: int) -> int:
    at = CALIBRATION
    for _ in range(tiles):
        if at >= len(words) or not words[at]:
            break
        at += role.of_tile(words[at])
    return at


def check_device(then: str = "trace SPEC --record FILE") -> torch.device:
    """The current GPU; ``then`` is the command that reads a record. Raises DeviceError if there is
    none.
    """
    if not torch.cuda.is_available():
        raise DeviceError(
            "recording needs a GPU, and torch finds none; fix: run this on a machine with an "
            f"H200 or B200, then give its record to 'schedgen {then}'"
        )
    return torch.device("cuda", torch.cuda.current_device())


def inputs(facts: Facts, extents: Mapping[str, int], device: torch.device) -> dict[str, Tensor]:
    """Tensors of the spec by name, in the order of the arguments: normal numbers, zeros where the
    kernel writes, and of whole numbers; words of a kernel that follows count all that it may wait
    for. Raises SchedgenError: an extent is missing or unknown.
    """
    parameters = [parameter for parameter in facts.tensors if parameter.name != ARGUMENT]
    names = {extent for parameter in parameters for extent in parameter.extents}
    if wrong := sorted(names ^ set(extents)):
        what = "is not given" if wrong[0] in names else "is none of this kernel"
        raise SchedgenError(
            f"extent '{wrong[0]}' {what}; fix: give --extent NAME=SIZE for each of "
            f"{', '.join(sorted(names))}"
        )
    generator = torch.Generator(device).manual_seed(0)
    found: dict[str, Tensor] = {}
    for parameter in parameters:
        like = torch.empty(0, dtype=DTYPES[parameter.dtype], device=device)
        tensor = layouts.room(like, [extents[extent] for extent in parameter.extents])
        zero = parameter.name in facts.outputs or not like.is_floating_point()
        found[parameter.name] = tensor.zero_() if zero else _normal(tensor, generator)
        if parameter.name == facts.follows:
            tensor.fill_(torch.iinfo(tensor.dtype).max)  # there is no kernel before that counts
    return found


def _normal(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Normal numbers, of 8 bits too, for which torch has no generator."""
    if tensor.element_size() > 1:
        return tensor.normal_(generator=generator)
    wide = torch.empty(tensor.shape, dtype=torch.bfloat16, device=tensor.device)
    return tensor.copy_(wide.normal_(generator=generator))


def _microseconds(launch: Callable[[], None]) -> float:
    """Of a launch, the median."""
    for _ in range(_WARM_UP):
        launch()
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(_TIMED)
    ]
    for before, after in events:
        before.record()
        launch()
        after.record()
    torch.cuda.synchronize()
    return round(1000 * median(before.elapsed_time(after) for before, after in events), 2)


def _numbers(texts: Sequence[str], option: str, kind: type[int] | type[float]) -> dict[str, Any]:
    """NAME=VALUE as a mapping. Raises SchedgenError."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = kind(value)
        except ValueError:
            raise SchedgenError(f"{option} {text}: write NAME=NUMBER") from None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit status: 0 recorded, 1 no GPU for it, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m schedgen.kernels.recording")
    parser.add_argument("kernel", type=Path, help="file written by 'schedgen emit --events'")
    parser.add_argument("--extent", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--scalar", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--block", type=int, default=0, help="which block records")
    parser.add_argument("--tiles", type=int, default=4, help="output tiles to keep")
    parser.add_argument("--plain", type=Path, help="the same kernel without events, to compare")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        data = record(
            options.kernel,
            _numbers(options.extent, "--extent", int),
            _numbers(options.scalar, "--scalar", float),
            block=options.block,
            tiles=options.tiles,
            plain=options.plain,
        )
        options.output.write_text(json.dumps(data) + "\n", encoding="utf-8")
    except SchedgenError as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, DeviceError) else 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    times = ", ".join(f"{name} {time} us" for name, time in data["microseconds"].items())
    print(f"{options.output}: {data['kernel']} on {data['device']}, {times}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
