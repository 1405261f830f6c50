"""Plans: several kernels that are called one after the other as one function.

A plan is a spec of its own, often in one file with the kernels that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from schedgen.errors import SchedgenError
from schedgen.operations.fields import Arithmetic, Identifier, Model, Word
from schedgen.spec.reader import find_source, is_plan, place_of, shipped_specs
from schedgen.spec.schema import Parameter
from schedgen.spec.source import Source, read_sources
from schedgen.spec.validate import validate


class PlanArgument(Model):
    """A tensor that the plan takes or returns or, with an empty shape, a number that it takes."""

    shape: list[Identifier] = Field(
        description="symbolic extents, outermost first", examples=[["batch", "m", "k"], []]
    )
    dtype: Arithmetic = Field(description="data type of an element", examples=["bf16", "f32"])
    only: Arithmetic = Field(True, description="false leaves the argument out of the plan")
    about: str = Field("", description="free text")


class Call(Model):
    """A call of a kernel. Its arguments are what has their name in the plan, unless it is said."""

    call: Identifier = Field(description="a kernel of this file, or else a shipped one")
    set: dict[Identifier, Arithmetic] = Field(
        default_factory=dict[Identifier, Arithmetic],
        description="parameters of the kernel, by name: values, or expressions over the plan's",
    )
    given: dict[Identifier, Arithmetic] = Field(
        default_factory=dict[Identifier, Arithmetic],
        alias="with",
        description="arguments of the kernel, by name: tensors of the plan; for numbers, one of "
        "the plan, which may be multiplied by a value of parameters, or such a value; for extents "
        "that only results have, one of what the plan takes, or a number",
    )
    only: Arithmetic = Field(True, description="false leaves the call out")
    about: str = Field("", description="free text")


class PlanFile(Model):
    """Kernels in the order in which they are called, and what they hand on to each other."""

    schedgen: Literal[1] = Field(description="version of the spec language")
    plan: Identifier = Field(description="name of the plan")
    about: str = Field("", description="free text")
    targets: list[Word] = Field(min_length=1, description="machine models that it is written for")
    parameters: dict[Identifier, Parameter] = Field(
        default_factory=dict[Identifier, Parameter], description="sizes, data types and options"
    )
    arguments: dict[Identifier, PlanArgument] = Field(
        min_length=1, description="tensors and numbers that it takes, and tensors that it returns"
    )
    calls: list[Call] = Field(min_length=1, description="what is called, in this order")

    @property
    def kernel(self) -> str:
        """What messages about its parameters call it."""
        return self.plan


@dataclass(frozen=True)
class Plan:
    """A plan whose structure is right: its text with positions, and its content.

    Attributes:
        kernels: what it can call, by name: what `schedgen.spec.reader.read_spec` knows it by.
            Those of the same file come before shipped ones.
    """

    source: Source
    file: PlanFile
    kernels: Mapping[str, str]


def read_plan(name: str) -> Plan:
    """Return the shipped plan ``name``, or the one in the file of that name, or ``file#plan``.

    Raises:
        SpecError: the file cannot be read, or something in it is wrong.
        SchedgenError: there is no such plan.
    """
    source = find_source(name)
    if not is_plan(source):
        raise SchedgenError(
            f"{name} is a kernel, not a plan of several; fix: schedgen solve {name}"
        )
    kernels = {name: name for name in shipped_specs()}
    file, part = place_of(source.file)
    if part:
        beside = (place_of(one.file)[1] for one in read_sources(Path(file)) if not is_plan(one))
        kernels |= {name: f"{file}#{name}" for name in beside}
    return Plan(source, validate(source, PlanFile), kernels)
