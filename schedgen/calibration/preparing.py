"""Kernels of experiments, ready to run where there is a GPU and perhaps no solver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.predicting import extents
from schedgen.errors import SchedgenError
from schedgen.machine import Machine
from schedgen.machine_file import machine_text, read_machine
from schedgen.stored import Store

if TYPE_CHECKING:
    from schedgen.driver.emitting import Emission

MANIFEST = "experiments.json"
FORMAT = 2


@dataclass(frozen=True, slots=True)
class Prepared:
    """The file of an experiment's kernel, and sizes of tensors for both numbers of iterations."""

    name: str
    file: str
    trips: tuple[int, int]
    extents: tuple[dict[str, int], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Kernels that are ready to run, and the text of the machine model that they were scheduled
    by.
    """

    model: str
    kernels: tuple[Prepared, ...]


class RefusedExperiments(SchedgenError):
    """Experiments that no kernel can be made of, each with its name; ``made`` is of the others.

    ``status`` is 2 if any of them is wrong, or else 1.
    """

    def __init__(self, refused: Mapping[str, SchedgenError], made: Preparation) -> None:
        total, verb = len(refused) + len(made.kernels), "is" if len(refused) == 1 else "are"
        texts = [f"experiment '{name}': {error}" for name, error in refused.items()]
        head = f"{len(refused)} of {total} experiments {verb} refused"
        super().__init__("\n".join([head, *texts]))
        self.names, self.made = tuple(refused), made
        self.status = max(error.status for error in refused.values())


def prepare(
    experiments: Sequence[Experiment],
    target: str,
    folder: Path,
    progress: Callable[[str], None] | None = None,
) -> Preparation:
    """Emits the kernels of ``experiments`` for the machine model ``target``, or its file, into
    ``folder``, with a list of them.

    Raises:
        RefusedExperiments: some cannot be emitted for the model, or the compiler serializes their
            products. All others are in ``folder`` nevertheless, with their list.
        SchedgenError: there is no such model.
        OSError: ``folder`` cannot be written.
    """
    store, machine, model = Store(), read_machine(target), machine_text(target)
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Prepared] = []
    refused: dict[str, SchedgenError] = {}
    for number, one in enumerate(experiments):
        if progress is not None:
            progress(f"emitting {number + 1} of {len(experiments)}: {one.name}")
        try:
            made = _emitted(one, machine, store)
        except SchedgenError as error:
            refused[one.name] = error
            continue
        file = f"e{number:02}_{made.name}"
        (folder / file).write_text(made.text, encoding="utf-8")
        kernel = made.solution.problem.kernel
        short, long = (extents(kernel, trips) for trips in one.trips)
        found.append(Prepared(one.name, file, one.trips, (short, long)))
    data = {
        "format": FORMAT,
        "model": model,
        "experiments": [asdict(one) for one in found],
    }
    (folder / MANIFEST).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    preparation = Preparation(model, tuple(found))
    if refused:
        raise RefusedExperiments(refused, preparation)
    return preparation


def _emitted(one: Experiment, machine: Machine, store: Store) -> Emission:
    """What the compiler accepts: products that it serializes would be measured as such."""
    from schedgen.driver.emitting import emission
    from schedgen.driver.selecting import compiled_emission
    from schedgen.kernels.regenerate import needs_compiler

    spec = one.read()
    made = emission(spec, machine, one.settings, store=store)
    if not needs_compiler(made.text):
        return made
    return compiled_emission(spec, machine, one.settings, first=made, store=store)[0]


def prepared(folder: Path) -> Preparation:
    """What `prepare` left in ``folder``. Raises SchedgenError."""
    path = folder / MANIFEST
    try:
        data: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if data["format"] != FORMAT:
            raise SchedgenError(
                f"{path}: format {data['format']}, this schedgen reads {FORMAT}; fix: make it "
                "again with --prepare"
            )
        kernels = tuple(
            Prepared(
                one["name"],
                one["file"],
                (one["trips"][0], one["trips"][1]),
                (one["extents"][0], one["extents"][1]),
            )
            for one in data["experiments"]
        )
        return Preparation(str(data["model"]), kernels)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        reason = getattr(error, "strerror", None) or "it does not list experiments"
        raise SchedgenError(
            f"{path}: {reason}; fix: make it with 'schedgen calibrate --prepare {folder}'"
        ) from None
