"""Dependence edges and the storage decisions that some of them hang on.

An edge src -> dst with distance d: instance dst(j + d) must wait for src(j). Distances can be zero
or negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from schedgen.kernel import AliasOption, Kernel, Region, Ring
from schedgen.reasons import Reason, ReasonKind, storage


class EdgeClass(StrEnum):
    """Why one operation must wait for another."""

    FLOW = "flow"
    CARRIED = "carried"
    ANTI = "anti"
    OUTPUT = "output"
    ORDER = "order"


_KINDS = {edge: ReasonKind(edge.value) for edge in EdgeClass}


@dataclass(frozen=True, slots=True)
class Condition:
    """An edge exists only if the decision ``choice`` takes its alternative ``option``."""

    choice: str
    option: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependence. Its distance is ``distance``, plus the ring depth of region ``depth_of`` if
    that is set.

    ``about`` is what it is about: a region, a ring or an order; or a region and its host.
    """

    src: str
    dst: str
    distance: int
    kind: EdgeClass
    about: tuple[str, ...]
    bytes: int
    depth_of: str | None = None
    condition: Condition | None = None

    @property
    def reason(self) -> Reason:
        return Reason(_KINDS[self.kind], self.about)

    @property
    def resource(self) -> str:
        """What it is about, in words."""
        return storage(self.about)

    def resolved(self, depths: Mapping[str, int]) -> Edge:
        """This edge with the ring depth filled in."""
        if self.depth_of is None:
            return self
        distance = self.distance + depths[self.depth_of]
        return Edge(
            self.src, self.dst, distance, self.kind, self.about, self.bytes, None, self.condition
        )


@dataclass(frozen=True, slots=True)
class RingOption:
    """One alternative of a shared ring: slots and the lag of each region in iterations."""

    depth: int
    lags: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A storage decision: the place of the region ``about``, or the shape of that ring.

    ``excludes``: option pairs that cannot go together.
    """

    name: str
    about: str
    options: tuple[AliasOption | RingOption, ...]
    excludes: tuple[tuple[int, Condition], ...] = ()


@dataclass(frozen=True)
class DependenceGraph:
    """Operations of the main loop, their dependences, and the storage decisions that some of these
    hang on.
    """

    kernel: Kernel
    edges: tuple[Edge, ...]
    choices: tuple[Choice, ...]

    @cached_property
    def choice(self) -> dict[str, Choice]:
        return {choice.name: choice for choice in self.choices}

    def resolve(self, depths: Mapping[str, int], options: Mapping[str, int]) -> tuple[Edge, ...]:
        """The edges that hold once ring depths and storage are decided, each with its number as
        distance.
        """
        return tuple(
            edge.resolved(depths)
            for edge in self.edges
            if edge.condition is None or options[edge.condition.choice] == edge.condition.option
        )


def home_choice(region: Region) -> str:
    """Name of the decision where ``region`` is stored."""
    return f"place of {region.name}"


def ring_choice(ring: Ring) -> str:
    """Name of the decision how deep ``ring`` is and how its regions lag."""
    return f"ring {ring.name}"


def ring_options(ring: Ring) -> tuple[RingOption, ...]:
    """All shapes of a shared ring, shallow ones first."""
    depths = range(ring.depth.low, ring.depth.high + 1)
    return tuple(RingOption(depth, lags) for depth in depths for lags in ring.lags)
