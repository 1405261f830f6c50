"""Extents whose sizes are data: what a spec says of them, and tensors as if they were not packed.

A tensor of shape ``[total, heads]`` that holds ``length`` elements of each ``batch`` behind each
other means ``[batch, length, heads]`` to everything that comes later: tiles, masks, trip counts.
Only who passes tensors and who copies tiles knows that it is packed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from schedgen.errors import suggest
from schedgen.expressions import references
from schedgen.operations import Load
from schedgen.spec.pages import Pages
from schedgen.spec.schema import Argument, RaggedExtent, SpecFile
from schedgen.spec.values import Path, Scope
from schedgen.tensors import INTEGERS, Ragged

Shapes = Mapping[str, tuple[str, ...]]
_ARRAYS = ("starts", "ends", "lengths")
"""Keys of arrays that say sizes."""


def ragged_extents(spec: SpecFile, scope: Scope, index: Collection[str] = ()) -> tuple[Ragged, ...]:
    """The ragged extents of ``spec``, in its order; mistakes are reported. ``index``: arrays of
    integers that say which rows are gathered.
    """
    found: list[Ragged] = []
    for extent, entry in spec.ragged.items():
        before = scope.errors
        one = _Entry(spec, scope, extent, entry, index)
        one.check()
        if scope.errors == before:
            found.append(one.bound())
    if len(found) == len(spec.ragged):
        arrays = {array for one in found for array in one.arrays}
        walk = spec.loops.walk
        of_walk = (walk.list, walk.count, walk.full, walk.order) if walk else ()
        arrays |= set(filter(None, of_walk))
        _check_integers(spec, scope, arrays, index)
    if spec.ragged:
        _check_loops(spec, scope)
    return tuple(found)


def unpacked(spec: SpecFile, ragged: tuple[Ragged, ...]) -> tuple[SpecFile, Shapes]:
    """``spec`` with the shapes that packed tensors, and those of pages, stand for, and the shapes
    that they are passed in.
    """
    if not any(one.packed or one.pages for one in ragged):
        return spec, {}
    stored: dict[str, tuple[str, ...]] = {}
    arguments: dict[str, Argument] = {}
    for name, argument in spec.arguments.items():
        one = next((r for r in ragged if {r.packed, r.pages} & {*argument.shape}), None)
        if one is None:
            arguments[name] = argument
            continue
        stored[name] = tuple(argument.shape)
        means = {one.packed: [one.of, one.extent], one.pages: [one.of], one.page: [one.extent]}
        shape = [name for extent in argument.shape for name in means.get(extent, [extent])]
        tiled = argument.tiled or argument.shape[-2:]
        tiled = [means.get(extent, [extent])[-1] for extent in tiled]
        arguments[name] = argument.model_copy(update={"shape": shape, "tiled": tiled})
    return spec.model_copy(update={"arguments": arguments}), stored


class _Entry:
    """One ragged extent."""

    def __init__(
        self,
        spec: SpecFile,
        scope: Scope,
        extent: str,
        entry: RaggedExtent,
        index: Collection[str],
    ) -> None:
        self.spec, self.scope, self.extent, self.entry = spec, scope, extent, entry
        self.index = index
        self.path: Path = ("ragged", extent)
        self.pages = Pages(spec, scope, extent, entry)

    def bound(self) -> Ragged:
        entry = self.entry
        bounds = self.spec.arguments[entry.starts].shape[0] if entry.starts else ""
        one = Ragged(
            self.extent,
            entry.of,
            starts=entry.starts or "",
            ends=entry.ends or "",
            bounds=bounds,
            packed=entry.packed or "",
            lengths=entry.lengths or "",
        )
        return self.pages.of(one)

    def check(self) -> None:
        entry = self.entry
        arrays_of = self._given
        if len(arrays_of) != 1:
            arrays = "two arrays" if arrays_of else "no array"
            message = f"'{self.extent}' has {arrays} of sizes"
            fix = "give one of 'starts', 'ends' and 'lengths'"
            self._error("bad-ragged", message, (), fix=fix)
            return
        if (arrays_of == ["lengths"]) != (entry.packed is None):
            given, other = ("packed", "starts") if entry.packed else (arrays_of[0], "packed")
            fix = (
                "name the extent that is packed and the array of starts or ends, or only 'lengths'"
            )
            self._error("bad-ragged", f"there is '{given}', but no '{other}'", (), fix=fix)
            return
        self._check_array()
        if entry.packed is not None:
            self._check_packed(entry.packed)
        if self.pages.check():
            self._check_extents()

    @property
    def _given(self) -> list[str]:
        """The keys with an array of sizes."""
        return [key for key in _ARRAYS if getattr(self.entry, key) is not None]

    def _check_array(self) -> None:
        """The array is an argument of integers with one extent."""
        (key,) = self._given
        name: str = getattr(self.entry, key)
        argument = self.spec.arguments.get(name)
        if argument is None:
            fix = suggest(name, self.spec.arguments) or "declare it under 'arguments'"
            message = f"'{name}' is not an argument of this kernel"
            self._error("unknown-argument", message, (key,), fix=fix)
            return
        dtype = self.scope.value(argument.dtype, ("arguments", name, "dtype"))
        if dtype is not None and dtype not in INTEGERS:
            message, fix = f"'{name}' is {dtype}, but sizes are integers", "make it i32"
            self._error("dtype-mismatch", message, (key,), fix=fix)
        wanted = "one extent" if self.entry.starts else f"[{self.entry.of}]"
        fits = len(argument.shape) == 1 and (
            argument.shape[0] not in {self.entry.of, self.extent, self.entry.packed}
            if self.entry.starts
            else argument.shape[0] == self.entry.of
        )
        if not fits:
            message = f"'{name}' has shape [{', '.join(argument.shape)}], not {wanted}"
            fix = f"give it the shape [{self.entry.of}]"
            if self.entry.starts:
                message += f" of its own, which is one more than '{self.entry.of}'"
                fix = "give it the shape [bounds]"
            self._error("bad-ragged", message, (key,), fix=fix)

    def _check_packed(self, packed: str) -> None:
        shapes = {name: argument.shape for name, argument in self.spec.arguments.items()}
        holders = [name for name, shape in shapes.items() if packed in shape]
        if not holders:
            known = dict.fromkeys(extent for shape in shapes.values() for extent in shape)
            fix = suggest(packed, known) or "name an extent of the tensors that are packed"
            message = f"no argument has the extent '{packed}'"
            self._error("unknown-extent", message, ("packed",), fix=fix)
        others = [name for name, one in self.spec.ragged.items() if one.packed == packed]
        if len(others) > 1 and others[0] != self.extent:
            message = f"'{packed}' already holds the elements of '{others[0]}'"
            fix = "give tensors of other lengths another extent"
            self._error("bad-ragged", message, ("packed",), fix=fix)
        for name in holders:
            shape = shapes[name]
            if self.entry.of in shape or self.extent in shape:
                both = self.entry.of if self.entry.of in shape else self.extent
                message = f"'{name}' is packed along '{packed}', and has the extent '{both}', too"
                self._error("bad-ragged", message, ("packed",), fix=f"leave '{both}' out of it")
            elif shape[-1] == packed and name not in self.index:
                message = f"'{packed}' is the last extent of '{name}', where no copy can begin"
                fix = f"give '{name}' room for the largest: [..., {self.entry.of}, {self.extent}]"
                self._error("bad-ragged", message, ("packed",), fix=fix)

    def _check_extents(self) -> None:
        """Output tiles are cut along ``of``, one element each; sizes differ along nothing else."""
        of, stored = self.entry.of, {store.to for store in self.spec.stores}
        packed = {one.packed: name for name, one in self.spec.ragged.items() if one.packed}
        for name in sorted(stored):
            argument = self.spec.arguments[name]
            inside = {packed.get(extent, extent) for extent in argument.shape}
            ofs = {self.spec.ragged[e].of for e in inside if e in self.spec.ragged}
            tiled = argument.tiled or argument.shape[-2:]
            if of in tiled or of not in inside | ofs:
                message = f"output tiles are not one element along '{of}': see '{name}'"
                fix = f"give '{name}' the extent '{of}' outside of 'tiled', or pack it"
                self._error("bad-ragged", message, ("of",), fix=fix)
                return
        if of == self.extent or of in self.spec.ragged:
            message, fix = f"'{of}' is ragged itself", "let sizes differ along a plain extent"
            self._error("bad-ragged", message, ("of",), fix=fix)
        others = [one.of for one in self.spec.ragged.values() if one.of != of]
        if others and next(iter(self.spec.ragged)) != self.extent:
            message = f"sizes differ along '{of}', and along '{others[0]}'"
            fix = f"let all of them differ along '{others[0]}'"
            self._error("bad-ragged", message, ("of",), fix=fix)
        room = any(self.extent in argument.shape for argument in self.spec.arguments.values())
        if self.entry.lengths and not (room or self.pages.size or self._is_named()):
            message = (
                f"no argument has the extent '{self.extent}', and no formula of loops names it"
            )
            self._error("unknown-extent", message, (), fix="name an extent of the tensors")

    def _is_named(self) -> bool:
        """Whether a formula says with it which iterations an output tile has."""
        loops = self.spec.loops
        keys = {"tile_trips": loops.tile_trips, "tile_first": loops.tile_first}
        for key, text in (keys | {"tile_when": loops.tile_when}).items():
            found = None if text is None else self.scope.expression(text, ("loops", key))
            if found is not None and self.extent in {name.name for name in references(found)}:
                return True
        return False

    def _error(self, rule: str, message: str, keys: tuple[str, ...], *, fix: str) -> None:
        self.scope.error(rule, message, (*self.path, *keys), key=not keys, fix=fix)


def _check_loops(spec: SpecFile, scope: Scope) -> None:
    """What counts tiles or iterations as if all sizes were the same."""
    if spec.loops.tiles == "lower_triangle":
        message = "the triangle of output tiles is one of equal sizes"
        fix = "compute all tiles, or remove 'ragged'"
        scope.error("bad-ragged", message, ("loops", "tiles"), fix=fix)
    if spec.loops.split_k is not None and spec.loops.tile_first is None:
        message = "tiles share the iterations of the main loop, whose number is data"
        fix = "remove 'split_k', or say with 'tile_first' and 'tile_trips' which each one takes"
        scope.error("bad-ragged", message, ("loops", "split_k"), fix=fix)


def _check_integers(spec: SpecFile, scope: Scope, arrays: set[str], index: Collection[str]) -> None:
    """Tensors of integers say sizes, which blocks are walked, which rows are gathered, whose turn
    it is to add, or how many tiles there are.
    """
    index = {*index, *(store.ordered or "" for store in spec.stores), spec.loops.tells or ""}
    index |= set() if spec.loops.follows is None else {spec.loops.follows.words}
    for name, argument in spec.arguments.items():
        if argument.dtype in INTEGERS and argument.shape and name not in (*arrays, *index):
            message = f"'{name}' has integers, but says no sizes"
            fix = "name it under 'ragged', in 'walk', 'tells' or 'follows' of loops, as 'index' of "
            fix += "a gather or 'ordered' of a store, or make it f32 or a scalar"
            scope.error("bad-ragged", message, ("arguments", name, "dtype"), fix=fix)
    for phase, number, entry in _loads(spec):
        if entry.source in arrays:
            message = f"'{entry.source}' says sizes, and is no tensor that tiles are loaded from"
            path = ("operations", phase, number, "from")
            scope.error("bad-ragged", message, path, fix="load another argument")


def _loads(spec: SpecFile) -> Iterator[tuple[str, int, Load]]:
    for phase in ("before", "body", "after"):
        for number, entry in enumerate(getattr(spec.operations, phase)):
            if isinstance(entry, Load):
                yield phase, number, entry
