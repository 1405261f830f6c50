"""What the models of a spec file are made of: their base class and the scalars that keys take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

# Editors read 3/4 and 0.75 by YAML's own rules, so their schema accepts any scalar that the reader
# would take for an expression.
_SCALAR = {"type": ["boolean", "number", "string"]}
_FORMULA = {"type": ["number", "string"]}

IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*$"
Identifier: TypeAlias = Annotated[str, StringConstraints(pattern=IDENTIFIER, max_length=64)]
Word: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Scalar: TypeAlias = Annotated[bool | int | str, WithJsonSchema(_SCALAR)]
Arithmetic: TypeAlias = Annotated[
    bool | int | str,
    WithJsonSchema(_SCALAR),
    Field(description="a value or an expression over parameters, e.g. tile_n * 2"),
]
Formula: TypeAlias = Annotated[
    str | int,
    WithJsonSchema(_FORMULA),
    Field(description="element-wise formula, e.g. exp2(S * scale - m * scale)"),
]
Range: TypeAlias = Annotated[list[Arithmetic], Field(min_length=2, max_length=2)]


class Model(BaseModel):
    """Frozen, nothing is converted, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
