"""Operations of threads as functions of generated files, a module for each kind.

Each has ``text``, what the function says it does, and ``write``, which writes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schedgen.codegen.kinds import copy, gather, map, mask, reduce, scan
from schedgen.codegen.kinds.body import Body
from schedgen.kernel import Kind, Operation


@dataclass(frozen=True, slots=True)
class Writer:
    """How a kind is written: what it is in words, and the lines of its function, which is called
    once if it is for a whole tile, and not for each band of as many rows as four warps work on.
    """

    text: Callable[[Body, Operation], str]
    write: Callable[[Body, Operation], None]
    whole: bool = False


WRITERS: Mapping[Kind, Writer] = {
    Kind.REDUCE: Writer(reduce.text, reduce.write),
    Kind.SCAN: Writer(scan.text, scan.write),
    Kind.MAP: Writer(map.text, map.write),
    Kind.COPY: Writer(copy.text, copy.write),
    Kind.MASK: Writer(mask.text, mask.write),
    Kind.GATHER: Writer(gather.text, gather.write, whole=True),
}
"""Kinds that threads execute."""
