"""Dimensions of a spec: how often something is repeated, and the parts that an axis is cut into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import TypeAlias

from schedgen.errors import suggest
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope

MAX_INSTANCES = 4096  # of all operations, and of all pieces of all buffers
Index: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Dimensions:
    """How many instances each dimension has and, for a split, the sizes of its parts."""

    count: Mapping[str, int]
    sizes: Mapping[str, tuple[int, ...]]

    def number(self, names: Sequence[str]) -> int:
        """Return how many index assignments to ``names`` there are."""
        return prod(self.count[name] for name in names)

    def instances(self, names: Sequence[str]) -> list[dict[str, int]]:
        """Return all index assignments to ``names``, the last one running fastest."""
        ranges = [range(self.count[name]) for name in names]
        return [dict(zip(names, index, strict=True)) for index in product(*ranges)]

    def cut(self, name: str, extent: int) -> list[tuple[int, int]] | None:
        """Return [begin, end) of each part of an axis, or None if the parts do not make it up."""
        sizes = self.sizes.get(name)
        if sizes is None:
            sizes = (extent // self.count[name],) * self.count[name]
        if sum(sizes) != extent or not all(sizes):
            return None
        return list(pairwise(accumulate(sizes, initial=0)))


def bind_dimensions(spec: SpecFile, scope: Scope) -> Dimensions:
    """Return counts and sizes; parts of size zero do not exist."""
    count: dict[str, int] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    for name, dimension in spec.dimensions.items():
        path = ("dimensions", name)
        if (dimension.count is None) == (dimension.sizes is None):
            message = f"dimension '{name}' needs either count or sizes"
            fix = "write 'count: 2', or 'sizes: [...]' for parts of different sizes"
            scope.error("dimension-size", message, path, key=True, fix=fix)
        elif dimension.sizes is not None:
            before = scope.errors
            parts = [
                scope.integer(size, (*path, "sizes", number), at_least=0)
                for number, size in enumerate(dimension.sizes)
            ]
            sizes[name] = tuple(part for part in parts if part)
            count[name] = len(sizes[name])
            if not sizes[name] and scope.errors == before:
                message = f"all parts of '{name}' have size 0"
                fix = "give one of them a size"
                scope.error("dimension-size", message, (*path, "sizes"), fix=fix)
        else:
            text = dimension.count if dimension.count is not None else 1
            count[name] = scope.integer(text, (*path, "count"), at_most=MAX_INSTANCES)
    return Dimensions(count, sizes)


def check_name(scope: Scope, dimensions: Dimensions, name: str, path: Path) -> bool:
    """Report a name that is no dimension."""
    if name in dimensions.count:
        return True
    known = ", ".join(dimensions.count) or "none: declare it under 'dimensions'"
    fix = suggest(name, dimensions.count) or f"the dimensions are {known}"
    scope.error("unknown-dimension", f"'{name}' is not a dimension", path, fix=fix)
    return False


def check_names(scope: Scope, dimensions: Dimensions, names: Sequence[str], path: Path) -> bool:
    """Report names of a list that are no dimensions or stand there twice."""
    before = scope.errors
    for number, name in enumerate(names):
        at = (*path, number)
        if check_name(scope, dimensions, name, at) and name in names[:number]:
            scope.error("repeated-dimension", f"'{name}' stands here twice", at, fix="remove one")
    return scope.errors == before


def instance_name(base: str, index: Sequence[int]) -> str:
    """Return ``S``, ``S[0]`` or ``P[0,1]``."""
    return f"{base}[{','.join(map(str, index))}]" if index else base
