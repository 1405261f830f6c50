"""Finds and reads spec files: a path, or the name of a spec that ships with schedgen.

A file may have several specs, as YAML documents. ``file#name`` is the one of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from schedgen.errors import SchedgenError, SpecError, suggest
from schedgen.spec.schema import SpecFile
from schedgen.spec.source import NAMED_BY, Source, parse_source, read_sources
from schedgen.spec.validate import validate
from schedgen.spec.yaml_text import yaml_text


@dataclass(frozen=True)
class Spec:
    """A spec file whose structure is right: its text with positions, and its content."""

    source: Source
    file: SpecFile


def shipped_specs() -> tuple[str, ...]:
    """Return the names of the specs that come with schedgen."""
    files = resources.files("schedgen.specs").iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def shipped_plans() -> tuple[str, ...]:
    """Return the names of the plans of several kernels that come with schedgen."""
    files = (resources.files("schedgen.specs") / "plans").iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def read_spec(name: str) -> Spec:
    """Return the shipped spec ``name``, or the one in the file of that name, or ``file#kernel``.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong, or it is a plan.
        SchedgenError: ``name`` is neither a shipped spec nor a path, or there is no such kernel.
    """
    source = find_source(name)
    if is_plan(source):
        raise SpecError(
            [
                source.diagnostic(
                    "plan-not-kernel",
                    "this is a plan of several kernels, which has no schedule of its own",
                    ("plan",),
                    fix=f"name one of its kernels, which 'schedgen plan {name}' lists",
                )
            ]
        )
    return spec_from(source)


def find_source(name: str) -> Source:
    """Return the text of the shipped spec or plan ``name``, or of the file, or of ``file#part``.

    Of a file with several specs without ``#``: its plan.

    Raises:
        As `read_spec`.
    """
    for folder, shipped in (("", shipped_specs()), ("plans/", shipped_plans())):
        if name in shipped:
            place = resources.files("schedgen.specs") / f"{folder}{name}.yaml"
            return parse_source(place.read_text(encoding="utf-8"), f"specs/{folder}{name}.yaml")
    file, part = place_of(name)
    path = Path(file)
    if "/" not in file and path.suffix == "" and not path.exists():
        known = (*shipped_specs(), *shipped_plans())
        fix = suggest(name, known) or f"shipped specs: {', '.join(known)}; or give a path"
        raise SchedgenError(f"'{name}' is neither a shipped spec nor a file; {fix}")
    found = read_sources(path)
    if path.suffix == ".json" and any(
        mark in found[0].text for mark in ('"program_format"', '"ii_cycles"')
    ):
        raise SchedgenError(
            f"{name}: this is a schedule or a program, not a spec; give the spec that it was made "
            "of, or look at it with 'schedgen show' and 'schedgen check'"
        )
    return _chosen(file, part, found)


def _chosen(file: str, part: str, found: tuple[Source, ...]) -> Source:
    """The spec called ``part``, the only one, or the plan, of those in ``file``."""
    names = {_name(source): source for source in found}
    if part:
        if part not in names:
            fix = suggest(part, names) or f"it has {', '.join(names)}"
            raise SchedgenError(f"{file} has no spec '{part}'; {fix}")
        return names[part]
    if len(found) == 1:
        return found[0]
    plans = [source for source in found if is_plan(source)]
    if len(plans) != 1:
        raise SchedgenError(
            f"{file} has the specs {', '.join(names)}; fix: name one, such as {found[0].file}"
        )
    return plans[0]


def _name(source: Source) -> str:
    return str(next((source.data[key] for key in NAMED_BY if key in source.data), ""))


def is_plan(source: Source) -> bool:
    """Whether this is a plan of several kernels (`schedgen.spec.plan`)."""
    return "plan" in source.data and "kernel" not in source.data


def place_of(name: str) -> tuple[str, str]:
    """File and name of a spec that is given as ``file#name``; no name if it is one file."""
    file, _, part = name.rpartition("#")
    if not file or "/" in part:
        return name, ""
    try:
        return (name, "") if Path(name).exists() else (file, part)
    except OSError:  # a name that no file can have, or a folder that nobody may look into
        return name, ""


def parse_spec(text: str, file: str = "<text>") -> Spec:
    """Return the spec in ``text``; ``file`` is its name in messages.

    Raises:
        SpecError: with every mistake.
    """
    return spec_from(parse_source(text, file))


def spec_from_data(data: Mapping[str, Any], name: str = "<python>") -> Spec:
    """Return the spec that ``data`` describes: what a spec file holds, as Python values.

    Mistakes are shown in the YAML text that ``data`` amounts to, which is ``spec.source.text``.

    Raises:
        SpecError: with every mistake.
        SchedgenError: a value has a type that specs do not have.
    """
    return parse_spec(yaml_text(data, name), name)


def spec_from(source: Source) -> Spec:
    """Return the spec in ``source``.

    Raises:
        SpecError: with every mistake.
    """
    return Spec(source, validate(source, SpecFile))
