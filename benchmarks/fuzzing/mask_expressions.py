"""Random masks: text for schedgen beside a function of torch, which share nothing."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Value = Callable[[dict[str, Tensor]], Tensor]
_COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_ORDERS = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Part:
    """A number or a condition: its text, and its value for coordinates as float64 tensors that
    broadcast to [batch, head, row, column].
    """

    text: str
    value: Value


@dataclass
class Case:
    """A mask with its arguments and its problem.

    Attributes:
        shape: batch, seq_q, seq_k, heads, heads_k.
        numbers: scalars that are passed by name.
        tensors: tensors that are, with the coordinates that they are indexed by.
    """

    number: int
    shape: tuple[int, int, int, int, int]
    mask: Part = field(init=False)
    numbers: dict[str, int | float] = field(default_factory=dict[str, int | float])
    tensors: dict[str, tuple[Tensor, tuple[str, ...]]] = field(
        default_factory=dict[str, tuple[Tensor, tuple[str, ...]]]
    )

    @property
    def given(self) -> dict[str, Tensor | int | float]:
        """Arguments of attention that the mask names."""
        return {**self.numbers, **{name: tensor for name, (tensor, _) in self.tensors.items()}}

    def kept(self) -> Tensor:
        """The mask as booleans, [batch, heads, seq_q, seq_k]."""
        batch, seq_q, seq_k, heads, _ = self.shape
        sizes = {"batch": batch, "head": heads, "row": seq_q, "column": seq_k}
        names: dict[str, Tensor] = {}
        for at, (name, size) in enumerate(sizes.items()):
            view = [1, 1, 1, 1]
            view[at] = size
            names[name] = torch.arange(size, dtype=torch.float64).view(view)
        names |= {n: torch.tensor(float(v), dtype=torch.float64) for n, v in self.numbers.items()}
        names |= {"seq_q": torch.tensor(float(seq_q)), "seq_k": torch.tensor(float(seq_k))}
        return self.mask.value(names).expand(batch, heads, seq_q, seq_k)


def case(seed: int, number: int) -> Case:
    """The mask with that number: the same for the same seed."""
    draw = random.Random(seed * 1_000_003 + number)
    heads_k = draw.choice((1, 2))
    shape = (draw.choice((1, 1, 2)), draw.randint(66, 200), draw.randint(70, 260), 2, heads_k)
    if shape[0] == 2:  # as much work
        shape = (2, min(shape[1], 120), min(shape[2], 150), 1, 1)
    found = Case(number, shape)
    found.mask = _Drawing(draw, found).condition(draw.choice((1, 2, 2, 3)))
    return found


@dataclass
class _Drawing:
    draw: random.Random
    case: Case

    def condition(self, depth: int) -> Part:
        """Atoms joined by ``and``, ``or`` and ``not``."""
        kind = self.draw.choice(("and", "and", "or", "not")) if depth else "atom"
        if kind == "atom":
            return self._atom()
        if kind == "not":
            inner = self.condition(depth - 1)
            return Part(f"not ({inner.text})", lambda names: ~inner.value(names))
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        text = f"({left.text}) {kind} ({right.text})"
        if kind == "and":
            return Part(text, lambda names: left.value(names) & right.value(names))
        return Part(text, lambda names: left.value(names) | right.value(names))

    def _atom(self) -> Part:
        made = self.draw.choice(
            (
                self._diagonal, self._diagonal, self._window, self._prefix, self._documents,
                self._dilated, self._blocks, self._per_head, self._extremes, self._flags,
            )
        )  # fmt: skip
        return made()

    # -- conditions ------------------------------------------------------------------------------

    def _diagonal(self) -> Part:
        column, row = _name("column"), _name("row")
        shifted = _binary("+", row, self._number(-40, 60))
        if self.draw.random() < 0.5:
            shifted = _binary("-", _binary("+", shifted, _name("seq_k")), _name("seq_q"))
        return _compare(self.draw.choice(_ORDERS), column, shifted)

    def _window(self) -> Part:
        apart = _binary("-", _name("row"), _name("column"))
        if self.draw.random() < 0.5:
            apart = _call("abs", apart)
        return _compare(self.draw.choice(_ORDERS), apart, self._scalar(1, 80))

    def _prefix(self) -> Part:
        which = _name(self.draw.choice(("column", "row")))
        return _compare(self.draw.choice(_ORDERS), which, self._scalar(5, 150))

    def _documents(self) -> Part:
        length = max(self.case.shape[1:3])
        inside = torch.randint(1, 5, (length,), generator=self._generator()).sort().values
        rows, columns = inside[: self.case.shape[1]], inside[: self.case.shape[2]]
        one, other = self._vector("row", rows.int()), self._vector("column", columns.int())
        return _compare(self.draw.choice(("==", "==", "!=", "<=", ">")), one, other)

    def _dilated(self) -> Part:
        apart = _binary(self.draw.choice("-+"), _name("column"), _name("row"))
        by = self.draw.randint(2, 7)
        left = _binary("%", apart, _constant(by))
        return _compare(
            self.draw.choice(("==", "!=", "<=")), left, _constant(self.draw.randrange(by))
        )

    def _blocks(self) -> Part:
        by = _constant(self.draw.choice((3, 8, 16, 24, 33)))
        left = _binary("//", _name("column"), by)
        right = _binary("//", _binary("+", _name("row"), self._number(0, 40)), by)
        return _compare(self.draw.choice((*_ORDERS, "==")), left, right)

    def _per_head(self) -> Part:
        which = self.draw.choice(("head", "batch"))
        if self.draw.random() < 0.4:
            left = _binary("%", _binary("+", _name(which), _name("column")), _constant(3))
            return _compare("!=", left, _constant(self.draw.randrange(3)))
        size = self.case.shape[3 if which == "head" else 0]
        ends = torch.randint(20, 150, (size,), generator=self._generator())
        return _compare(
            self.draw.choice(_ORDERS), _name("column"), self._vector(which, ends.float())
        )

    def _extremes(self) -> Part:
        word = self.draw.choice(("min", "max"))
        left = _call(word, _name("row"), _binary("+", _name("column"), self._number(-30, 30)))
        return _compare(self.draw.choice(_ORDERS), left, self._scalar(10, 120))

    def _flags(self) -> Part:
        along = self.draw.choice(("row", "column"))
        first = self.draw.choice((None, "batch", "head"))
        sizes = dict(zip(("batch", "row", "column", "head"), self.case.shape, strict=False))
        shape = [sizes[index] for index in (first, along) if index]
        flags = torch.rand(shape, generator=self._generator())
        indices = tuple(index for index in (first, along) if index)
        return _compare(self.draw.choice("<>"), self._vector(indices, flags), _constant(0.5))

    # -- numbers ---------------------------------------------------------------------------------

    def _number(self, low: int, high: int) -> Part:
        value = self.draw.randint(low, high)
        if value < 0:
            return Part(f"({value})", lambda names: torch.tensor(float(value)))
        return _constant(value)

    def _scalar(self, low: int, high: int) -> Part:
        """A number in the text, or one that is passed: whole, or not."""
        kind = self.draw.choice(("text", "whole", "whole", "real"))
        if kind == "text":
            return _constant(self.draw.randint(low, high))
        name = f"{kind}_{len(self.case.numbers)}"
        value = self.draw.randint(low, high)
        self.case.numbers[name] = value if kind == "whole" else value + 0.25
        return _name(name)

    def _vector(self, indices: str | tuple[str, ...], tensor: Tensor) -> Part:
        along = (indices,) if isinstance(indices, str) else indices
        name = f"given_{len(self.case.tensors)}"
        self.case.tensors[name] = (tensor, along)
        places = ("batch", "head", "row", "column")
        ordered = tensor.double().permute(
            sorted(range(len(along)), key=lambda n: places.index(along[n]))
        )
        sizes = iter(ordered.shape)
        view = ordered.reshape([next(sizes) if place in along else 1 for place in places])
        return Part(f"{name}[{', '.join(along)}]", lambda names: view)

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.draw.randrange(1 << 30))


def _name(name: str) -> Part:
    return Part(name, lambda names: names[name])


def _constant(value: float) -> Part:
    return Part(str(value), lambda names: torch.tensor(float(value), dtype=torch.float64))


def _binary(sign: str, left: Part, right: Part) -> Part:
    functions = {
        "+": torch.add, "-": torch.sub, "%": torch.remainder,
        "//": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    }  # fmt: skip
    function = functions[sign]
    inner = f"({left.text})" if sign in "%//" and " " in left.text else left.text
    after = f"({right.text})" if " " in right.text else right.text
    return Part(f"{inner} {sign} {after}", lambda n: function(left.value(n), right.value(n)))


def _call(word: str, *arguments: Part) -> Part:
    functions = {"abs": torch.abs, "min": torch.minimum, "max": torch.maximum}
    text = f"{word}({', '.join(argument.text for argument in arguments)})"
    return Part(text, lambda names: functions[word](*(a.value(names) for a in arguments)))


def _compare(sign: str, left: Part, right: Part) -> Part:
    function = _COMPARE[sign]
    return Part(
        f"{left.text} {sign} {right.text}", lambda n: function(left.value(n), right.value(n))
    )
