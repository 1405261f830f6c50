"""tcgen05.mma: decoding (PTX ISA 9.7.16.10.9); `tcgen05_product` executes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.in_flight import flight
from schedgen.emulator.instructions.operands import address
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tcgen05_operands import Claim, blocks_of, group_of
from schedgen.emulator.instructions.tcgen05_product import Operands, Product
from schedgen.emulator.instructions.tma_operands import lanes_of
from schedgen.emulator.layouts.descriptors import (
    Matrix,
    MatrixDescriptor,
    decode_tcgen05,
    matrix_of,
)
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.product_descriptor import KINDS, ProductDescriptor, decode_product
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.layouts.tensor_memory import DataPath, check_window, data_path, window_lanes
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.lanes import Decoder, Read, error
from schedgen.emulator.machine.switches import ProductSteps
from schedgen.emulator.ptx.tree import Address, Immediate, Instruction, Operand, Vector

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_SCALES = {
    ("mxf8f6f4", ""): 1,
    ("mxf8f6f4", "scale_vec::1X"): 1,
    ("mxf8f6f4", "block32"): 1,
    ("mxf4", ""): 2,
    ("mxf4", "scale_vec::2X"): 2,
    ("mxf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::2X"): 2,
    ("mxf4nvf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::4X"): 4,
    ("mxf4nvf4", "block16"): 4,
}
"""(kind, .scale_vectorsize) -> scale factors per row (Tables 56 and 57)."""
_SUB_COLUMN = 3 << 30
"""Bits of a scale factor's address in which CUTLASS keeps its byte within the column, to copy them
to the instruction descriptor (``include/cute/arch/mma_sm100_desc.hpp``); no lane needs them."""
_KEPT = 4096
"""Operands that are remembered."""
_COLLECTORS = ("fill", "use", "lastuse", "discard")
_BUFFERS = ("a", "b0", "b1", "b2", "b3")


@dataclass(frozen=True, slots=True)
class _Form:
    """What modifiers and kinds of operands say."""

    kind: str
    group: int
    stationary: bool
    factors: int
    """Scale factors per row, 0 without block scales."""
    a_in_tensor: bool
    scale_d: int
    strict: bool


class _Reads:
    """The operands of one instruction."""

    def __init__(self, form: Form, group: int, stationary: bool, scaled: bool) -> None:
        where, decoder = form.where, form.decoder
        operands = list(form.operands)
        self.d = address(operands.pop(0), decoder, where)
        a = operands.pop(0)
        self.a_in_tensor = isinstance(a, Address)
        self.a = address(a, decoder, where) if self.a_in_tensor else form.source(a, "b64")
        self.b = form.source(operands.pop(0), "b64")
        self.descriptor = form.source(operands.pop(0), "b32")
        self.scales: list[Read] = []
        if scaled:
            self.scales = [address(operands.pop(0), decoder, where) for _ in range(2)]
        self.mask: list[Read] = []
        if operands and isinstance(operands[0], Vector):
            if stationary or scaled or len(operands[0].items) != 4 * group:
                raise form.error(f"disable-output-lane is a vector of {4 * group} registers")
            vector = operands.pop(0)
            assert isinstance(vector, Vector)
            self.mask = [form.source(one, "b32") for one in vector.items]
        if not operands:
            raise form.error("enable-input-d is missing")
        self.keep = decoder.read(operands.pop(0), "pred", where)
        self.scale_d = _last(form, operands, stationary or scaled)


def _last(form: Form, operands: list[Operand], fixed: bool) -> int:
    """scale-input-d, 0 if it is not given."""
    match operands:
        case []:
            return 0
        case [Immediate(int(value))] if not fixed and 0 <= value <= 15:
            return value
        case _:
            what = "zero-column masks are" if fixed else "only scale-input-d of 0 to 15 is"
            raise form.error(f"operand {operands[0]} at the end: {what} not supported here")


@builds("tcgen05.mma")
def _mma(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    form.choose("mma")
    if form.flag("sp"):
        raise form.error("sparse products are not supported")
    stationary = form.flag("ws")
    if form.flag("ashift"):
        raise form.error(".ashift is not supported")
    kind = form.choose(*(f"kind::{one}" for one in KINDS)).removeprefix("kind::")
    _take_collector(form, stationary)
    size = form.choose(*(one for _, one in _SCALES if one), default="")
    scaled = form.flag("block_scale")
    if scaled != kind.startswith("mx") or (scaled and (kind, size) not in _SCALES):
        raise form.error(f"kind::{kind} with .block_scale.{size} does not exist")
    reads = _Reads(form, group, stationary, scaled)
    form.finish(len(instruction.operands))
    if reads.scale_d and kind not in ("f16", "tf32"):
        raise form.error(f"scale-input-d does not exist for kind::{kind}")
    found = _Form(
        kind=kind,
        group=group,
        stationary=stationary,
        factors=_SCALES[kind, size] if scaled else 0,
        a_in_tensor=reads.a_in_tensor,
        scale_d=reads.scale_d,
        # CUTLASS allows fewer N only where A lies in tensor memory; see `product_descriptor`.
        strict=reads.a_in_tensor and environment.switches.product_steps is ProductSteps.STRICT,
    )
    return _step(instruction, found, reads)


def _step(where: Instruction, form: _Form, reads: _Reads) -> Execute:
    known: dict[tuple[object, ...], Operands] = {}

    def decoded(given: tuple[Any, ...]) -> Operands:
        """What is decoded of numbers, which take less time to find than with the form."""
        found = known.get(given)
        if found is None:
            if len(known) >= _KEPT:
                known.clear()
            found = known[given] = _operands(form, *given)
        return found

    def run(warp: Warp) -> None:
        blocks = blocks_of(warp, form.group, where)
        d, a, b, descriptor = reads.d(warp), reads.a(warp), reads.b(warp), reads.descriptor(warp)
        scales = [read(warp) for read in reads.scales]
        mask, keep = [read(warp) for read in reads.mask], reads.keep(warp)
        for lane in lanes_of(warp):
            try:
                operands = decoded(
                    (
                        warp.block.shared.size,
                        descriptor.item(lane),
                        a.item(lane),
                        b.item(lane),
                        d.item(lane),
                        tuple([one.item(lane) for one in scales]),
                        bool(keep.item(lane)),
                        tuple([one.item(lane) for one in mask]),
                    )
                )
                claims = _claims(operands, blocks, where)
            except LayoutError as problem:
                raise error(where, str(problem)) from None
            product = Product(warp, where, operands, blocks, claims)
            flight(warp).products += 1
            warp.machine.operations.issue(product, warp.block.products)

    return run


@lru_cache(maxsize=_KEPT)
def _operands(
    form: _Form,
    size: int,
    descriptor: int,
    a: int,
    b: int,
    d: int,
    scales: tuple[int, ...],
    keep: bool,
    mask: tuple[int, ...],
) -> Operands:
    """Decodes and checks everything that one lane gives; ``size``: of its CTA's shared memory.

    Raises:
        LayoutError: something is not allowed.
    """
    product = decode_product(
        form.kind,
        descriptor,
        group=form.group,
        stationary=form.stationary,
        strict_steps=form.strict,
    )
    path = data_path(form.group, product.m, stationary=form.stationary)
    rows = product.m // form.group
    matrix_a = None
    if form.a_in_tensor:
        _check_tensor_a(product, path)
    else:
        matrix_a = _matrix(size, product, decode_tcgen05(a), rows, product.transpose_a)
    rows_b = product.n // form.group
    matrix_b = _matrix(size, product, decode_tcgen05(b), rows_b, product.transpose_b)
    if form.a_in_tensor and path.name == "F" and a >> 16 != d >> 16:
        raise LayoutError(f"A begins in lane {a >> 16}, D in lane {d >> 16}; they must agree")
    at_d = check_window(path, d, path.width(product.n), "D")
    at_a = _window_a(product, path, a) if form.a_in_tensor else (0, 0)
    return Operands(
        product=product,
        path=path,
        group=form.group,
        d=at_d,
        d_lanes=window_lanes(path, *at_d),
        a=matrix_a,
        a_window=at_a,
        a_lanes=window_lanes(path, *at_a),
        b=matrix_b,
        keep=keep,
        scale_d=form.scale_d,
        mask=mask if any(mask) else (),
        factors=form.factors,
        scales=tuple(taddr & ~_SUB_COLUMN for taddr in scales),
    )


def _check_tensor_a(product: ProductDescriptor, path: DataPath) -> None:
    if product.transpose_a:
        raise LayoutError("A in tensor memory cannot be transposed")
    if path.name in ("E", "G"):
        raise LayoutError(f"A in tensor memory with M = {product.m} and .ws is not supported")


def _window_a(product: ProductDescriptor, path: DataPath, address: int) -> tuple[int, int]:
    """Lane and column of A in tensor memory. In layout B both halves of the lanes hold all."""
    return check_window(path, address, product.k * product.bits // 32, "A")


def _matrix(
    size: int, product: ProductDescriptor, matrix: MatrixDescriptor, rows: int, transposed: bool
) -> Matrix:
    """An operand in shared memory, which has so many bytes."""
    wide = matrix.swizzle is Swizzle.B128_ATOM32
    if transposed and product.bits == 4:
        raise LayoutError(f"kind::{product.kind} has no transposed operands")
    if transposed and wide != (product.bits == 32):
        raise LayoutError(
            "transposed operands of 32 bits, and only they, need the 128-byte swizzle with 32-byte "
            f"atoms; this one has {matrix.swizzle.name} (Table 54)"
        )
    found = matrix_of(matrix, rows, product.k, product.bits, k_major=not transposed)
    last = found.index.item(-1)
    if last + 16 > size:
        raise LayoutError(
            f"the matrix at shared-memory address {matrix.start:#x} ends at {last + 16:#x}, beyond "
            f"the {size:#x} bytes of the CTA"
        )
    return found


def _claims(operands: Operands, blocks: list[Block], where: Instruction) -> list[Claim]:
    product = operands.product
    wanted = [(operands.d[1], operands.path.width(product.n), "D of tcgen05.mma")]
    if operands.a is None:
        width = product.k * product.bits // 32
        wanted.append((operands.a_window[1], width, "A of tcgen05.mma"))
    for taddr, rows in zip(operands.scales, (product.m // operands.group, product.n), strict=False):
        width = -(-rows // (32 * (operands.path.blocks if rows == product.n else 1)))
        wanted.append((taddr & 0xFFFF, width, "a scale factor of tcgen05.mma"))
    return [
        Claim(block, column, width, what, where)
        for block in blocks
        for column, width, what in wanted
    ]


def _take_collector(form: Form, stationary: bool) -> None:
    """Takes ``.collector::…``, which changes no result."""
    buffers = _BUFFERS[1:] if stationary else _BUFFERS[:1]
    for buffer in buffers:
        for use in _COLLECTORS:
            form.flag(f"collector::{buffer}::{use}")
