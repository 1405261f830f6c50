"""Kernels of experiments, ready to run where there is a GPU and perhaps no solver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from schedgen.calibration.experiments import Experiment, Manner, Pair
from schedgen.calibration.shipped import of_lock
from schedgen.calibration.sizing import arrays_of, increase, sized
from schedgen.errors import SchedgenError, suggest
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.machine_file import machine_text, read_machine
from schedgen.stored import Store

MANIFEST = "experiments.json"
FORMAT = 4
Arrays = dict[str, list[Any]]
"""Arguments that say of extents how large they are, by name; lists in lists."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The file of an experiment's kernel; sizes of tensors, what ``arrays`` say of them and numbers
    of launches for both runs, and how many iterations, output tiles of an SM or launches the long
    one has ``more``.
    """

    name: str
    file: str
    extents: tuple[dict[str, int], dict[str, int]]
    launches: Pair
    more: int
    manner: Manner
    arrays: tuple[Arrays, Arrays] = field(default_factory=lambda: ({}, {}))


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
    _check(experiments)
    found: list[Prepared] = []
    files: dict[str, str] = {}
    refused: dict[str, SchedgenError] = {}
    for number, one in enumerate(experiments):
        if progress is not None:
            progress(f"emitting {number + 1} of {len(experiments)}: {one.name}")
        try:
            name, text, kernel = _made(one, machine, store)
            runs = sized(one, kernel)
            more = increase(one, *runs)
        except SchedgenError as error:
            refused[one.name] = error
            continue
        text = _for_sms(text, one.manner.sms)
        file = files.setdefault(text, f"e{number:02}_{name}")
        (folder / file).write_text(text, encoding="utf-8")
        short, long = (dict(run.extents) for run in runs)
        arrays = arrays_of(kernel, short), arrays_of(kernel, long)
        found.append(
            Prepared(one.name, file, (short, long), one.launches, more, one.manner, arrays)
        )
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


def _for_sms(text: str, sms: int | None) -> str:
    """A file of its own for each number of SMs: its digest is in the names of what is compiled, and
    two kernels of one name cannot be loaded.
    """
    return text if sms is None else f"{text}# compiled for {sms} SMs\n"


def _check(experiments: Sequence[Experiment]) -> None:
    """What goes on beside an experiment is there. Raises SchedgenError."""
    names = [one.name for one in experiments]
    for one in experiments:
        if one.manner.beside and one.manner.beside not in names:
            raise SchedgenError(
                f"experiment '{one.name}': '{one.manner.beside}', which is to run beside it, is no "
                f"experiment; {suggest(one.manner.beside, names) or 'fix: one that is listed'}"
            )


def _made(one: Experiment, machine: Machine, store: Store) -> tuple[str, str, Kernel]:
    """Name and text of the file, and its kernel: what is shipped, or else what the compiler
    accepts, as products that it serializes would be measured as such.
    """
    if one.shipped:
        return of_lock(one, machine)
    from schedgen.driver.emitting import emission
    from schedgen.driver.selecting import compiled_emission
    from schedgen.kernels.regenerate import needs_compiler

    spec = one.read()
    made = emission(spec, machine, one.settings, store=store, pace=one.pace)
    if needs_compiler(made.text):
        made, *_ = compiled_emission(
            spec, machine, one.settings, first=made, store=store, pace=one.pace
        )
    return made.name, made.text, made.solution.problem.kernel


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
                (one["extents"][0], one["extents"][1]),
                (one["launches"][0], one["launches"][1]),
                one["more"],
                Manner(**one["manner"]),
                (one["arrays"][0], one["arrays"][1]),
            )
            for one in data["experiments"]
        )
        return Preparation(str(data["model"]), kernels)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        reason = getattr(error, "strerror", None) or "it does not list experiments"
        raise SchedgenError(
            f"{path}: {reason}; fix: make it with 'schedgen calibrate --prepare {folder}'"
        ) from None
