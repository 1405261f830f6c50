"""Finds and reads spec files: a path, or the name of a spec that ships with schedgen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from schedgen.errors import SchedgenError, suggest
from schedgen.spec.schema import SpecFile
from schedgen.spec.source import Source, parse_source, read_source
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


def read_spec(name: str) -> Spec:
    """Return the shipped spec ``name``, or the one in the file of that name.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong.
        SchedgenError: ``name`` is neither a shipped spec nor a path.
    """
    if name in shipped_specs():
        text = (resources.files("schedgen.specs") / f"{name}.yaml").read_text(encoding="utf-8")
        return parse_spec(text, f"specs/{name}.yaml")
    path = Path(name)
    if "/" not in name and path.suffix == "" and not path.exists():
        known = ", ".join(shipped_specs())
        fix = suggest(name, shipped_specs()) or f"shipped specs: {known}; or give a path"
        raise SchedgenError(f"'{name}' is neither a shipped spec nor a file; {fix}")
    source = read_source(path)
    if path.suffix == ".json" and (
        '"program_format"' in source.text or '"ii_cycles"' in source.text
    ):
        raise SchedgenError(
            f"{name}: this is a schedule or a program, not a spec; give the spec that it was made "
            "of, or look at it with 'schedgen show' and 'schedgen check'"
        )
    return spec_from(source)


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
