"""What of a spec depends on parameters alone, settled before anything is bound: arguments that are
left out, rings that there are, extents that are exchanged, which tiles there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schedgen.operations import Copy, Mma, Operation, Store
from schedgen.spec.schema import Argument, Buffer, Loops, Operations, SpecFile, Split
from schedgen.spec.values import Path, Scope

TILES = ("all", "lower_triangle", "dense")


def resolved(spec: SpecFile, scope: Scope) -> SpecFile:
    """``spec`` for the parameters of ``scope``; mistakes are reported there."""
    arguments = {
        name: _argument(argument, scope, ("arguments", name))
        for name, argument in spec.arguments.items()
        if scope.truth(argument.only, ("arguments", name, "only"))
    }
    buffers = {
        name: _buffer(buffer, scope, ("buffers", name)) for name, buffer in spec.buffers.items()
    }
    rings = {
        name: ring
        for name, ring in spec.rings.items()
        if scope.truth(ring.only, ("rings", name, "only"))
    }
    listed = spec.operations
    operations = Operations(
        before=_operations(listed.before, scope, "before"),
        body=_operations(listed.body, scope, "body"),
        after=_operations(listed.after, scope, "after"),
    )
    tiles = scope.word(spec.loops.tiles, ("loops", "tiles"), TILES, "choice of tiles")
    loops = _loops(spec, arguments).model_copy(update={"tiles": tiles or "all"})
    update = {
        "arguments": arguments, "buffers": buffers, "rings": rings, "operations": operations,
        "loops": loops,
    }  # fmt: skip
    return spec.model_copy(update=update)


def _loops(spec: SpecFile, arguments: Mapping[str, Argument]) -> Loops:
    """What counts tiles or iterations, and which extents a single tile covers, without those that
    only arguments have that are left out; for a single tile: only results that are. Without words
    nobody tells or follows.
    """
    results = {one.to for one in spec.stores}
    every = _extents(spec.arguments.values())
    gone = every - _extents(arguments.values())
    stored = _extents(arguments[name] for name in results & arguments.keys())
    left_out = _extents(spec.arguments[name] for name in results - arguments.keys())
    update: dict[str, object] = {
        key: {
            extent: value
            for extent, value in getattr(spec.loops, key).items()
            if extent not in gone
        }
        for key in ("counted", "counted_by", "counted_in")
    }
    update["one_tile"] = [
        extent for extent in spec.loops.one_tile if extent in stored or extent not in left_out
    ]
    follows, tells = spec.loops.follows, spec.loops.tells
    left = spec.arguments.keys() - arguments.keys()
    update["tells"] = None if tells in left else tells
    update["follows"] = None if follows is None or follows.words in left else follows
    return spec.loops.model_copy(update=update)


def _extents(arguments: Iterable[Argument]) -> set[str]:
    return {extent for argument in arguments for extent in argument.shape}


def _argument(argument: Argument, scope: Scope, path: Path) -> Argument:
    if not _exchanged(argument.transposed, len(argument.shape), scope, path):
        return argument
    *outer, rows, columns = argument.shape
    return argument.model_copy(update={"shape": [*outer, columns, rows]})


def _buffer(buffer: Buffer, scope: Scope, path: Path) -> Buffer:
    if not _exchanged(buffer.transposed, len(buffer.shape), scope, path):
        return buffer
    split = Split(rows=buffer.split.columns, columns=buffer.split.rows)
    return buffer.model_copy(update={"shape": buffer.shape[::-1], "split": split})


def _exchanged(transposed: bool | int | str, extents: int, scope: Scope, path: Path) -> bool:
    """Whether the last two extents change places."""
    path = (*path, "transposed")
    if not scope.truth(transposed, path):
        return False
    if extents < 2:
        message = "there are no two extents to exchange"
        scope.error("nothing-to-transpose", message, path, fix="remove 'transposed'")
        return False
    return True


def _operations(entries: list[Operation], scope: Scope, phase: str) -> list[Operation]:
    found: list[Operation] = []
    path = ("operations", phase)
    for number, entry in enumerate(entries):
        one: Operation = entry
        if isinstance(entry, Mma):
            turned = {
                key: scope.truth(getattr(entry, key), (*path, number, key))
                for key in ("transpose_a", "transpose_b", "as_results")
            }
            one = entry.model_copy(update=turned)
        elif isinstance(entry, Copy) and entry.interleave is not None:
            parts = scope.integer(entry.interleave, (*path, number, "interleave"))
            one = entry.model_copy(update={"interleave": parts})
        elif isinstance(entry, Store):
            unordered = scope.truth(entry.unordered, (*path, number, "unordered"))
            one = entry.model_copy(update={"unordered": unordered})
        found.append(one)
    return found
