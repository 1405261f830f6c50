"""Plans of calls: what an operator does for arguments of one signature.

The Python code of the operator is executed once more, on tensors without data (`planning`). It
allocates, takes views and launches as always; what it would launch is written down, with where each
address comes from. Copies of tensors, and filling them with zeros, are steps of a plan, too. Code
that does anything else with a tensor has no plan: `Unplannable`.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from schedgen.kernels import layouts

_MOST_PLACES = 63
_EMPTY = {
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_strided.default,
    torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default,
}
"""Operators that make tensors whose content does not matter."""
_COPY, _ZERO = torch.ops.aten.copy_.default, torch.ops.aten.zero_.default
_ANEW = {
    torch.ops.aten.clone.default,
    torch.ops.aten.contiguous.default,
    torch.ops.aten.reshape.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.to.dtype,
}
"""Operators that make a tensor of the elements of another one, perhaps converted, or a view where
that will do."""
_VIEW = torch.ops.aten._unsafe_view.default  # of what was copied to reshape it


class Unplannable(Exception):
    """Something is done that no plan has."""


class Number(float):
    """An argument of the operator, which a plan takes from each call anew: times ``factor``."""

    argument: int
    factor: float

    def __new__(cls, value: float, argument: int, factor: float = 1.0) -> Number:
        made = super().__new__(cls, value)
        made.argument, made.factor = argument, factor
        return made

    def __mul__(self, other: float) -> Number:
        return Number(float(self) * other, self.argument, self.factor * other)

    __rmul__ = __mul__


class Whole(int):
    """A whole number of 32 bits, an argument that a plan takes from each call anew: as it is, for
    what is computed of it is an ordinary number.
    """

    argument: int

    def __new__(cls, value: int, argument: int) -> Whole:
        made = super().__new__(cls, value)
        made.argument = argument
        return made


COUNTER = -1
"""The source of an address that is the counter of the stream (`schedgen.kernels.counters`)."""


class Address(NamedTuple):
    """Where an address of a launch comes from: an argument, or an allocation behind those, or
    `COUNTER`.
    """

    offset: int
    source: int
    bytes: int


class Scalar(NamedTuple):
    """A number of a launch that is an argument times a factor; an integer if ``whole``."""

    offset: int
    argument: int
    factor: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Of the memory in which a host function finds its arguments (`schedgen.kernels.launcher`).

    Attributes:
        format: as of `struct`.
        places: offsets of its arguments: tensors, which begin with their address, scalars, and the
            stream.
    """

    format: str
    places: tuple[int, ...]


class Target(NamedTuple):
    """A loaded kernel: addresses of the function that calls it, and of its host function."""

    run: int
    function: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Launch:
    """A call of a kernel. ``frame`` has its arguments but for ``addresses``, ``scalars``, and the
    stream.
    """

    target: Target
    addresses: tuple[Address, ...]
    scalars: tuple[Scalar, ...]
    frame: bytes


class Allocation(NamedTuple):
    """A tensor that is made; ``result`` is which result of the operator it is, -1 for none."""

    result: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class View(NamedTuple):
    """A tensor in the memory of an argument, or of an allocation behind those."""

    source: int
    bytes: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Copy(NamedTuple):
    """``to`` gets the elements of ``source``, converted if need be."""

    to: View
    source: View


class Zero(NamedTuple):
    """All elements of ``to`` become 0."""

    to: View


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for arguments of one signature, one step after the other."""

    allocations: tuple[Allocation, ...]
    steps: tuple[Launch | Copy | Zero, ...]


class _Current(threading.local):
    recorder: Recorder | None = None


_current = _Current()


def current() -> Recorder | None:
    """The plan that is being made in this thread."""
    return _current.recorder


class Recorder(TorchDispatchMode):
    """Writes down launches on tensors without data, copies and zeros; a mode of torch that objects
    to everything else but views and allocations.

    Attributes:
        device: where the tensors would be.
        arguments: stand-ins of the operator's arguments.
    """

    def __init__(self, arguments: Sequence[Any], anew: Collection[int]) -> None:
        super().__init__()
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        self.device = tensors[0].device
        self.arguments = list(_stand_ins(arguments, anew))
        self._sources = {
            layouts.storage(a): n
            for n, a in reversed(list(enumerate(self.arguments)))
            if isinstance(a, Tensor)
        }
        self._made: list[Tensor] = []
        self._needed: dict[int, int] = {}
        self._steps: list[Launch | Copy | Zero] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        if func is _COPY:
            self._copied(result, args[1].expand(result.shape))
        elif func is _ZERO:
            self._steps.append(Zero(self._seen(result)))
        elif func in _EMPTY or (func in _ANEW and layouts.storage(result) not in self._sources):
            self._sources[layouts.storage(result)] = len(self.arguments) + len(self._made)
            self._made.append(result)
            if func in _ANEW:
                same = result.shape == args[0].shape
                self._copied(result if same else result.view(args[0].shape), args[0])
        elif func is not _VIEW and not getattr(func, "is_view", False):
            raise Unplannable(f"{func}")
        return result

    def _copied(self, to: Tensor, source: Tensor) -> None:
        """Notes that ``to`` gets the elements of ``source``."""
        self._steps.append(Copy(self._seen(to), self._seen(source)))

    def _seen(self, tensor: Tensor) -> View:
        source, begin = self._reached(tensor)
        return View(source, begin, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))

    def _reached(self, tensor: Tensor) -> tuple[int, int]:
        """As `_where`, of a tensor all elements of which are accessed."""
        source, begin = self._where(tensor)
        needed = self._needed.get(source, 0)
        self._needed[source] = max(needed, begin + _bytes(tensor))
        return source, begin

    def launch(
        self,
        target: Target,
        tensors: Sequence[Tensor],
        scalars: Sequence[float],
        *,
        counted: bool = False,
    ) -> None:
        """Notes a launch instead of making it; ``counted``: with a counter behind its tensors."""
        places = target.layout.places
        if len(places) > _MOST_PLACES:
            raise Unplannable(f"{len(places)} arguments")
        values: list[int | float] = []
        addresses: list[Address] = []
        for place, tensor in zip(places, tensors, strict=False):
            fixed = 0
            if tensor.is_meta:
                addresses.append(Address(place, *self._reached(tensor)))
            else:
                fixed = tensor.data_ptr()  # a constant
            values += (fixed, *tensor.shape, *layouts.strides(tensor))
        if counted:
            addresses.append(Address(places[len(tensors)], COUNTER, 0))
            values += (0, 1)
        numbers: list[Scalar] = []
        for place, scalar in zip(places[len(tensors) + counted :], scalars, strict=False):
            if isinstance(scalar, Number):
                numbers.append(Scalar(place, scalar.argument, scalar.factor))
            elif isinstance(scalar, Whole):
                numbers.append(Scalar(place, scalar.argument, 1.0, whole=True))
        frame = struct.pack(target.layout.format, *values, *scalars, 0)
        self._steps.append(Launch(target, tuple(addresses), tuple(numbers), frame))

    def plan(self, results: Sequence[Tensor]) -> Plan:
        """The plan, after the operator has returned ``results``."""
        which = {self._where(result)[0]: n for n, result in enumerate(results)}
        if len(which) < len(results) or any(s < len(self.arguments) for s in which):
            raise Unplannable("a result has no memory of its own")
        allocations: list[Allocation] = []
        for n, made in enumerate(self._made):
            result = which.get(len(self.arguments) + n, -1)
            shown = made if result < 0 else results[result]
            needed = self._needed.get(len(self.arguments) + n, 0)
            if shown.storage_offset() or needed > _bytes(shown):
                raise Unplannable("a result is a part of its memory")
            allocations.append(
                Allocation(result, shown.dtype, tuple(shown.shape), tuple(shown.stride()))
            )
        return Plan(tuple(allocations), tuple(self._steps))

    def _where(self, tensor: Tensor) -> tuple[int, int]:
        """Where the memory of ``tensor`` comes from, and bytes from the beginning there to it."""
        source = self._sources.get(layouts.storage(tensor))
        if source is None:
            raise Unplannable("memory from elsewhere")
        return source, int(tensor.storage_offset()) * tensor.element_size()


@contextmanager
def planning(arguments: Sequence[Any], anew: Collection[int] = ()) -> Generator[Recorder]:
    """Within it, launches of this thread are written down; ``arguments`` are those of a call, of
    which the integers in the places ``anew`` are others in each call.
    """
    recorder = Recorder(arguments, anew)
    before, _current.recorder = _current.recorder, recorder
    try:
        with recorder:
            yield recorder
    finally:
        _current.recorder = before


def encoded(plan: Plan) -> list[int]:
    """``plan`` as the 64-bit words that `native.cpp` reads."""
    words = [len(plan.allocations)]
    for made in plan.allocations:
        words += [made.result, _code(made.dtype), len(made.sizes), *made.sizes, *made.strides]
    words.append(len(plan.steps))
    for step in plan.steps:
        match step:
            case Launch():
                words += _call(step)
            case Copy(to, source):
                words += [1, *_view(to), *_view(source)]
            case Zero(to):
                words += [2, *_view(to)]
    return words


def _view(one: View) -> list[int]:
    return [one.source, one.bytes, _code(one.dtype), len(one.sizes), *one.sizes, *one.strides]


def _code(dtype: torch.dtype) -> int:
    if dtype not in CODES:
        raise Unplannable(f"tensors of {dtype}")
    return CODES[dtype]


def _call(one: Launch) -> list[int]:
    *places, stream = one.target.layout.places
    words = [0, one.target.run, one.target.function, stream, len(places) + 1, *places, stream]
    words += [len(one.addresses), *(n for address in one.addresses for n in address)]
    words.append(len(one.scalars))
    for scalar in one.scalars:
        (bits,) = struct.unpack("q", struct.pack("d", scalar.factor))
        words += [scalar.offset, scalar.argument, bits, int(scalar.whole)]
    frame = one.frame + bytes(-len(one.frame) % 8)
    return [*words, len(frame) // 8, *struct.unpack(f"{len(frame) // 8}q", frame)]


CODES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.float8_e8m0fnu: 44,
    torch.float4_e2m1fn_x2: 45,
}
"""Numbers of data types in the C interface of torch."""


def _stand_ins(arguments: Sequence[Any], anew: Collection[int]) -> Generator[Any]:
    """Arguments without data; tensors that begin at one address share what they have instead."""
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    storages: dict[int, Any] = {}
    for n, argument in enumerate(arguments):
        if isinstance(argument, Tensor):
            start = argument.data_ptr()
            if start not in storages:
                most = max(_bytes(t) for t in tensors if t.data_ptr() == start)
                storages[start] = torch.UntypedStorage(most, device="meta")
            empty = torch.empty(0, dtype=argument.dtype, device="meta")
            yield empty.set_(storages[start], 0, argument.shape, argument.stride())
        elif isinstance(argument, float):
            yield Number(argument, n)
        elif n in anew:
            yield Whole(argument, n)
        else:
            yield argument


def _bytes(tensor: Tensor) -> int:
    return layouts.span(tensor) * tensor.element_size()
