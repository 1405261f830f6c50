"""What no emitter can write: found for all of a kernel before any of it is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from schedgen.codegen.errors import EmitError
from schedgen.codegen.plan import SWIZZLED_ROWS, Part, Plan, View
from schedgen.codegen.small_tiles import is_small
from schedgen.kernel import Kernel, Kind, Operation, Region, Space
from schedgen.layouts import BULK_BYTES, DTYPE_BITS

_DTYPES = ("bf16", "fp16", "f32", "e4m3", "e5m2", "e8m0", "e2m1x2", "i8", "i4x2")
_MULTIPLIED = ("bf16", "fp16", "e4m3", "e5m2", "e2m1x2")
_STEP_BYTES = 32
"""Bytes of a row of the left operand that one instruction multiplies."""


@dataclass(frozen=True, slots=True)
class Products:
    """What an architecture's instruction multiplies.

    Attributes:
        rows: of its left operand and its result.
        column_step, most_columns: columns of the result: multiples of the one, up to the other.
        left: memory spaces of the left operand.
        result: memory space of the result.
        bytes_along_k: whether operands of 8 bits have to lie along k.
        factors: whether threads can convert numbers to factors of blocks, e8m0.
    """

    instruction: str
    rows: int
    column_step: int
    most_columns: int
    left: tuple[Space, ...]
    result: Space
    bytes_along_k: bool = False
    factors: bool = False


def refusals(plan: Plan, products: Products) -> list[EmitError]:
    """Everything in a kernel that there is no emitter for; what an operation of the spec is refused
    for is listed once, for its first instance.
    """
    found: dict[tuple[tuple[str, str] | None, str], EmitError] = {}
    for error in _all(plan, products):
        found.setdefault((error.subject, error.rule), error)
    return list(found.values())


def misfit(kernel: Kernel, products: Products) -> str | None:
    """A product whose sizes the instruction does not have, as far as a kernel says without a
    program; None if all of them may fit.
    """
    for operation in (o for o in kernel.operations if o.kind is Kind.MMA):
        work = operation.work
        if work.m != products.rows:
            return f"{products.instruction} multiplies {products.rows} rows, not {work.m}"
        if work.n % products.column_step or work.n > products.most_columns:
            return f"{products.instruction} has no products with {work.n} columns"
        if work.k * work.element_bytes % _STEP_BYTES:
            return f"{products.instruction} has no products that are {work.k} long"
    return None


def _all(plan: Plan, products: Products) -> Iterator[EmitError]:
    unknown = list(_dtypes(plan.kernel))
    yield from unknown
    if unknown:
        return
    for region in plan.kernel.regions:
        if region.name in plan.views:
            yield from _view(region, plan.views[region.name])
    for operation in plan.kernel.operations:
        try:
            if operation.kind is Kind.MMA:
                yield from _product(plan, products, operation)
            elif operation.kind in (Kind.LOAD, Kind.STORE):
                yield from _copy(plan, operation)
            elif operation.kind is Kind.MAP and not products.factors:
                yield from _factors(plan, operation)
        except EmitError as error:
            yield error


def _dtypes(kernel: Kernel) -> Iterator[EmitError]:
    for region in kernel.regions:
        if region.dtype not in _DTYPES:
            yield EmitError(
                f"'{region.base}': there is no emitter for elements of {region.dtype}",
                region,
                rule="no-emitter-for-dtype",
                fix=f"use {', '.join(_DTYPES)}; with {region.dtype} a kernel can be scheduled and "
                "proven, but not emitted",
            )


def _view(region: Region, view: View) -> Iterator[EmitError]:
    """A tile in shared memory is made of panels whose rows are swizzled together."""
    if len(region.shape) == 2 and region.shape[1] == 1 < region.rows:
        yield EmitError(
            f"'{region.base}': a tile of one column",
            region,
            rule="tile-of-one-column",
            fix=f"make its shape [{region.rows}]: a value per row",
        )
    elif not view.vector and view.row_bytes % BULK_BYTES:
        yield EmitError(
            f"'{region.base}': rows of {view.row_bytes} bytes in shared memory are no multiple of "
            f"{BULK_BYTES} bytes",
            region,
            rule="bytes-of-row",
            fix=f"make columns a multiple of {BULK_BYTES * 8 // DTYPE_BITS[region.dtype]}",
        )
    elif not view.vector:
        repeat = SWIZZLED_ROWS * view.panel * DTYPE_BITS[view.dtype] // 8
        apart = view.stride if view.slots > 1 else 0
        alike = apart == view.rows * view.row_bytes
        if view.address % repeat or (apart % repeat and not alike):
            yield EmitError(
                f"'{region.base}': {view.rows} x {view.columns} elements of {view.dtype} do not "
                f"fill blocks of {repeat} bytes that are swizzled together",
                region,
                rule="swizzled-blocks",
                fix="make rows * columns a multiple of 1024 bytes",
            )


def _product(plan: Plan, products: Products, operation: Operation) -> Iterator[EmitError]:
    name, which = operation.name, products.instruction
    a, b, d = (plan.part(operation, operand) for operand in "abd")
    rows, depth = (a.columns, a.rows) if operation.transpose_a else (a.rows, a.columns)
    columns = b.rows if operation.transpose_b else b.columns
    if a.region.dtype != b.region.dtype or a.region.dtype not in _MULTIPLIED:
        yield EmitError(
            f"{name}: there is no emitter for products of {a.region.dtype} and {b.region.dtype}",
            operation,
            rule="no-emitter-for-dtype",
            fix=f"convert operands to {' or '.join(_MULTIPLIED)} with a map",
        )
        return
    rows = rows if rows != products.rows else d.rows
    if rows != products.rows:
        yield EmitError(
            f"{name}: {which} multiplies {products.rows} rows, not {rows}",
            operation,
            rule="rows-of-product",
            fix=f"split rows over a dimension of {products.rows} rows each ('split: {{rows: band}}'"
            " and 'over: [band]', docs/faq.md)"
            if rows > products.rows
            else f"make it {products.rows} rows; those beyond a tensor's end are zero",
        )
    if columns != d.columns:
        yield EmitError(
            f"{name}: the product has {columns} columns, its result {d.columns}",
            operation,
            rule="columns-of-product",
            fix="multiply tiles whose sizes fit",
        )
    elif columns % products.column_step or columns > products.most_columns:
        yield EmitError(
            f"{name}: {which} has no products with {columns} columns",
            operation,
            rule="columns-of-product",
            fix=f"make it a multiple of {products.column_step} up to {products.most_columns}",
        )
    if depth * DTYPE_BITS[a.region.dtype] // 8 % _STEP_BYTES:
        step = _STEP_BYTES * 8 // DTYPE_BITS[a.region.dtype]
        side = "rows" if operation.transpose_a else "columns"
        yield EmitError(
            f"{name}: {which} adds up products of {step} elements, and {depth} are no multiple",
            operation,
            rule="depth-of-product",
            fix=f"make the {side} of '{a.region.base}' a multiple of {step}",
        )
    if products.bytes_along_k and DTYPE_BITS[b.region.dtype] == 8:
        yield from _along_k(which, operation, a, b)
    yield from _places_of_product(products, operation, a, b, d)


def _factors(plan: Plan, operation: Operation) -> Iterator[EmitError]:
    """Formulas whose values would be converted to factors."""
    for output, _ in operation.formulas:
        if plan.part(operation, output).region.dtype == "e8m0":
            yield EmitError(
                f"{operation.name}: '{plan.part(operation, output).region.base}' is e8m0, to which "
                "this architecture converts nothing",
                operation,
                rule="no-emitter-for-dtype",
                fix="make it f32, or choose a target for sm_100a",
            )


def _along_k(which: str, operation: Operation, a: Part, b: Part) -> Iterator[EmitError]:
    """Operands of 8 bits whose rows do not lie along k, for an instruction that knows no others."""
    turned = (
        (operation.transpose_a, a, "rows", "left operand of [m, k]", "without 'transpose_a'"),
        (
            not operation.transpose_b,
            *(b, "columns", "right operand of [n, k]", "with 'transpose_b: true'"),
        ),
    )
    for wrong, part, side, other, how in turned:
        if wrong:
            yield EmitError(
                f"{operation.name}: {which} reads operands of 8 bits along k, and the rows of "
                f"'{part.region.base}' lie along the result's {side}",
                operation,
                rule="order-of-operand",
                fix=f"load a {other}, and multiply {how}",
            )


def _places_of_product(
    products: Products, operation: Operation, a: Part, b: Part, d: Part
) -> Iterator[EmitError]:
    name, which = operation.name, products.instruction
    wanted = ((a, products.left), (b, (Space.SMEM,)), (d, (products.result,)))
    for part, spaces in wanted:
        if part.region.space not in spaces:
            yield EmitError(
                f"{name}: '{part.region.base}' is in {part.region.space.value}, where {which} has "
                "no such operand",
                operation,
                rule="space-of-operand",
                fix=f"put it into {' or '.join(space.value for space in spaces)}",
            )
    if d.region.dtype != "f32":
        yield EmitError(
            f"{name}: results are f32, '{d.region.base}' is {d.region.dtype}",
            operation,
            rule="no-emitter-for-dtype",
            fix=f"make '{d.region.base}' f32, and convert it with a map",
        )


def _copy(plan: Plan, operation: Operation) -> Iterator[EmitError]:
    """Of a bulk tensor copy."""
    part = plan.part(operation, "from" if operation.kind is Kind.STORE else "to")
    view, base = plan.views[part.region.name], part.region.base
    bits = DTYPE_BITS[part.region.dtype]
    whole = part.rows * part.columns == prod(part.region.shape)
    small = operation.kind is Kind.LOAD and whole and is_small(plan.kernel, part.region)
    if view.vector and not small and part.rows * part.columns * bits // 8 % BULK_BYTES:
        yield EmitError(
            f"{operation.name}: a copy of {part.rows * part.columns * bits // 8} bytes",
            operation,
            rule="bytes-of-copy",
            fix=f"make '{base}' a multiple of {BULK_BYTES * 8 // bits} elements",
        )
    elif not view.vector and part.columns != view.columns and part.columns % view.panel:
        # a tensor map's box has the swizzling of its own width
        yield EmitError(
            f"{operation.name}: a copy moves {part.columns} columns of '{base}', whose panels of "
            f"{view.panel} columns are swizzled as a whole",
            operation,
            rule="copy-of-part",
            fix=f"split '{base}' into multiples of {view.panel} columns, or use 'per' instead of "
            "'split', so that each part is a buffer of its own",
        )
