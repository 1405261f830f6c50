"""Sizes, alignment and offsets of what PTX declares (PTX ISA 5.1.6, 5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from schedgen.emulator.ptx.errors import Source
from schedgen.emulator.ptx.literals import bits_of_type, encode
from schedgen.emulator.ptx.syntax import Declared
from schedgen.emulator.ptx.tree import Parameter, Variable
from schedgen.errors import DiagnosticSink


def lay_out(parameters: Iterable[Declared]) -> tuple[Parameter, ...]:
    """Return parameters with their offsets: each at the next multiple of its alignment."""
    laid_out: list[Parameter] = []
    end = 0
    for one in parameters:
        align = _alignment(one)
        offset = -(-end // align) * align
        size = _element_size(one) * prod(extent or 0 for extent in one.shape)
        laid_out.append(Parameter(one.name, one.type, size, align, offset))
        end = offset + size
    return tuple(laid_out)


def variable(declared: Declared, name: str, source: Source, sink: DiagnosticSink) -> Variable:
    """Return a variable that the tree calls ``name``.

    The first extent of an array may be missing: its initializer gives it (5.4.3). Without one the
    size is 0, as for the dynamic shared memory of a kernel.
    """
    shape = declared.shape
    data = b""
    if declared.value is not None:
        if shape and shape[0] is None and isinstance(declared.value, list):
            shape = (len(declared.value), *shape[1:])
        try:
            data = encode(declared.value, declared.type, declared.vector, shape)
        except (ValueError, OverflowError) as error:
            message = f"initializer of '{declared.name}': {error}"
            sink.error(source.diagnostic("ptx-initializer", message, declared.line, declared.name))
    return Variable(
        name=name,
        space=declared.space,
        type=declared.type,
        size=_element_size(declared) * prod(extent or 0 for extent in shape),
        align=_alignment(declared),
        line=declared.line,
        data=data,
    )


def _element_size(declared: Declared) -> int:
    return bits_of_type(declared.type) // 8 * declared.vector


def _alignment(declared: Declared) -> int:
    return declared.align or _element_size(declared)
