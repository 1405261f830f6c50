"""Copies in registers that move elements from one thread to another.

Threads have left operands of 16 bits as they have results of products, but those of 8 bits in
another order (PTX ISA, register fragments of wgmma): of 32 columns thread t of four has columns
4 t to 4 t + 3 and those 16 behind, and of results columns 2 t and 2 t + 1 of each 8. A copy from
the one to the other stays where other copies within registers disappear. Each word of four bytes
is shuffled once among the four threads of a row, through the port of shared memory, chosen before
that and put together behind it.

A product with ``as_results`` needs none of that: it takes columns in the order that threads have
them in, and rows of its right operand lie in that order. A thread's own bytes still lie as those of
a left operand: of the four of two rows and 8 columns, two rows with two, then those of the next 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from schedgen.kernel import Kernel, Kind, Operation, Piece, Region, Space, Work
from schedgen.layouts import DTYPE_BITS

_BITS = 8
_WORD = 4
"""Bytes that are shuffled at a time."""
RESULT_COLUMNS = 16
"""Columns that are exchanged among the four threads of a row, by two words of each."""


def order_of_results(columns: int) -> list[int]:
    """The columns of a left operand, `RESULT_COLUMNS` after the other, in the order in which four
    threads have those of a result: 4 t + 2 h + l is where 8 h + 2 t + l goes.
    """
    return [
        first + 8 * half + 2 * thread + low
        for first in range(0, columns, RESULT_COLUMNS)
        for thread in range(4)
        for half in range(2)
        for low in range(2)
    ]


def kept_as_results(kernel: Kernel) -> frozenset[str]:
    """Names of the regions that products take in the order of results."""
    return frozenset(
        kernel.piece[name].region
        for one in kernel.operations
        if one.as_results
        for name in dict(one.operands)["a"]
    )


def left_in_registers(
    operations: Iterable[Operation], pieces: Mapping[str, Piece], regions: Mapping[str, Region]
) -> frozenset[str]:
    """Names of the regions that threads have in the order of a left operand of 8 bits."""
    products = [one for one in operations if one.kind is Kind.MMA and not one.as_results]
    read = {pieces[name].region for one in products for name in dict(one.operands)["a"]}
    return frozenset(
        name
        for name in read
        if regions[name].space is Space.REGISTERS and DTYPE_BITS[regions[name].dtype] == _BITS
    )


def exchanges(kernel: Kernel, operation: Operation) -> bool:
    """Whether an operation is a copy to such a region from another one in registers."""
    if operation.kind is not Kind.COPY or operation.operand_space("from") != Space.REGISTERS.value:
        return False
    left = left_in_registers(kernel.operations, kernel.piece, kernel.region)
    source, to = operation.reads[0].piece, operation.writes[0]
    return kernel.region_of(to).name in left and kernel.region_of(source).name not in left


def exchange_mistakes(kernel: Kernel) -> Iterator[tuple[str, str, str]]:
    """Names of operations that use such a region in another way than threads have it, each with
    what is wrong and a fix.
    """
    left = left_in_registers(kernel.operations, kernel.piece, kernel.region)
    yield from _mistakes_of_results(kernel, left)
    for one in kernel.operations:
        used = [kernel.piece[name] for name in (*one.writes, *(read.piece for read in one.reads))]
        found = sorted({kernel.region[p.region].base for p in used if p.region in left})
        if one.kind is Kind.MMA or not found:
            continue
        if not exchanges(kernel, one):
            does = "works on it in that of results"
            fix = "work on another buffer in registers, and copy that to it"
        elif any((piece.byte1 - piece.byte0) % RESULT_COLUMNS for piece in used):
            does = f"copies less than {RESULT_COLUMNS} columns at a time"
            fix = f"copy multiples of {RESULT_COLUMNS} columns"
        else:
            continue
        order = f"threads have '{found[0]}' in the order of a left operand of 8 bits"
        yield one.base, f"{order}, and '{one.base}' {does}", fix


def _mistakes_of_results(kernel: Kernel, left: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """The same of regions that products take in the order of results. Threads have four bytes of a
    row in a register, which is for maps that write all of them to know.
    """
    kept = kept_as_results(kernel)
    for one in kernel.operations:
        used = [kernel.piece[name] for name in (*one.writes, *(read.piece for read in one.reads))]
        mine = [piece for piece in used if piece.region in kept]
        if not mine:
            continue
        name = kernel.region[mine[0].region].base
        reads = any(kernel.piece[read.piece].region in kept for read in one.reads)
        if one.kind is Kind.MMA:
            if one.as_results or mine[0].region not in left:
                continue
            does, fix = "takes them in that of left operands", "give all of them 'as_results'"
        elif one.kind is not Kind.MAP or reads or one.when is not None:
            does = "does more than a map that writes it"
            fix = "work on another buffer in registers, and convert that with a map"
        elif any((piece.byte1 - piece.byte0) % RESULT_COLUMNS for piece in mine):
            does = f"writes less than {RESULT_COLUMNS} columns at a time"
            fix = f"write multiples of {RESULT_COLUMNS} columns"
        else:
            continue
        yield one.base, f"a product takes '{name}' 'as_results', and '{one.base}' {does}", fix


def priced_exchanges(kernel: Kernel) -> Kernel:
    """The kernel with the work of such copies: for each word a shuffle, and two instructions that
    choose bytes.
    """
    found = {one.name for one in kernel.operations if exchanges(kernel, one)}
    if not found:
        return kernel
    return replace(
        kernel,
        operations=tuple(
            replace(one, work=_work(kernel, one)) if one.name in found else one
            for one in kernel.operations
        ),
    )


def _work(kernel: Kernel, operation: Operation) -> Work:
    size = sum(kernel.piece[name].bytes for name in operation.writes)
    return replace(operation.work, alu=2 * size // _WORD, smem_in=size)
