"""Rings that several buffers of a spec share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from schedgen.errors import suggest
from schedgen.kernel import Ring
from schedgen.spec import schema
from schedgen.spec.dimensions import instance_name
from schedgen.spec.layout import Layout

MAX_LAG = 8
MAX_SHAPES = 256  # depths and lags that the solver may pick from


def bind_rings(layout: Layout) -> tuple[Ring, ...]:
    """Return the rings over the regions of their buffers; a ring without any does not exist."""
    found: list[Ring] = []
    ring_of: dict[str, str] = {}
    for name, ring in layout.spec.rings.items():
        path, before = ("rings", name), layout.scope.errors
        _check_buffers(layout, name, ring, ring_of)
        depth = layout.depth(ring.depth, (*path, "depth"))
        options = _lag_options(layout, name, ring)
        shapes = prod(map(len, options.values())) * (depth.high - depth.low + 1)
        if shapes > MAX_SHAPES and layout.scope.errors == before:
            message = f"ring '{name}' has {shapes} combinations of depth and lags"
            fix = f"fix its depth or some of its lags: up to {MAX_SHAPES} can be searched"
            layout.scope.error("too-many-choices", message, path, key=True, fix=fix)
        if layout.scope.errors > before or not options:
            continue
        for one, regions in _instances(layout, name, options):
            lags: list[tuple[int, ...]] = []
            for pick in product(*options.values()):
                lag_of = dict(zip(options, pick, strict=True))
                lags.append(tuple(lag_of[layout.regions[region].base] for region in regions))
            found.append(Ring(one, regions, depth, tuple(lags)))
    return tuple(found)


def _instances(
    layout: Layout, name: str, buffers: Iterable[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and regions of the rings that ring ``name`` of a spec stands for: one, or as many as
    there are instances of its buffers.
    """
    regions = [layout.names[buffer] for buffer in buffers]
    if not layout.apart(name):
        yield name, tuple(region for names in regions for region in names)
        return
    for number, together in enumerate(zip(*regions, strict=True)):
        yield instance_name(name, [number]), together


def _check_buffers(layout: Layout, name: str, ring: schema.Ring, ring_of: dict[str, str]) -> None:
    """The buffers of a ring exist, are in no other one, and are alike."""
    report, path = layout.scope.error, ("rings", name, "buffers")
    for number, buffer in enumerate(ring.buffers):
        at = (*path, number)
        if buffer not in layout.spec.buffers:
            fix = suggest(buffer, layout.spec.buffers) or "declare it under 'buffers'"
            report("unknown-buffer", f"'{buffer}' is not a buffer", at, fix=fix)
        elif buffer in ring_of:
            message = f"'{buffer}' already fills ring '{ring_of[buffer]}'"
            report("repeated-buffer", message, at, fix="remove it from one of the two places")
        elif "depth" in layout.spec.buffers[buffer].model_fields_set:
            message = f"'{buffer}' is in ring '{name}', which has a depth of its own"
            at = ("buffers", buffer, "depth")
            report("contradicting-keys", message, at, key=True, fix="remove it here")
        ring_of.setdefault(buffer, name)
    regions = [layout.regions[layout.names[b][0]] for b in ring.buffers if b in layout.present]
    for region in regions:
        what = None
        if region.space is not regions[0].space:
            what = f"{regions[0].space} and {region.space}"
        elif region.per_tile is not regions[0].per_tile:
            what = "buffers that live for an iteration and for a tile"
        if what is not None:
            message = f"ring '{name}' mixes {what}"
            at = (*path, ring.buffers.index(region.base))
            report("mixed-ring", message, at, fix="split it into two rings")
            break
    numbers = {b: len(layout.names[b]) for b in ring.buffers if b in layout.present}
    if layout.apart(name) and len(set(numbers.values())) > 1:
        told = " and ".join(f"{number} of '{buffer}'" for buffer, number in numbers.items())
        message = f"there is a ring '{name}' for each instance of its buffers, and there are {told}"
        fix = "give its buffers as many instances ('per'), or leave 'apart' away"
        report("uneven-ring", message, ("rings", name, "apart"), fix=fix)


def _lag_options(layout: Layout, name: str, ring: schema.Ring) -> dict[str, tuple[int, ...]]:
    """Return the lags that each buffer that exists may have."""
    path, scope = ("rings", name, "lag"), layout.scope
    entries: list[bool | int | str] = [0, *["auto"] * (len(ring.buffers) - 1)]
    if isinstance(ring.lag, list):
        entries = ring.lag
    if len(entries) != len(ring.buffers):
        message = f"ring '{name}' has {len(ring.buffers)} buffers but {len(entries)} lags"
        scope.error("bad-lag", message, path, fix="give each buffer one, such as 0 or auto")
        return {}
    options: dict[str, tuple[int, ...]] = {}
    for number, (buffer, entry) in enumerate(zip(ring.buffers, entries, strict=True)):
        if entry == "auto" or scope.values.get(str(entry)) == "auto":
            choices = (0, 1)
        else:
            choices = (scope.integer(entry, (*path, number), at_least=0, at_most=MAX_LAG),)
        if buffer in layout.present:
            per_tile = layout.regions[layout.names[buffer][0]].per_tile
            options[buffer] = (0,) if per_tile else choices
    return options
