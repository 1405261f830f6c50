"""The schedule of output tiles: what host and device compute together, executed as Python."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from schedgen.codegen.binding import bound
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import integer
from schedgen.codegen.ir import Line, Name, Node, joined
from schedgen.codegen.library import COMMON
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import expression
from schedgen.codegen.source import Source
from schedgen.codegen.tiles import Tiles
from schedgen.expressions import parse
from schedgen.extents import single_extents
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from tests.codegen.dsl import CUTE, library, run
from tests.schedgen.proof.small import program


class Divisor(int):
    """Divides; what the host makes of a number of tiles."""

    @property
    def divisor(self) -> int:
        return int(self)


DSL = SimpleNamespace(**vars(CUTE), fast_divmod_create_divisor_v2=Divisor)


def kernel(spec: str, **settings: str) -> Kernel:
    read = read_spec(spec)
    return bound(bind(read.source, read.file, "h200", settings)[0])


def tiles_of(spec: str, **settings: str) -> Tiles:
    return Tiles(Plan(program({}), kernel(spec, **settings)))


def visited(tiles: Tiles, extents: dict[str, int], *wanted: str) -> list[tuple[int, ...]]:
    """Coordinates, or other variables, of each tile."""
    host, device = Source(), Source()
    tiles.host(host, {})
    tiles.coordinates(device)
    names: dict[str, Any] = {**library(COMMON), **extents, "cute": DSL, "t": 0, "sms": 132}
    known = run(host.text, names)
    found: list[tuple[int, ...]] = []
    for tile in range(known["tiles"]):
        here = run(device.text, {**known, "tile": tile, "placed": tile})
        found.append(tuple(int(here[name]) for name in wanted))
    return found


def of_blocks(tiles: Tiles, extents: dict[str, int], sms: int) -> list[list[int]]:
    """The tiles that each block computes, in its rounds."""
    host, first, after = Source(), Source(), Source()
    tiles.host(host, {})
    tiles.begin(first)
    tiles.loop(after, (), ahead=False)
    library_names: dict[str, Any] = {**library(COMMON), **extents, "cute": DSL, "sms": sms}
    known = run(host.text, library_names)
    blocks = min(known["tiles"], sms)
    found: list[list[int]] = []
    for block in range(blocks):
        here = SimpleNamespace(block_idx=lambda block=block: (block,), grid_dim=lambda: (blocks,))
        known["cute"], mine = SimpleNamespace(**{**vars(DSL), "arch": here}), list[int]()
        loop = after.text.replace("\n", "\n    seen.append(int(placed))\n", 1)
        run(first.text + loop, known | {"seen": mine})
        found.append(mine)
    return found


def _using(source: Source, *names: str) -> tuple[Node, ...]:
    """Lines that use variables."""
    return (*source.nodes, Line(joined("; ", map(Name, names))))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("spec", ["gemm", "gemm_symmetric"])
def test_blocks_take_turns(spec: str, ahead: bool) -> None:
    """Each tile is one block's, whether coordinates are computed for it or for the next one."""
    tiles = tiles_of(spec)
    extents = {"batch": 2, "m": 700, "n": 700, "k": 100}
    wanted = sorted(visited(tiles, extents, "at_batch", "at_m", "at_n"))
    host, first, body, loop = Source(), Source(), Source(), Source()
    tiles.host(host, {})
    taken_over = tiles.first(first)
    body.add("seen.append((int(at_batch), int(at_m), int(at_n)))")
    tiles.loop(loop, _using(body, *taken_over), ahead=ahead)
    found: list[tuple[int, ...]] = []
    for block in range(5):
        here = SimpleNamespace(block_idx=lambda block=block: (block,), grid_dim=lambda: (5,))
        names: dict[str, Any] = {**library(COMMON), **extents, "cute": DSL, "t": 0}
        known = run(host.text, names) | {"seen": found, "trips": 1}
        known["cute"] = SimpleNamespace(**{**vars(DSL), "arch": here})
        kernel_has = run(first.text, known)
        role = {name: kernel_has[name] for name in taken_over} if ahead else {"tile": block}
        run(loop.text, known | role)
    assert sorted(found) == wanted


def test_coordinates_only_where_they_are_used() -> None:
    """A role that multiplies what others load does not ask where its tile lies."""
    tiles, body, loop = tiles_of("gemm"), Source(), Source()
    body.add("multiply(first)")
    tiles.loop(loop, body.nodes, ahead=False)
    assert "at_" not in loop.text
    assert "first = t * trips" in loop.text
    placed = Source()
    tiles.loop(placed, _using(body, "at_m"), ahead=False)
    assert "at_m, at_n = in_bands(" in placed.text


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1000, 300), (128 * 17, 256 * 3), (700, 5000)])
def test_all_tiles_once(m: int, n: int) -> None:
    """Bands do not lose a tile, whatever their height."""
    extents = {"batch": 2, "m": m, "n": n, "k": 100}
    found = visited(tiles_of("gemm"), extents, "at_batch", "at_m", "at_n")
    assert sorted(found) == list(product(range(2), range(-(-m // 128)), range(-(-n // 256))))


def test_bands_share_operands() -> None:
    """Neighbouring tiles are in few rows and columns."""
    extents = {"batch": 1, "m": 128 * 32, "n": 256 * 16, "k": 100}
    found = visited(tiles_of("gemm"), extents, "at_m", "at_n")[:64]
    assert len({row for row, _ in found}) == 8
    assert len({column for _, column in found}) == 8


@pytest.mark.parametrize("m", [1, 128, 1000, 2050])
def test_lower_triangle(m: int) -> None:
    """Tiles that reach to the diagonal or below it, once each."""
    tiles = tiles_of("gemm_symmetric")
    rows, columns = (tiles.plan.block(extent) for extent in tiles.plan.kernel.tile_extents)
    extents = dict.fromkeys(tiles.plan.extents, m) | {"batch": 2}
    names = [f"at_{extent}" for extent in ("batch", *tiles.plan.kernel.tile_extents)]
    wanted = [
        (batch, row, column)
        for batch, row, column in product(range(2), range(-(-m // rows)), range(-(-m // columns)))
        if column * columns < (row + 1) * rows
    ]
    assert sorted(visited(tiles, extents, *names)) == wanted


@pytest.mark.parametrize(("seq_q", "seq_k"), [(1000, 1000), (300, 77), (77, 900)])
def test_iterations_of_causal_tiles(seq_q: int, seq_k: int) -> None:
    """As many as its last row sees, at least 1; at the end, shorter and shorter tiles."""
    made = replace(program({}), arch="sm_90a")
    tiles = Tiles(Plan(made, kernel("attention_fwd", causal="true")))
    extents = {"batch": 1, "heads": 2, "heads_k": 1, "head_dim": 128, "head_dim_v": 128}
    extents |= {"seq_q": seq_q, "seq_k": seq_k}
    found = visited(tiles, extents, "at_heads", "at_seq_q", "trips")
    assert sorted((h, row) for h, row, _ in found) == list(
        product(range(2), range(-(-seq_q // 128)))
    )
    for _, row, trips in found:
        last = min(seq_k, (row + 1) * 128 + seq_k - seq_q)
        assert trips == max(1, -(-last // 128))
    last = [trips for _, _, trips in found[len(found) // 2 :]]
    assert last == sorted(last, reverse=True)


@pytest.mark.parametrize("causal", ["true", "false"])
@pytest.mark.parametrize(
    "first", ["(tile_row * 128 + seq_k - seq_q - 200) // 128", "-1", "max(9, 99, 9)"]
)
def test_iterations_that_are_left_out(causal: str, first: str) -> None:
    """Never all of a tile, and none if there would be less than none of them."""
    made = replace(program({}), arch="sm_90a")
    one = replace(kernel("attention_fwd", causal=causal), tile_first=parse(first))
    if causal == "false":
        one = replace(one, tile_trips=None)
    extents = {"batch": 1, "heads": 2, "heads_k": 1, "head_dim": 128, "head_dim_v": 128}
    extents |= {"seq_q": 700, "seq_k": 900}
    found = visited(Tiles(Plan(made, one)), extents, "at_seq_q", "skipped", "trips")
    assert {row for row, _, _ in found} == set(range(6))
    for row, skipped, trips in found:
        end = 8 if causal == "false" else min(8, -(-((row + 1) * 128 + 200) // 128))
        formula = {"-1": -1, "max(9, 99, 9)": 99}.get(first, row * 128 // 128)
        assert (skipped, skipped + trips) == (min(max(formula, 0), end - 1), end)


@pytest.mark.parametrize(
    ("heads", "heads_k", "seq_k", "group"),
    [
        (16, 16, 4096, 16),  # 2 MiB of keys and values for a head: all fit
        (16, 16, 16384, 4),
        (12, 12, 16384, 4),
        (7, 7, 16384, 1),  # no divisor but 1
        (16, 4, 16384, 16),  # four heads read the same
        (4, 4, 1 << 20, 1),
        (4, 4, 1, 4),
    ],
)
def test_heads_that_share_l2(heads: int, heads_k: int, seq_k: int, group: int) -> None:
    """Tiles of a group of heads follow each other, row by row; each tile is there once."""
    made = replace(program({}), arch="sm_90a")
    tiles = Tiles(Plan(made, kernel("attention_fwd")))
    extents = {"batch": 2, "heads": heads, "heads_k": heads_k, "head_dim": 128, "head_dim_v": 128}
    found = visited(
        tiles, extents | {"seq_q": 300, "seq_k": seq_k}, "at_batch", "at_heads", "at_seq_q"
    )
    assert sorted(found) == list(product(range(2), range(heads), range(3)))
    size = 3 * group
    for first in range(0, len(found), size):
        part = found[first : first + size]
        assert len({batch for batch, _, _ in part}) == 1
        assert len({head for _, head, _ in part}) == group
        assert [row for _, _, row in part] == sorted(row for _, _, row in part)


@pytest.mark.parametrize(("ordered", "group"), [("false", 4), ("true", 8)])
def test_what_is_added_to_lies_in_l2_as_well(ordered: str, group: int) -> None:
    """Of 8192 queries of a head there are 2 MiB each of q and do, and 4 of their sums. Tiles that
    are not fixed do not count these.
    """
    made = replace(program({}), arch="sm_90a")
    tiles = Tiles(Plan(made, kernel("attention_bwd", ordered=ordered)))
    extents = {"batch": 1, "heads": 16, "heads_k": 16, "head_dim": 128, "head_dim_v": 128}
    found = visited(tiles, extents | {"seq_q": 8192, "seq_k": 256}, "at_heads", "at_seq_k")
    assert sorted(found) == list(product(range(16), range(2)))
    assert len({head for head, _ in found[: 2 * group]}) == group


def test_tiles_that_wait_for_one_word_follow_each_other() -> None:
    extents = {"batch": 2, "heads": 3, "seq_q": 200, "head_dim": 128}
    axes = "at_batch", "at_heads", "at_seq_q"
    following = visited(tiles_of("attention_bwd_convert", follows="true"), extents, *axes)
    assert following == list(product(range(2), range(3), range(4)))
    assert sorted(visited(tiles_of("attention_bwd_convert"), extents, *axes)) == following


@pytest.mark.medium
@pytest.mark.parametrize(
    ("batch", "seq", "heads", "worst"),
    [
        (8, 2048, 16, 1.04),
        (4, 4096, 16, 1.01),
        (1, 16384, 16, 1.01),  # keys and values of four heads fit in L2
        (1, 2048, 16, 1.04),
        (3, 4096, 16, 1.01),  # two slices of each batch
        (16, 1024, 16, 1.04),
        (1, 8192, 7, 1.08),  # heads cannot be halved: one slice
        (16, 1024, 8, 1.08),  # a round is nearly two slices: 1.6 if blocks kept their places
        (8, 2048, 4, 1.08),  # 1.8
        (16, 512, 16, 1.09),  # 1.5
        (1, 8192, 5, 1.16),  # 1.4
    ],
)
def test_blocks_have_the_same_work(batch: int, seq: int, heads: int, worst: float) -> None:
    """Iterations of the block that has the most of them over those of all, on 132 SMs; were rows
    gone through in the same direction in all slices, it would be up to 1.4.
    """
    made = replace(program({}), arch="sm_90a")
    tiles = Tiles(Plan(made, kernel("attention_fwd", causal="true")))
    extents = {"batch": batch, "heads": heads, "heads_k": heads, "head_dim": 128, "head_dim_v": 128}
    found = visited(
        *(tiles, extents | {"seq_q": seq, "seq_k": seq}),
        *("at_batch", "at_heads", "at_seq_q", "trips"),
    )
    rows = -(-seq // 128)
    assert sorted(place for *place, _ in found) == [
        list(place) for place in product(range(batch), range(heads), range(rows))
    ]
    rounds = of_blocks(tiles, extents | {"seq_q": seq, "seq_k": seq}, 132)
    assert sorted(tile for mine in rounds for tile in mine) == list(range(len(found)))
    work = [sum(found[tile][-1] for tile in mine) for mine in rounds]
    assert max(work) * 132 / sum(work) < worst


def test_tiles_of_products_are_not_grouped() -> None:
    """They lie in bands."""
    assert tiles_of("attention_fwd", causal="true").grouped
    assert not tiles_of("gemm").grouped


def test_extents_within_a_tile() -> None:
    """The width of a head and the inner extent of the first product have one tile."""
    assert {"head_dim", "head_dim_v"} <= single_extents(kernel("attention_fwd"))
    assert single_extents(kernel("gemm_chain")) == {"depth"}
    assert single_extents(kernel("gemm")) == set()


def test_tiles_of_different_sizes() -> None:
    """Loads and stores do not agree where the next output tile begins."""
    broken = replace(kernel("gemm"), grid=())
    with pytest.raises(EmitError, match=r"disagree about how far output tiles are apart"):
        Tiles(Plan(program({}), broken))


def test_condition_of_a_store() -> None:
    rows, columns = tiles_of("gemm_symmetric").plan.kernel.tile_extents
    found = tiles_of("gemm_symmetric").condition_of(parse("tile_row != tile_column + 1"))
    assert set(found.values) == {Name(f"at_{rows}"), Name(f"at_{columns}")}
    assert expression(found) == f"(at_{rows} != (at_{columns} + 1))"


def test_number_without_emitter() -> None:
    with pytest.raises(EmitError, match=r"no emitter for the number 'm / 2'|no emitter"):
        integer(parse("m / 2"))
