"""The description of a launch of a PTX file, in JSON; docs/race.md has its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schedgen.errors import Diagnostic, SpecError, suggest
from schedgen.spec.source import Source, read_source

Size = Annotated[int, Field(ge=1)]
Three = Annotated[tuple[Size, Size, Size], Field()]
Scalar = Literal[
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
    "float32", "float64",
]  # fmt: skip
Swizzle = Literal["none", "32B", "64B", "128B"]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tensor(_Closed):
    """Contiguous memory: ``shape`` is outermost first; what is in it is ``fill`` or ``file``.

    Attributes:
        fill: ``random`` (normal numbers, or integers from -8 to 8), ``arange``, or a number.
        file: a ``.npy`` beside the description.
        expect: a ``.npy`` with what the launch has to leave in it.
        tolerance: of each element, relative to the largest expected magnitude.
    """

    dtype: Scalar
    shape: Annotated[tuple[Size, ...], Field(min_length=1)]
    fill: Literal["random", "arange"] | float = 0.0
    file: str | None = None
    expect: str | None = None
    tolerance: Annotated[float, Field(ge=0)] = 1e-3


class Parameter(_Closed):
    """One of: the address of a tensor, a number, a tensor map, or bytes in hexadecimal.

    ``box`` of a tensor map is outermost first, as the shape of its tensor.
    """

    tensor: str | None = None
    value: float | None = None
    dtype: Scalar | None = None
    tensor_map: str | None = None
    box: tuple[Size, ...] | None = None
    swizzle: Swizzle = "none"
    bytes: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Parameter:
        kinds = [self.tensor, self.value, self.tensor_map, self.bytes]
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("give one of tensor, value, tensor_map and bytes")
        if (self.value is None) != (self.dtype is None):
            raise ValueError("value and dtype belong together")
        if (self.tensor_map is None) != (self.box is None):
            raise ValueError("tensor_map and box belong together")
        return self


class Described(_Closed):
    """A launch. Without ``kernel`` the PTX has to have one only; ``shared_bytes`` are dynamic."""

    kernel: str | None = None
    grid: Three
    block: Three
    cluster: Three = (1, 1, 1)
    shared_bytes: Annotated[int, Field(ge=0)] = 0
    tensors: dict[str, Tensor] = {}
    parameters: tuple[Parameter, ...] = ()


class LaunchFile:
    """A description with where everything in it stands.

    Attributes:
        described: what it says.
        folder: its files are named from here.
    """

    def __init__(self, described: Described, source: Source, folder: Path) -> None:
        self.described = described
        self.folder = folder
        self._source = source

    def error(self, rule: str, message: str, path: list[str | int], fix: str) -> SpecError:
        """An error about the value at `path`."""
        return SpecError([self._source.diagnostic(rule, message, path, fix=fix)])


def read(path: Path) -> LaunchFile:
    """Read a description.

    Raises:
        SpecError: with all that is wrong: file, line, key, value, rule and fix.
    """
    if not path.is_file():
        text = "there is no such file"
        fix = "give --launch a JSON file that says grid, block, tensors and parameters"
        raise SpecError([Diagnostic("launch-file", text, str(path), fix=fix)])
    source = read_source(path)
    try:
        described = Described.model_validate(source.data)
    except ValidationError as error:
        raise SpecError(_diagnostic(source, one) for one in error.errors()) from None
    found = LaunchFile(described, source, path.parent)
    for at, parameter in enumerate(described.parameters):
        for key in ("tensor", "tensor_map"):
            name = getattr(parameter, key)
            if name is not None and name not in described.tensors:
                near = suggest(name, described.tensors) or "describe it in 'tensors'"
                raise found.error(
                    "launch-tensor", f"there is no tensor '{name}'", ["parameters", at, key], near
                )
    return found


_KEYS = {one: tuple(one.model_fields) for one in (Described, Tensor, Parameter)}


def _diagnostic(source: Source, problem: Any) -> Diagnostic:
    path = [part for part in problem["loc"] if part not in ("random", "float", "literal")]
    name = ".".join(map(str, path)) or "the file"
    if problem["type"] == "extra_forbidden":
        level = Tensor if path[0] == "tensors" and len(path) > 1 else Parameter
        keys = _KEYS[Described if len(path) == 1 else level]
        fix = suggest(str(path[-1]), keys) or f"use {', '.join(keys)}"
        return source.diagnostic("launch-key", f"'{name}' is no key", path, key=True, fix=fix)
    if problem["type"] == "missing":
        fix = f"add '{path[-1]}'"
        return source.diagnostic("launch-key", f"'{name}' is missing", path[:-1], fix=fix)
    message = str(problem["msg"]).removeprefix("Value error, ")
    shown = f"{name} is {problem['input']!r:.60}"
    return source.diagnostic("launch-value", shown, path, fix=message[0].lower() + message[1:])
