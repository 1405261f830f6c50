"""Main loops that take blocks from arrays: how many at an output tile, and which in an iteration.

All roles read both arrays in global memory. What they say is limited to what there is, so that any
content is one of the trip counts and blocks that a program is proven for.
"""

from __future__ import annotations

from functools import lru_cache

from schedgen.codegen.ir import Code, Name, called, code, joined
from schedgen.codegen.source import Source
from schedgen.extents import single_extents
from schedgen.kernel import Kernel
from schedgen.walking import most_blocks

WHOLE_BLOCKS = Name("whole_blocks")
"""The variable with how many iterations of an output tile are full."""


class Walks:
    """Those of a kernel, if it has any."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.walk = kernel, kernel.walk

    def tensors(self) -> dict[str, str]:
        """Parameters of the kernel with the arrays, and their arguments."""
        return {} if self.walk is None else {f"of_{name}": name for name in self.walk.arrays}

    @property
    def coordinates(self) -> set[str]:
        """Variables that say where an output tile's elements are in the arrays."""
        return set() if self.walk is None else {f"at_{extent}" for extent in self.walk.axes}

    @property
    def ordered(self) -> str:
        """The extent along which an array says in which order output tiles come; "" if none does,
        or if there is one tile along it.
        """
        return _ordered(self.kernel)

    def place(self, source: Source, count: Code) -> None:
        """Writes which of ``count`` output tiles comes at a place in their order. Arrays have its
        elements at that place, so that none of them is waited for to know where to read another.
        """
        if self.ordered and self.walk is not None:
            at = Name(f"at_{self.ordered}")
            source.add(code("{} = {}", self._last, at))
            order = self._array(self.walk.order)
            source.add(code("{} = {}", at, called("block_of", order, self._at(), count)))

    def refuse(self, source: Source, host: dict[str, str]) -> None:
        """No tiles where arrays have no elements for some of them."""
        if self.walk is None:
            return
        argument = next(a for a in self.kernel.arguments if a.name == self.walk.count)
        blocks = {axis.extent: axis.block for axis in self.kernel.grid}
        needed = {
            host[extent]: f"cute.ceil_div({host[along]}, {blocks[along]})"
            for extent, along in zip(argument.shape, self.walk.axes, strict=True)
            if extent != along
        }
        needed[host[most_blocks(self.kernel)]] = "1"
        for extent, least in needed.items():
            with source.block(f"if {extent} < {least}:"):
                text = f"{self.kernel.name}: '{self.walk.listed}' has {{}} elements along an axis, "
                text += "at least {} are needed; not launched"
                source.call("cute.printf", [f'"{text}"', extent, least])
                source.add("tiles = Int32(0)")

    def trips(self) -> Code:
        """How many iterations an output tile has."""
        assert self.walk is not None
        return called("count_of", self._array(self.walk.count), self._at(), self._most())

    def full(self) -> Code | None:
        """``whole_blocks``: how many iterations of an output tile are full, if an array says so."""
        if self.walk is None or not self.walk.full:
            return None
        return code("{} = {}[{}]", WHOLE_BLOCKS, self._array(self.walk.full), self._at())

    def partly(self, iteration: Code) -> Code:
        """Whether an iteration may have elements that a mask leaves out: 1, or 0."""
        if self.full() is None:
            return code("Int32(1)")
        return code("cutlass.select_({} >= {}, Int32(1), Int32(0))", iteration, WHOLE_BLOCKS)

    def _most(self) -> Code:
        return code("{}", Name(most_blocks(self.kernel)))

    def _at(self, *more: Code) -> Code:
        """Where an output tile's element is. The compiler may not know that it is the number of the
        tile: a loop over tiles would carry an address, and translation validation knows of none.
        """
        assert self.walk is not None
        names = [Name(f"at_{extent}") for extent in self.walk.axes[:-1]]
        names += [self._last] if self.walk.axes else []
        at = [*(called("opaque", name) for name in names), *more]
        return code("({})" if len(at) > 1 else "({},)", joined(", ", at))

    @property
    def _last(self) -> Name:
        """The variable for the last of an element's numbers."""
        assert self.walk is not None
        return Name(f"nth_{self.ordered}" if self.ordered else f"at_{self.walk.axes[-1]}")

    @staticmethod
    def _array(name: str) -> Name:
        return Name(f"of_{name}")

    def block(self, iteration: Code) -> Code:
        """The block that an iteration of an output tile takes."""
        assert self.walk is not None
        array = self._array(self.walk.listed)
        return called("block_of", array, self._at(iteration), Name("all_trips"))


@lru_cache(maxsize=16)
def _ordered(kernel: Kernel) -> str:
    """What `Walks.ordered` says; it is asked for each block that is loaded."""
    extent = kernel.walk.axes[-1] if kernel.walk is not None and kernel.walk.order else ""
    return "" if extent in single_extents(kernel) else extent
