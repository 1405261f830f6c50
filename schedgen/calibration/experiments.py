"""The experiments of a calibration, as their files list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schedgen.errors import DiagnosticSink
from schedgen.spec.reader import Spec, parse_spec, read_spec
from schedgen.spec.source import Source, parse_source
from schedgen.spec.validate import validate

FILES = {"iterations": "experiments.yaml", "launches": "launches.yaml"}
"""What an experiment is about -> the file of the shipped ones."""
_TRIPS = (8192, 16384)

Pair = tuple[int, int]
"""A number in the short run of an experiment, and in the long one."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How kernels of an experiment are run.

    Attributes:
        sms: SMs that the kernel is compiled for, which take its output tiles in turn; None: those
            that the GPU has.
        cold: L2 holds nothing of the tensors when it begins.
        graph: launches follow each other in a CUDA graph, and not one by one.
        beside: the experiment whose long run goes on meanwhile, on other SMs; empty: none.
        scalars: scalar arguments, 1 where there is none.
        within: extents of matrices that tensors with these extents are parts of, so that their rows
            lie apart in memory.
    """

    sms: int | None = None
    cold: bool = False
    graph: bool = False
    beside: str = ""
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    within: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Experiment:
    """A kernel that runs in two ways, of which the difference of the times is taken: with more
    iterations, output tiles or launches. ``fits`` is the constant that follows from it.

    ``spec`` is the name of one of the calibration's own specs, or else of a shipped one; ``sizes``
    are extents of tensors other than what is walked, one output tile where none are given; roles
    are kept to the order of the schedule on the units ``pace``. If it is ``shipped``, the kernel is
    what a lock decides, and nothing is solved.
    """

    name: str
    spec: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    trips: Pair = _TRIPS
    fits: str | None = None
    sizes: Mapping[str, Pair] = field(default_factory=dict[str, Pair])
    launches: Pair = (1, 1)
    manner: Manner = field(default_factory=Manner)
    pace: tuple[str, ...] = ()
    shipped: bool = False

    @property
    def per(self) -> Literal["iteration", "tile", "launch"]:
        """What there is more of in the long run, and cycles are measured of."""
        if self.launches[0] != self.launches[1]:
            return "launch"
        return "iteration" if self.trips[0] != self.trips[1] else "tile"

    @property
    def whole(self) -> bool:
        """Whether more than one SM's main loop has a part in it."""
        return bool(self.sizes) or self.per != "iteration" or self.manner != Manner()

    def read(self) -> Spec:
        """The spec."""
        name = f"specs/{self.spec}.yaml"
        path = resources.files("schedgen.calibration") / name
        if path.is_file():
            return parse_spec(path.read_text(encoding="utf-8"), f"calibration/{name}")
        return read_spec(self.spec)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    spec: str
    set: dict[str, str | int | bool] = Field(default_factory=dict[str, str | int | bool])
    trips: int | list[int] = Field(default=[*_TRIPS])
    sizes: dict[str, int | list[int]] = Field(default_factory=dict[str, int | list[int]])
    launches: int | list[int] = 1
    sms: int | None = Field(default=None, ge=1)
    l2: Literal["warm", "cold"] = "warm"
    called: Literal["one by one", "in a graph"] = "one by one"
    beside: str = ""
    scalars: dict[str, int] = Field(default_factory=dict[str, int])
    pace: list[str] = Field(default_factory=list[str])
    fits: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    experiments: list[_Entry]


def read_experiments(path: Path | None = None, about: str = "") -> tuple[Experiment, ...]:
    """The shipped experiments, or those in a file of the same form; only those ``about`` iterations
    or launches, if that is given.

    Raises OSError, SpecError: there is no such list, or an experiment has no two runs that differ.
    """
    if path is not None:
        return tuple(o for o in _read(path.read_text("utf-8"), str(path)) if _is(o, about))
    folder = resources.files("schedgen.calibration")
    names = [name for which, name in FILES.items() if about in ("", which)]
    texts = ((folder / n).read_text(encoding="utf-8") for n in names)
    return tuple(
        o for n, text in zip(names, texts, strict=True) for o in _read(text, f"calibration/{n}")
    )


def _is(one: Experiment, about: str) -> bool:
    return not about or one.whole == (about == "launches")


def _read(text: str, file: str) -> list[Experiment]:
    source, sink = parse_source(text, file), DiagnosticSink()
    entries = validate(source, _File).experiments
    found = [_experiment(source, sink, number, entry) for number, entry in enumerate(entries)]
    for number, one in enumerate(found):
        pairs = (one.trips, one.launches, *one.sizes.values())
        if all(short == long for short, long in pairs):
            sink.error(
                source.diagnostic(
                    "no-difference",
                    f"experiment '{one.name}' has no two runs that differ",
                    ("experiments", number),
                    fix="two numbers of trips, launches or of a size",
                )
            )
    sink.raise_if_any()
    return found


def _experiment(source: Source, sink: DiagnosticSink, number: int, entry: _Entry) -> Experiment:
    def pair(value: int | list[int], *path: str) -> Pair:
        numbers = [value, value] if isinstance(value, int) else value
        if len(numbers) == 2 and 1 <= numbers[0] <= numbers[1]:
            return numbers[0], numbers[1]
        sink.error(
            source.diagnostic(
                "bad-number",
                f"{value} is neither a number nor two that grow",
                ("experiments", number, *path),
                fix=f"write {path[-1]}: 8, or {path[-1]}: [8, 64]",
            )
        )
        return 1, 2

    manner = Manner(
        entry.sms,
        entry.l2 == "cold",
        entry.called == "in a graph",
        entry.beside,
        {name: float(value) for name, value in entry.scalars.items()},
    )
    return Experiment(
        entry.name,
        entry.spec,
        {name: _text(value) for name, value in entry.set.items()},
        pair(entry.trips, "trips"),
        entry.fits,
        {name: pair(value, "sizes", name) for name, value in entry.sizes.items()},
        pair(entry.launches, "launches"),
        manner,
        tuple(entry.pace),
    )


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
