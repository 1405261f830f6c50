"""A spec under construction for the fuzzer: random choices, tiles that exist, formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Data = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A spec file with a problem for it.

    Attributes:
        number: of the seed's sequence; -1 of one that was made otherwise.
        data: what the spec file holds.
        extents: sizes of all tensors' extents.
        inputs: "normal" numbers, or "special" ones with infinities and what is no number.
        family: what the main loop resembles.
    """

    number: int
    target: str
    data: Data
    extents: dict[str, int]
    inputs: str
    family: str


@dataclass(frozen=True)
class Tile:
    """A buffer that formulas can use: ``kind`` is "tile", "column" (a value per row) or "row" (a
    value per column).
    """

    name: str
    kind: str
    space: str
    rows: int
    columns: int
    dtype: str = "f32"


@dataclass
class Sketch:
    """A spec file's content, and what random choices it was made by."""

    draw: Random
    target: str
    data: Data = field(default_factory=dict[str, Any])
    extents: dict[str, int] = field(default_factory=dict[str, int])
    roles: Sequence[str] = ()
    over: list[str] = field(default_factory=list[str])
    """Dimensions that operations on threads are repeated over."""
    _role: str = ""
    _counts: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        self.data = {
            "schedgen": 1, "kernel": "fuzz", "about": "random", "targets": [self.target],
            "parameters": {}, "arguments": {}, "dimensions": {}, "buffers": {}, "rings": {},
            "loops": {}, "operations": {"before": [], "body": [], "after": []},
        }  # fmt: skip

    # -- choices -------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def pick(self, *options: T) -> T:
        return self.draw.choice(options)

    def weighted(self, options: dict[T, float]) -> T:
        return self.draw.choices(list(options), list(options.values()))[0]

    def name(self, stem: str) -> str:
        """A name that nothing has yet."""
        self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}{self._counts[stem] or ''}"

    @property
    def accumulator(self) -> str:
        """Where products are added up."""
        return "registers" if self.target == "h200" else "tmem"

    # -- parts of the file ---------------------------------------------------------------------

    def argument(self, stem: str, shape: Sequence[str], dtype: str) -> str:
        name = self.name(stem)
        self.data["arguments"][name] = {"shape": list(shape), "dtype": dtype}
        return name

    def scalar(self) -> str:
        """A scalar argument, one that exists or a new one."""
        known = [n for n, a in self.data["arguments"].items() if not a["shape"]]
        if known and self.chance(0.6):
            return self.pick(*known)
        return self.argument("alpha", [], "f32")

    def buffer(self, stem: str, space: str, shape: Sequence[int], **more: Any) -> str:
        name = self.name(stem)
        entry: Data = {"space": space, "shape": list(shape)}
        if self.over:
            entry["per"] = list(self.over)
        self.data["buffers"][name] = {**entry, **{k: v for k, v in more.items() if v is not None}}
        return name

    def operation(
        self, phase: str, stem: str, kind: str, *, threads: bool = False, **keys: Any
    ) -> str:
        """An operation, of ``threads`` perhaps in a role that is given."""
        name = self.name(stem)
        entry: Data = {"id": name, "kind": kind, **keys}
        if self.over:
            entry.setdefault("over", list(self.over))
        if not entry.get("over", True):
            del entry["over"]
        if threads and self.roles and self.chance(0.7):
            if not self._role or self.chance(0.1):  # registers stay with one role
                self._role = self.pick(*self.roles)
            entry["role"] = self._role
        self.data["operations"][phase].append(entry)
        return name

    def finished(self) -> Data:
        """The content of the file, without empty sections."""
        data = {k: v for k, v in self.data.items() if v != {}}
        data["operations"] = {k: v for k, v in self.data["operations"].items() if v}
        return data

    # -- formulas ------------------------------------------------------------------------------

    def formula(self, main: str, others: Sequence[str], depth: int = 2) -> str:
        """A formula of ``main`` that stays small where its values are, perhaps of other names."""
        made = self._unary(main) if self.chance(0.5) else main
        for _ in range(self.draw.randrange(depth)):
            made = self._binary(made, others)
        return made

    def _unary(self, x: str) -> str:
        return self.pick(
            "relu({})", "tanh({})", "sigmoid({})", "silu({})", "gelu({})", "abs({})",
            "exp2(min({}, 3))", "exp(min({}, 2))", "sqrt(abs({}) + 0.5)", "rcp(1 + abs({}))",
            "log2(1.5 + abs({}))", "log(2 + abs({}))", "rsqrt(abs({}) + 1)", "-{}", "{} * 0.5",
            "max({}, 0.25, -1)", "where({} > 0.125, 1, 0.25)", "({}) * ({}) * 0.125",
            "where({} > 0, {}, 0.25 * {})", "({} + 1) / 4",
        ).replace("{}", x)  # fmt: skip

    def _binary(self, x: str, others: Sequence[str]) -> str:
        constant = self.pick("0.5", "2", "0.125", "-1", "3")
        y = self.pick(*others) if others and self.chance(0.8) else constant
        return self.pick(
            "({x} + {y})", "({x} - {y})", "{x} * {y}", "max({x}, {y})", "min({x}, {y})",
            "where({x} < {y}, {x}, {y} * 0.5)", "{x} * sigmoid({y})", "({x} + {y}) * 0.5",
        ).format(x=x, y=y)  # fmt: skip


def text_of(data: Data) -> str:
    """The spec file."""
    from schedgen.spec.yaml_text import yaml_text

    return yaml_text(data, "fuzz")
