"""The experiments of a calibration, as their file lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from schedgen.spec.reader import Spec, parse_spec, read_spec
from schedgen.spec.source import parse_source
from schedgen.spec.validate import validate

FILE = "experiments.yaml"
_TRIPS = [8192, 16384]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A kernel with two numbers of iterations; ``fits`` is the constant that follows from it.

    ``spec`` is the name of one of the calibration's own specs, or else of a shipped one.
    """

    name: str
    spec: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    trips: tuple[int, int] = (8192, 16384)
    fits: str | None = None

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
    trips: list[int] = Field(default=_TRIPS, min_length=2, max_length=2)
    fits: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    experiments: list[_Entry]


def read_experiments(path: Path | None = None) -> tuple[Experiment, ...]:
    """The shipped experiments, or those in a file of the same form. Raises SpecError, OSError."""
    if path is None:
        text = (resources.files("schedgen.calibration") / FILE).read_text(encoding="utf-8")
    else:
        text = path.read_text(encoding="utf-8")
    entries = validate(parse_source(text, str(path or f"calibration/{FILE}")), _File).experiments
    return tuple(
        Experiment(
            entry.name,
            entry.spec,
            {name: _text(value) for name, value in entry.set.items()},
            (entry.trips[0], entry.trips[1]),
            entry.fits,
        )
        for entry in entries
    )


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
