"""Changes of a kernel that could make it schedulable; whoever proposes one has tried it before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from schedgen.bounds import Constraint, Cycle
from schedgen.dependence import Choice, Edge, EdgeClass, RingOption, derive
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Depth,
    Kernel,
    Operation,
    Piece,
    Read,
    Region,
    Space,
)
from schedgen.machine import CostError
from schedgen.solver.problem import Dependence, Problem, ProblemError, build_problem


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed kernel and what was changed, as an instruction to the author."""

    text: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Knob:
    """A size that is ``now`` and could be smaller, in multiples of ``step``: ``edit`` gives the
    kernel with another value.
    """

    now: int
    edit: Callable[[int], Edit]
    step: int = 1


_COLUMNS = 16
"""Tiles that are multiplied, copied or swizzled have multiples of so many columns."""


def rebuilt(problem: Problem, kernel: Kernel) -> Problem | None:
    """The problem of a changed kernel on the same machine, None if it has none."""
    try:
        return build_problem(kernel, problem.machine, derive(kernel), problem.end)
    except (ProblemError, CostError):
        return None


# -- smaller tiles -----------------------------------------------------------------------------


def smaller(
    problem: Problem,
    space: Space,
    excess: Callable[[Problem], int],
    possible: Callable[[Problem], bool],
) -> Edit | None:
    """The single change of a buffer or ring in ``space`` that brings ``excess`` to 0 or less, and
    after which the kernel is still ``possible``.

    Of several, the one that gives up the least: of the space, then of the buffer.
    """
    found: list[tuple[int, Fraction, Problem, Edit]] = []
    for knob in _knobs(problem.kernel, space):
        low, high = 0, (knob.now - 1) // knob.step
        while low < high:
            middle = (low + high + 1) // 2
            changed = rebuilt(problem, knob.edit(middle * knob.step).kernel)
            fits = changed is not None and excess(changed) <= 0
            low, high = (middle, high) if fits else (low, middle - 1)
        size = low * knob.step
        changed = rebuilt(problem, knob.edit(size).kernel) if size else None
        if changed is not None and excess(changed) <= 0:
            share = Fraction(knob.now - size, knob.now)
            found.append((-excess(changed), share, changed, knob.edit(size)))
    ranked = sorted(found, key=lambda change: change[:2])
    return next((edit for *_, changed, edit in ranked if possible(changed)), None)


def _knobs(kernel: Kernel, space: Space) -> Iterator[Knob]:
    """Slots of every ring and buffer in ``space``, then the columns of every buffer."""
    for ring in kernel.rings:
        if kernel.region[ring.regions[0]].space is space:
            yield Knob(
                ring.depth.low, lambda slots, ring=ring.name: _ring_slots(kernel, ring, slots)
            )
    firsts = {region.base: region for region in reversed(kernel.regions) if region.space is space}
    hosts = {option.host for region in kernel.regions for option in region.options}
    for base, first in firsts.items():
        if first.ring is None:
            yield Knob(first.depth.low, lambda slots, base=base: _slots(kernel, base, slots))
    for base, first in firsts.items():
        alone = first.options == (OWN_STORAGE,) and first.name not in hosts
        if len(first.shape) == 2 and alone:
            yield Knob(
                first.shape[1], lambda width, base=base: _width(kernel, base, width), _COLUMNS
            )


def _ring_slots(kernel: Kernel, name: str, slots: int) -> Edit:
    old = kernel.ring[name].depth
    depth = Depth(slots, max(slots, old.high)) if old.low != old.high else Depth(slots, slots)
    rings = (replace(ring, depth=depth) if ring.name == name else ring for ring in kernel.rings)
    word = "slots" if slots > 1 else "slot"
    return Edit(f"give ring {name} {slots} {word}", replace(kernel, rings=tuple(rings)))


def _slots(kernel: Kernel, base: str, slots: int) -> Edit:
    def change(region: Region) -> Region:
        fixed = region.depth.fixed
        return replace(
            region, depth=Depth(slots, slots if fixed else max(slots, region.depth.high))
        )

    word = "slots" if slots > 1 else "slot"
    return Edit(f"give {base} {slots} {word}", _with_regions(kernel, base, change))


def _width(kernel: Kernel, base: str, width: int) -> Edit:
    """Pieces shrink in proportion."""
    was = next(region.shape[1] for region in kernel.regions if region.base == base)
    narrow = _with_regions(kernel, base, lambda region: replace(region, shape=(region.rows, width)))

    def cut(piece: Piece) -> Piece:
        begin, end = piece.byte0 * width // was, -(-piece.byte1 * width // was)
        return replace(piece, byte0=begin, byte1=end)

    pieces = (cut(p) if kernel.region[p.region].base == base else p for p in kernel.pieces)
    text = f"make {base}, and what has its columns, at most {width} columns wide instead of {was}"
    return Edit(text, replace(narrow, pieces=tuple(pieces)))


def _with_regions(kernel: Kernel, base: str, change: Callable[[Region], Region]) -> Kernel:
    regions = (change(r) if base in (r.base, r.name) else r for r in kernel.regions)
    return replace(kernel, regions=tuple(regions))


# -- storage decisions -------------------------------------------------------------------------


def decided(kernel: Kernel, choice: Choice, option: AliasOption | RingOption) -> Kernel:
    """``kernel`` with one storage decision taken."""
    name = choice.about
    if isinstance(option, AliasOption):
        return _with_regions(kernel, name, lambda region: replace(region, options=(option,)))
    depth = Depth(option.depth, option.depth)
    rings = (
        replace(r, depth=depth, lags=(option.lags,)) if r.name == name else r for r in kernel.rings
    )
    return replace(kernel, rings=tuple(rings))


def deeper_rings(kernel: Kernel, name: str, more: int) -> Iterator[Edit]:
    """``kernel`` with up to ``more`` slots added to the ring ``name``."""
    for slots in range(kernel.ring[name].depth.high + 1, kernel.ring[name].depth.high + more + 1):
        yield _ring_slots(kernel, name, slots)


# -- dependence cycles -------------------------------------------------------------------------


def cycle_edits(problem: Problem, cycle: Cycle) -> list[Edit]:
    """Changes that let ``cycle`` span one iteration, those first that keep what is computed."""
    missing = 1 - cycle.distance
    edits: list[tuple[int, Edit]] = []
    for constraint in cycle.constraints:
        for dependence in problem.dependences:
            if _belongs(constraint, dependence):
                edits.extend(_relaxed(problem.kernel, dependence.edge, missing))
    return [edit for _, edit in sorted(edits, key=lambda ranked: ranked[0])]


def _belongs(constraint: Constraint, dependence: Dependence) -> bool:
    edge = dependence.edge
    mine = edge.src, edge.dst, edge.reason
    return (constraint.src, constraint.dst, constraint.reason) == mine


def _relaxed(kernel: Kernel, edge: Edge, missing: int) -> Iterator[tuple[int, Edit]]:
    """Ways to make ``edge`` reach ``missing`` iterations further, with a rank each."""
    if edge.depth_of is not None:
        region = kernel.region[edge.depth_of]
        yield 0, _slots(kernel, region.base, region.depth.high + missing)
    about, *host = edge.about
    if host:
        base = kernel.region[about].base
        own = _with_regions(kernel, base, lambda region: replace(region, options=(OWN_STORAGE,)))
        yield 1, Edit(f"store {base} in memory of its own (alias: none)", own)
    if edge.kind is EdgeClass.ORDER:
        kept = tuple(order for order in kernel.orders if order.name != about)
        yield 2, Edit(f"leave out the order {about}", replace(kernel, orders=kept))
    if edge.kind in (EdgeClass.FLOW, EdgeClass.CARRIED):
        distance = edge.distance + missing
        text = f"let {edge.dst} read {about}@{distance} instead of the value of "
        text += f"{edge.distance} iterations before" if edge.distance else "its own iteration"
        yield 3, Edit(text, _reading(kernel, edge, distance))


def _reading(kernel: Kernel, edge: Edge, distance: int) -> Kernel:
    def moved(read: Read) -> Read:
        ours = kernel.piece[read.piece].region == edge.about[0] and read.distance == edge.distance
        return replace(read, distance=distance) if ours else read

    def change(operation: Operation) -> Operation:
        return replace(operation, reads=tuple(moved(read) for read in operation.reads))

    changed = (change(o) if o.name == edge.dst else o for o in kernel.operations)
    return replace(kernel, operations=tuple(changed))
