"""What all operations of a spec file may say, and what each kind has to answer."""

from __future__ import annotations

from enum import Enum, auto
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Arithmetic, Formula, Identifier, Model, Word

Operand: TypeAlias = Annotated[
    str, Field(description="a buffer, or buffer@1 for its value one iteration earlier")
]


class Condition(Enum):
    """What the condition ``when`` of a kind is about."""

    NONE = auto()
    """There is none: it happens always."""
    TILE = auto()
    """The output tile: coordinates, parameters, extents."""
    SCALARS = auto()
    """Scalar arguments and parameters."""
    ELEMENTS = auto()
    """Each element of what is written."""


class OperationBase(Model):
    """What every operation may say.

    Attributes:
        CONDITION: what ``when`` is about.
        KEYS, MEANING: what the documentation says of it (docs/spec.md, section 4).
    """

    CONDITION: ClassVar[Condition] = Condition.NONE
    KEYS: ClassVar[str]
    MEANING: ClassVar[str]

    id: Identifier = Field(description="unique name, by which orders and reports refer to it")
    over: list[Identifier] = Field(
        default_factory=list[Identifier],
        description="dimensions for each of which there is one instance",
        examples=[["tile"], ["tile", "part"]],
    )
    only: Arithmetic = Field(True, description="false leaves the operation out of the kernel")
    when: Formula | None = Field(
        None,
        description="condition at run time; a warp may skip the work where it is false. Of a "
        "load over scalar arguments: nothing is copied then, and readers take zeros",
        examples=["sAlpha < 1", "tile_row != tile_column"],
    )
    boundary: bool = Field(False, description="only in peeled iterations, not in the steady state")
    unit: Word | None = Field(
        None,
        description="unit that executes it, instead of what the machine model says",
        examples=["TMA", "Softmax{tile}"],
    )
    cycles: Arithmetic | None = Field(None, description="cycles for which it occupies its unit")
    latency: Arithmetic | None = Field(None, description="cycles from its start to its result")
    role: Word | None = Field(
        None,
        description="operations pinned to one name are issued by one role",
        examples=["producer", "softmax{tile}"],
    )
    label: str = Field("", description="name for the role that does this work, for people only")
    about: str = Field("", description="free text")

    def note(self, draft: Draft, path: Path) -> str | None:
        """Note what it reads and writes; the tensor of a load or store."""
        raise NotImplementedError

    def attributes(self) -> dict[str, Any]:
        """Fields of `schedgen.kernel.Operation` that only this kind has; texts for numbers."""
        return {}

    def fits(self, shapes: Shapes) -> bool:
        """Whether the operands of an instance fit together; reports the first that does not."""
        raise NotImplementedError

    def work(self, shapes: Shapes) -> Work | None:
        """The work of an instance whose operands fit; None after reporting what is wrong."""
        raise NotImplementedError

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        """Check that operands lie along the same extents, and note along which results do."""
        raise NotImplementedError

    @staticmethod
    def compute(execution: Execution) -> None:
        """What it computes, on tiles in the data types of their buffers."""
        raise NotImplementedError

    @staticmethod
    def outputs(operation: Operation) -> tuple[str, ...]:
        """Operands that threads write."""
        del operation
        return ("to",)


def size(shape: tuple[int, int]) -> str:
    """Rows and columns, for people."""
    return f"{shape[0]} x {shape[1]}"
