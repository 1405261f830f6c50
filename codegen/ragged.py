"""What the host passes for extents whose sizes are data, and what roles find at each tile.

Bulk copies fill with zeros, or leave out, what lies beyond the end of a tensor, and only that. So a
tensor map of rows that may end anywhere has two modes more: `ragged_map` of the library makes the
mode of rows so long that the last row of a sequence can be its last one, wherever the sequence
lies; the two move it there. A row of a sequence is number ``2^30 - size + row``, so that rows from
``size`` on do not exist; ``begin + size`` rows are added, and 2^30 taken away, as 2^30 times 2^34
bytes less a row: addresses have 64 bits. (A map that begins 2^30 rows before the tensor would need
one mode only. An H200 refuses it: illegal memory access.) What is copied is always inside of the
sequence, and that is inside of the tensor: begin and size are limited to what there is before they
are used.

Where a tensor has numbers along an axis of its own, with room for the largest size, that axis and
the one of rows are folded into one mode, in which number i begins at row ``pitch * i``: a map of
four modes has room for no more. So do pages, of which each copy has its own begin and size. What
a pitch is the host finds in the strides; where it is no whole number nothing is launched.
"""

from __future__ import annotations

from schedgen.codegen.ir import Code, Name, called, code, joined
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.ragged import left_out
from schedgen.tensors import LARGEST, Ragged


class RaggedExtents:
    """Those of a kernel."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.all = plan, plan.kernel.ragged

    def tensors(self) -> dict[str, str]:
        """Parameters of the kernel with the arrays, and their arguments."""
        return {f"of_{array}": array for one in self.all for array in one.arrays}

    def most(self) -> dict[str, str]:
        """Parameters with what sizes are limited to, and the extents that they are."""
        found = {_most(one): one.packed or one.extent for one in self.all}
        return found | {one.pages: one.pages for one in self.all if one.table}

    # -- host ----------------------------------------------------------------------------------

    def host(self, source: Source, tensors: dict[str, tuple[str, ...]]) -> None:
        """``n_X`` of extents that no tensor has: how many numbers there are; of lengths that only
        formulas name as many as may be; of a ragged one that
        output tiles are cut along all there is, as it may be that of one number; of one that the
        main loop walks the mean, for which tiles are ordered.
        """
        known = {extent for shape in tensors.values() for extent in shape}
        for one in self.all:
            if one.starts and one.of not in known:
                source.add(f"n_{one.of} = n_{one.bounds} - 1")
                known.add(one.of)
        for one in self.all:
            if one.extent in known:
                continue
            if one.table:
                source.add(f"n_{one.extent} = n_{one.most_pages} * {one.page_size}")
                continue
            if one.lengths:
                source.add(f"n_{one.extent} = Int32({LARGEST})")
                continue
            if one.extent in {axis.extent for axis in self.plan.kernel.grid}:
                source.add(f"n_{one.extent} = n_{one.packed}")
            else:
                mean = f"n_{one.packed} // cutlass.max(n_{one.of}, 1)"
                source.add(f"n_{one.extent} = cutlass.max({mean}, 1)")

    def refuse(self, source: Source, kernel: str) -> None:
        """No tiles where there are more numbers than an array says sizes of, or other pages."""
        for one in (one for one in self.all if one.table):
            with source.block(f"if n_{one.page} != {one.page_size}:"):
                text = f"{kernel}: {one.page} is {{}}, but must be {one.page_size}; not launched"
                source.call("cute.printf", [f'"{text}"', f"n_{one.page}"])
                source.add("tiles = Int32(0)")
        for one in self.all:
            if not one.starts:
                continue
            with source.block(f"if n_{one.of} >= n_{one.bounds}:"):
                text = f"{kernel}: {one.of} is {{}}, but '{one.starts}' has {{}} elements, one more"
                source.call(
                    "cute.printf",
                    [f'"{text} is needed; not launched"', f"n_{one.of}", f"n_{one.bounds}"],
                )
                source.add("tiles = Int32(0)")

    # -- device --------------------------------------------------------------------------------

    def sizes(self, source: Source) -> None:
        """The sizes at a tile, and where its elements begin in what is packed."""
        for one in self.all:
            array, at = Name(f"of_{one.array}"), Name(f"at_{one.of}")
            found = called(sizes_by(one), array, at, Name(_most(one)))
            variables = [Name(one.extent)]
            if one.packed:
                variables.insert(0, Name(begin(one)))
            source.add(code("{} = {}", joined(", ", variables), found))

    def computed(self) -> Code | None:
        """Whether an output tile begins before the end of what it is cut along; None: always."""
        if not left_out(self.plan.kernel):
            return None
        terms = [
            code(f"{{}} * {axis.block} < {{}}", Name(f"at_{axis.extent}"), Name(axis.extent))
            for axis in self.plan.kernel.grid
            if axis.extent in self.plan.ragged
        ]
        return joined(" and ", terms)

    def within(self, one: Ragged, tensor: Name, mode: int, pitch: Name | None) -> Code:
        """The coordinates ``tensor`` of a ragged map, from where the elements of a tile begin:
        those of numbers that are folded, ``pitch`` elements apart.
        """
        first = Name(begin(one)) if one.packed else code("0")
        if pitch is not None:
            first = code("{} * {}", Name(f"at_{one.of}"), pitch)
        return called("within", tensor, mode, first, Name(one.extent))

    def refuse_pitch(self, source: Source, kernel: str, tensor: str, axes: tuple[int, int]) -> None:
        """No tiles if numbers, along the first of two axes of a tensor, are no whole number of
        elements of the other one apart.
        """
        of, along = (f"{tensor}.stride[{axis}]" for axis in axes)
        apart = f"{tensor}.shape[{axes[0]}] > 1 and pitch_{tensor} * {along} != {of}"
        with source.block(f"if {apart}:"):
            text = f"{kernel}: stride {axes[0]} of {tensor} is no multiple of stride {axes[1]}"
            source.call("cute.printf", [f'"{text}; not launched"'])
            source.add("tiles = Int32(0)")


def begin(one: Ragged) -> str:
    """The variable that says where elements begin."""
    return f"begin_{one.extent}"


def sizes_by(one: Ragged) -> str:
    """The function of the library that reads its array."""
    return "segment_of" if one.starts else "segment_to" if one.ends else "length_of"


def _most(one: Ragged) -> str:
    return one.packed or f"most_{one.extent}"
