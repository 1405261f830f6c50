"""Records of kernels with events, made by the emulator: its clock counts executed instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch

from schedgen.codegen.emit import emit
from schedgen.codegen.event_table import HEADER, EventTable, read_events
from schedgen.driver import emulating
from schedgen.driver import inputs as inputs_of
from schedgen.emulator.emulation import device
from schedgen.kernels.recording import split
from tests.codegen.examples import ARCHITECTURES, solved

ROOM = 4096
SMS = 2


@dataclass(frozen=True)
class Recorded:
    """What a kernel computed and recorded."""

    table: EventTable
    outputs: Mapping[str, torch.Tensor]
    raw: list[int]
    words: dict[str, list[int]]
    races: int


def recorded(
    spec: str,
    target: str,
    settings: Mapping[str, str],
    extents: Mapping[str, int],
    *,
    block: int = 0,
    room: int = ROOM,
) -> Recorded:
    """Runs a kernel with events in the emulator."""
    proven, kernel = solved(spec, target, **settings)
    sizes = inputs_of.default_extents(kernel, extents)
    inputs, outputs = inputs_of.random_inputs(kernel, sizes, 0), inputs_of.outputs(kernel, sizes)
    readings = emulating.generated_switches()
    with (
        TemporaryDirectory() as folder,
        device(ARCHITECTURES[target], races="report", switches=readings, sms=SMS) as gpu,
    ):
        module = emulating._module(emit(proven, kernel, events=True), Path(folder))
        table = read_events(Path(folder) / "generated.py")
        words = torch.zeros(HEADER + len(table.roles) * room, dtype=torch.int32)
        words[:HEADER] = torch.tensor([block, room], dtype=torch.int32)
        from cutlass import cute
        from cutlass.cute.runtime import from_dlpack

        given = emulating._passed(kernel, {**inputs, **outputs})
        tensors = sum(1 for argument in kernel.arguments if argument.shape)
        made: Any = from_dlpack(words, assumed_align=16)
        given.insert(tensors, made.mark_layout_dynamic(leading_dim=0))
        stream = emulating._stream()
        cute.compile(module.launch, *given, SMS, stream)(*given, stream)
        found = cast("list[int]", words.tolist())
        report = gpu.reports[-1]
        return Recorded(table, outputs, found, split(found, table, 100), len(report.errors))


def computed(
    spec: str, target: str, settings: Mapping[str, str], extents: Mapping[str, int]
) -> Mapping[str, torch.Tensor]:
    """What the kernel without events computes, from the same inputs."""
    proven, kernel = solved(spec, target, **settings)
    sizes = inputs_of.default_extents(kernel, extents)
    inputs, outputs = inputs_of.random_inputs(kernel, sizes, 0), inputs_of.outputs(kernel, sizes)
    readings = emulating.generated_switches()
    with (
        TemporaryDirectory() as folder,
        device(ARCHITECTURES[target], races="off", switches=readings, sms=SMS),
    ):
        module = emulating._module(emit(proven, kernel), Path(folder))
        from cutlass import cute

        given, stream = emulating._passed(kernel, {**inputs, **outputs}), emulating._stream()
        cute.compile(module.launch, *given, SMS, stream)(*given, stream)
        return outputs
