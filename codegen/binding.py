"""A kernel as the emitter wants it: parameters as the numbers that they are, and names of arguments
and extents that mean nothing else in generated files.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from schedgen.codegen.errors import EmitError
from schedgen.codegen.names import element_name, renamed, renamed_tensor
from schedgen.elements import elements, tile_numbers
from schedgen.expressions import Boolean, Expression, Name, Number, evaluate, fold, parse
from schedgen.kernel import Kernel, Operation
from schedgen.tensors import PARTLY, Argument, Ragged, Walk, tile_number

Values = dict[str, Expression]


_COORDINATES = ("row", "column", "tile_row", "tile_column", PARTLY)


def bound(kernel: Kernel) -> Kernel:
    """The kernel with its parameters replaced, but for those that extents of tensors override.

    Raises:
        EmitError: an argument or extent has the name of a coordinate.
    """
    extents = {extent for argument in kernel.arguments for extent in argument.shape}
    extents |= {one.extent for one in kernel.ragged}
    values = {n: _literal(text) for n, text in kernel.parameters if n not in extents}
    names = {*extents, *(argument.name for argument in kernel.arguments if not argument.shape)}
    for name in sorted(names & set(_COORDINATES)):
        raise EmitError(
            f"'{name}' is an extent or a scalar, but in formulas it says where an element or a "
            "tile lies",
            rule="name-clash",
            fix="give it another name",
        )
    values |= {name: Name(renamed(name)) for name in names}
    numbers = tile_numbers(kernel).items()
    values |= {
        name: Name(tile_number(renamed(x))) for name, x in numbers if name not in _COORDINATES
    }
    values |= {a.name: Name(element_name(renamed_tensor(a.name))) for a in elements(kernel)}
    return replace(
        kernel,
        operations=tuple(_operation(operation, values) for operation in kernel.operations),
        trip_count=None if kernel.trip_count is None else fold(kernel.trip_count, values),
        tile_trips=None if kernel.tile_trips is None else fold(kernel.tile_trips, values),
        tile_first=_first(kernel.tile_first, values),
        tile_when=None if kernel.tile_when is None else fold(kernel.tile_when, values),
        parameters=tuple((renamed(n) if n in extents else n, v) for n, v in kernel.parameters),
        arguments=tuple(
            replace(
                a,
                name=_argument(a),
                shape=tuple(map(renamed, a.shape)),
                stored=tuple(map(renamed, a.stored)),
                index=renamed_tensor(a.index) if a.index else "",
            )
            for a in kernel.arguments
        ),
        ragged=tuple(map(_ragged, kernel.ragged)),
        walk=None if kernel.walk is None else _walk(kernel.walk),
        tells=renamed_tensor(kernel.tells) if kernel.tells else "",
        follows=_follows(kernel.follows, values),
        grid=tuple(replace(axis, extent=renamed(axis.extent)) for axis in kernel.grid),
        tile_extents=_both(kernel.tile_extents),
        split=_one(kernel.split),
        one_tile=tuple(map(renamed, kernel.one_tile)),
    )


def _first(formula: Expression | None, values: Values) -> Expression | None:
    """The first iteration of a tile, if parameters do not say that it is the first of all."""
    found = None if formula is None else fold(formula, values)
    return None if found == Number(Fraction(0)) else found


def _follows(given: tuple[str, Expression] | None, values: Values) -> tuple[str, Expression] | None:
    return None if given is None else (renamed_tensor(given[0]), fold(given[1], values))


def _argument(argument: Argument) -> str:
    return renamed_tensor(argument.name) if argument.shape else renamed(argument.name)


def _ragged(one: Ragged) -> Ragged:
    arrays = {"starts": one.starts, "ends": one.ends, "lengths": one.lengths}
    arrays |= {"table": one.table}
    arrays = {key: renamed_tensor(name) if name else "" for key, name in arrays.items()}
    return Ragged(
        _one(one.extent),
        _one(one.of),
        bounds=_one(one.bounds),
        packed=_one(one.packed),
        most_pages=_one(one.most_pages),
        pages=_one(one.pages),
        page=_one(one.page),
        page_size=one.page_size,
        **arrays,
    )


def _walk(walk: Walk) -> Walk:
    full, order = (renamed_tensor(name) if name else "" for name in (walk.full, walk.order))
    axes = tuple(map(renamed, walk.axes))
    return Walk(renamed_tensor(walk.listed), renamed_tensor(walk.count), axes, full, order)


def _both(extents: tuple[str, str]) -> tuple[str, str]:
    rows, columns = (_one(extent) for extent in extents)
    return rows, columns


def _one(extent: str) -> str:
    return renamed(extent) if extent else ""


def _operation(operation: Operation, values: Values) -> Operation:
    operands = dict(operation.operands)
    known = {name: value for name, value in values.items() if name not in operands}
    formulas = tuple((name, fold(formula, known)) for name, formula in operation.formulas)
    when = None if operation.when is None else fold(operation.when, known)
    places = tuple(
        replace(
            p,
            extent=renamed(p.extent),
            along=_one(p.along),
            split_k=_one(p.split_k),
            counts=_one(p.counts),
        )
        for p in operation.places
    )
    tensor = operation.tensor if operation.tensor is None else renamed_tensor(operation.tensor)
    return replace(operation, formulas=formulas, when=when, places=places, tensor=tensor)


def _literal(text: str) -> Expression:
    expression = parse(text)
    if isinstance(expression, Name):
        return expression
    value = evaluate(expression, {})
    return Boolean(value) if isinstance(value, bool) else Number(Fraction(value))
