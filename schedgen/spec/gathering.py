"""Tensors whose rows are taken through an array: what a spec says of them, and tensors as if their
rows lay one behind the other.

A tensor of shape ``[tokens, k]`` that is gathered by an ``index`` of shape ``[rows]`` means
``[rows, k]`` to everything that comes later. Only who passes tensors and the threads that copy know
where the rows are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from schedgen.errors import suggest
from schedgen.operations import Gather, Load, Store
from schedgen.spec.schema import Argument, SpecFile
from schedgen.spec.values import Path, Scope
from schedgen.tensors import INTEGERS


@dataclass(frozen=True, slots=True)
class Gathered:
    """Tensors that are gathered: the array of each, and the shape that it is passed in. ``lists``
    are these arrays, and whatever may be one where a mistake was found.
    """

    index: Mapping[str, str]
    stored: Mapping[str, tuple[str, ...]]
    lists: Collection[str]


def gathered(spec: SpecFile, scope: Scope) -> tuple[SpecFile, Gathered]:
    """``spec`` with the shapes that gathered tensors stand for; mistakes are reported."""
    before = scope.errors
    index: dict[str, str] = {}
    for path, entry in _gathers(spec, scope):
        if _arrays_fit(spec, scope, path, entry) and _alone(spec, scope, path, entry, index):
            index[entry.source] = entry.index
    if scope.errors != before:
        return spec, Gathered({}, {}, [*spec.arguments])
    shapes = {name: tuple(spec.arguments[name].shape) for name in index}
    arguments = {
        name: _as_if(argument, spec.arguments[index[name]]) if name in index else argument
        for name, argument in spec.arguments.items()
    }
    found = Gathered(index, shapes, {*index.values()})
    return spec.model_copy(update={"arguments": arguments}), found


def _as_if(argument: Argument, index: Argument) -> Argument:
    """``argument`` with the extent of ``index`` in place of its first one."""
    first, *others = argument.shape
    (rows,) = index.shape
    tiled = argument.tiled and [rows if extent == first else extent for extent in argument.tiled]
    return argument.model_copy(update={"shape": [rows, *others], "tiled": tiled})


def _gathers(spec: SpecFile, scope: Scope) -> Iterator[tuple[Path, Gather]]:
    for path, entry in _listed(spec):
        if isinstance(entry, Gather) and scope.truth(entry.only, (*path, "only")):
            yield path, entry


def _listed(spec: SpecFile) -> Iterator[tuple[Path, object]]:
    for phase in ("before", "body", "after"):
        for number, entry in enumerate(getattr(spec.operations, phase)):
            yield ("operations", phase, number), entry


def _arrays_fit(spec: SpecFile, scope: Scope, path: Path, entry: Gather) -> bool:
    """Whether there is a tensor with rows, and an array of integers with a number for each."""
    for key, name in (("from", entry.source), ("index", entry.index)):
        if name not in spec.arguments:
            fix = suggest(name, spec.arguments) or "declare it under 'arguments'"
            message = f"'{name}' is not an argument of this kernel"
            scope.error("unknown-argument", message, (*path, key), fix=fix)
            return False
    source, index = spec.arguments[entry.source], spec.arguments[entry.index]
    dtype = scope.value(index.dtype, ("arguments", entry.index, "dtype"))
    if dtype is not None and dtype not in INTEGERS:
        message = f"'{entry.index}' is {dtype}, but numbers of rows are integers"
        scope.error("dtype-mismatch", message, (*path, "index"), fix="make it i32")
        return False
    if len(index.shape) != 1:
        message = f"'{entry.index}' has shape [{', '.join(index.shape)}], not one extent"
        fix = "give it the shape [rows]: the number of a row for each row of what is computed"
        scope.error("bad-gather", message, (*path, "index"), fix=fix)
        return False
    if len(source.shape) < len(("rows", "columns")):
        message = f"'{entry.source}' has shape [{', '.join(source.shape)}], and so no rows"
        scope.error("bad-gather", message, (*path, "from"), fix="gather rows of a matrix")
        return False
    (*_, last), (rows,) = source.shape, index.shape
    if rows in source.shape[1:]:
        message = f"'{rows}' is what '{entry.index}' has rows for, and '{entry.source}' has it, too"
        scope.error("bad-gather", message, (*path, "from"), fix="give one of both another name")
        return False
    if source.tiled and source.tiled[-1] != last:
        message = f"columns of '{entry.source}' do not lie along '{last}', its last extent"
        fix = f"say in 'tiled' of '{entry.source}': [{source.shape[0]}, {last}]"
        scope.error("bad-gather", message, (*path, "from"), fix=fix)
        return False
    return True


def _alone(
    spec: SpecFile, scope: Scope, path: Path, entry: Gather, index: Mapping[str, str]
) -> bool:
    """Whether nobody else takes rows of the tensor where they lie, or through another array."""
    other = index.get(entry.source, entry.index)
    if other != entry.index:
        message = f"'{entry.source}' is gathered by '{other}' already"
        fix = "pass the same tensor as another argument, and gather that"
        scope.error("bad-gather", message, (*path, "index"), fix=fix)
        return False
    if entry.source == entry.index or entry.index in _sizes(spec):
        message = f"'{entry.index}' says something else, and not which rows to take"
        scope.error("bad-gather", message, (*path, "index"), fix="name an array of its own")
        return False
    for where, one in _listed(spec):
        key = "from" if isinstance(one, Load) else "to"
        name = one.source if isinstance(one, Load) else one.to if isinstance(one, Store) else ""
        if name in (entry.source, entry.index):
            what = "is gathered" if name == entry.source else "says which rows to take"
            message = f"'{name}' {what}, and here it is one tensor as it lies"
            fix = "pass it as another argument, too"
            scope.error("bad-gather", message, (*where, key), fix=fix)
            return False
    return True


def _sizes(spec: SpecFile) -> set[str | None]:
    """Arrays of integers that have another meaning."""
    walk = spec.loops.walk
    found = {walk.list, walk.count, walk.full, walk.order} if walk else set[str | None]()
    for one in spec.ragged.values():
        found |= {one.starts, one.ends, one.lengths, one.table}
    return found
