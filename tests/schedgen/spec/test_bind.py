"""Binding the shipped specs: names, extents, choices, storage, work and settings."""

from fractions import Fraction

import pytest

from schedgen.driver.binding import kernels_of
from schedgen.errors import SpecError
from schedgen.kernel import OWN_STORAGE, AliasOption, Depth, Kernel, Kind, Phase, Read, Space
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec, shipped_specs


def kernels(name: str, target: str, **settings: str) -> tuple[Kernel, ...]:
    spec = read_spec(name)
    return kernels_of(spec, read_machine(target), settings)


def attention(target: str, **settings: str) -> Kernel:
    return kernels("attention_fwd", target, **settings)[0]


ALL = [(name, target) for name in shipped_specs() for target in read_spec(name).file.targets]


@pytest.mark.parametrize(("name", "target"), ALL)
def test_shipped_specs_bind(name: str, target: str) -> None:
    for kernel in kernels(name, target):
        assert (kernel.target, kernel.name) == (target, name)
        assert len(kernel.operation) == len(kernel.operations)
        assert len(kernel.region) == len(kernel.regions)
        assert len(kernel.piece) == len(kernel.pieces)
        for operation in kernel.operations:
            for piece in (*operation.writes, *(read.piece for read in operation.reads)):
                assert piece in kernel.piece
            assert dict(operation.spaces).keys() == dict(operation.operands).keys()
        for region in kernel.regions:  # the pieces make up the region
            parts = [piece for piece in kernel.pieces if piece.region == region.name]
            assert sum(piece.bytes for piece in parts) == region.slot_bytes


# -- instances ---------------------------------------------------------------------------------


def test_instances_of_one_tile_stand_together() -> None:
    names = [operation.name for operation in attention("b200").body]
    assert names[:3] == ["LK", "LV", "QK[0]"]
    first, second = names[2:15], names[15:]
    assert first[-2:] == ["PV[0,0]", "PV[0,1]"]
    assert [name.replace("[0", "[1") for name in first] == second


def test_over_order_gives_the_index() -> None:
    (kernel,) = kernels("gemm", "h200")
    after = [o.name for o in kernel.operations if o.phase is Phase.AFTER]
    assert after[:4] == ["LC[0]", "EPI[0,0]", "EPI[0,1]", "STD[0]"]
    operation = kernel.operation["EPI[3,1]"]
    assert operation.reads == (Read("acc[1,3]"), Read("sC[3,1]"))
    assert (operation.writes, operation.index) == (("sC[3,1]",), (3, 1))


def test_boundary_operations_are_no_part_of_the_body() -> None:
    kernel = attention("b200")
    assert kernel.operation["MASK[0]"].boundary
    assert "MASK[0]" not in {operation.name for operation in kernel.body}


def test_units_and_roles_take_the_index() -> None:
    (kernel,) = kernels("fa4_unit", "abstract")
    assert {kernel.operation[f"EXP[{n}]"].unit for n in range(2)} == {"Softmax0", "Softmax1"}


def test_accumulation_continues_the_value_of_this_iteration() -> None:
    kernel = attention("b200")
    assert Read("O[0]", 1) in kernel.operation["CR[0]"].reads
    assert Read("O[0]", 0) in kernel.operation["PV[0,0]"].reads
    (gemm,) = kernels("gemm", "b200")
    assert Read("acc[0,3]", 1) in gemm.operation["MMA[0]"].reads


def test_result_of_a_reduction_is_not_read_by_itself() -> None:
    (kernel,) = kernels("fa4_unit", "abstract")
    assert kernel.operation["MAX[0]"].reads == (Read("S[0]"), Read("m[0]", 1))


# -- pieces and regions ------------------------------------------------------------------------


def test_extents_of_parts() -> None:
    piece = attention("b200").piece
    rows = [(piece[name].row0, piece[name].row1) for name in ("sV[0]", "sV[1]")]
    assert rows == [(0, 96), (96, 128)]
    widths = [(piece[name].byte0, piece[name].byte1) for name in ("P[1,0]", "P[1,1]")]
    assert widths == [(0, 192), (192, 256)]
    assert piece["rS[0,1]"].bytes == 128 * 32 * 4


def test_parts_of_size_zero_do_not_exist() -> None:
    kernel = attention("h200")
    assert [p.name for p in kernel.pieces if p.region == "sV"] == ["sV[0]"]
    assert "PV[0,1]" not in kernel.operation


def test_equal_parts() -> None:
    piece = kernels("gemm", "h200")[0].piece
    assert (piece["sA[1]"].row0, piece["sA[1]"].row1) == (64, 128)
    assert (piece["acc[1,3]"].byte0, piece["acc[1,3]"].byte1) == (192 * 4, 256 * 4)


def test_regions() -> None:
    region = attention("b200").region
    assert region["S[1]"].space is Space.TMEM
    assert region["base[0]"].initial == "-100000000000000000"
    assert (region["base[0]"].per_tile, region["alpha[0]"].per_tile) == (True, False)
    assert region["sAlpha[0]"].depth == Depth(1, 1)
    assert attention("h200").region["S[1]"].space is Space.REGISTERS


# -- elided copies -----------------------------------------------------------------------------


def test_copies_between_registers_disappear() -> None:
    kernel = attention("h200")
    assert {gone for _, gone in kernel.elided} == {
        *(f"rS[{n}] is S[{n}]" for n in range(2)),
        *(f"P[{n}] is rP[{n}]" for n in range(2)),
        *(f"sAlpha[{n}] is alpha[{n}]" for n in range(2)),
    }
    bases = {operation.base for operation in kernel.operations}
    assert bases.isdisjoint({"LDS", "STP", "PUB"})
    assert kernel.operation["PV[0,0]"].reads[0] == Read("rP[0,0]")
    assert kernel.operation["MAX[0]"].reads[0] == Read("S[0]")
    assert attention("b200").elided == ()


# -- aliases -----------------------------------------------------------------------------------

OWN = AliasOption("S[0]", 256, 0)
OTHER = (AliasOption("S[1]", 256, 0), AliasOption("S[1]", 256, 1))


@pytest.mark.parametrize(
    ("storage", "options"),
    [
        ("own", (OWN,)),
        ("other", OTHER),
        ("auto", (OWN, *OTHER, OWN_STORAGE)),
        ("none", (OWN_STORAGE,)),
    ],
)
def test_alias_options(storage: str, options: tuple[AliasOption, ...]) -> None:
    assert attention("b200", p_storage=storage).region["P[0]"].options == options


def test_two_guests_of_one_host() -> None:
    """P at the end of the rows of S, dS at their front."""
    (kernel,) = kernels("attention_bwd", "b200", head_dim="128")
    assert kernel.region["P"].options[0] == AliasOption("S", 256, 0)
    assert kernel.region["dS"].options[1:3] == (AliasOption("S"), AliasOption("S", 256))


def test_one_instance_is_replicated_like_none() -> None:
    """On b200 there is one dP, one band of it that is, and one half of dQ."""
    (kernel,) = kernels("attention_bwd", "b200", head_dim="128")
    assert kernel.region["dS"].options[0] == AliasOption("dP[0]", 256, 0)
    assert [option.host for option in kernel.region["dQ[0,0]"].options] == [None, "dP[0]", "S"]


def test_alias_in_another_space_does_not_apply() -> None:
    kernel = attention("b200", p_storage="own", accumulator="registers", exchange="registers")
    assert all(region.options == (OWN_STORAGE,) for region in kernel.regions)


# -- rings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "lags"), [("auto", ((0, 0), (0, 1))), ("0", ((0, 0),)), ("1", ((0, 1),))]
)
def test_ring_lags(lag: str, lags: tuple[tuple[int, ...], ...]) -> None:
    (ring,) = attention("b200", kv_lag=lag).rings
    assert (ring.regions, ring.lags, ring.depth) == (("sK", "sV"), lags, Depth(1, 8))


def test_ring_depth() -> None:
    assert attention("b200", kv_depth="3").rings[0].depth == Depth(3, 3)
    ring = kernels("gemm", "b200")[0].ring["c_stages"]
    assert (ring.depth, len(ring.regions), ring.lags) == (Depth(4, 8), 8, ((0,) * 8,))
    assert kernels("gemm", "b200")[0].region["sC[3]"].ring == "c_stages"


# -- work --------------------------------------------------------------------------------------


def test_polynomials_take_over_from_mufu() -> None:
    plain = attention("b200", exp2_polynomial="0").operation["EXP[0,0]"].work
    mixed = attention("b200", exp2_polynomial="3/16").operation["EXP[0,0]"].work
    lanes = 128 * 96
    assert (plain.rows, plain.columns, plain.mufu, plain.fma) == (128, 96, lanes, 0)
    assert mixed.mufu == lanes * Fraction(13, 16)
    assert mixed.fma == -(lanes * Fraction(3, 16) * Fraction(149, 20) // -1)
    assert plain.converts == mixed.converts == lanes


def test_work_of_products() -> None:
    operation = attention("b200").operation
    product, second = operation["QK[0]"].work, operation["PV[0,1]"].work
    assert (product.m, product.n, product.k) == (128, 128, 128)
    assert (product.a_bytes, product.b_bytes) == (32768, 32768)
    assert (second.m, second.n, second.k) == (128, 128, 32)
    assert (second.a_bytes, second.b_bytes) == (0, 32 * 128 * 2)  # a is in tensor memory


def test_work_of_transfers_copies_and_reductions() -> None:
    operation = attention("b200").operation
    assert (operation["LK"].work.bytes, operation["LK"].work.row_bytes) == (32768, 256)
    assert operation["LDS[0]"].work.tmem_in == 128
    assert operation["STP[0,1]"].work.tmem_out == 16
    assert operation["PUB[0]"].work.smem_out == 512
    assert operation["MAX[0]"].work.alu == operation["SUM[0]"].work.fma == 128 * 128
    assert operation["MASK[0]"].work.alu == 2 * 128 * 128
    assert operation["MAX[0]"].work.row_steps > 0
    assert (operation["MAX[0]"].work.fma, operation["MAX[0]"].work.mufu) == (0, 0)


# -- orders ------------------------------------------------------------------------------------


def test_orders_stand_for_all_parts() -> None:
    (order,) = attention("b200", product_order="pv_first").orders
    assert order.sequence == (
        *(("PV[0,0]", -1), ("PV[0,1]", -1), ("QK[0]", 0)),
        *(("PV[1,0]", -1), ("PV[1,1]", -1), ("QK[1]", 0)),
    )
    assert attention("b200").orders == ()


def test_orders_of_each_instance_and_through_all() -> None:
    settings = {"tiles": "3", "product_order": "qk_first"}
    through, *each = kernels("attention_fp8", "h200", **settings)[0].orders
    products = [(("QK", 0), ("PV", -1)) for _ in range(3)]
    assert through.sequence == tuple(
        (f"{name}[{at}]", late) for at, pair in enumerate(products) for name, late in pair
    )
    assert [(order.name, order.sequence) for order in each[:3]] == [
        (f"sum_first[{at}]", ((f"SUM[{at}]", 0), (f"CVT[{at}]", 0))) for at in range(3)
    ]
    assert [order.name for order in each[3:]] == [f"scores_first[{at}]" for at in range(3)]


def test_rings_apart() -> None:
    """One for the instances of each warpgroup, which have registers of their own."""
    for head_dim, own in (("128", ("0,0", "0,1")), ("64", ("0,0", "1,0"))):
        (kernel,) = kernels("attention_bwd", "h200", head_dim=head_dim)
        found = {ring.name: (ring.regions, ring.lags) for ring in kernel.rings}
        of_each = {
            f"turns[{n}]": ((f"dP[{n}]", f"dQ[{index}]"), ((0, 0),)) for n, index in enumerate(own)
        }
        assert found == of_each
        assert [kernel.region[f"dQ[{index}]"].ring for index in own] == list(of_each)


def test_a_tile_of_which_columns_are_rows() -> None:
    """Of 80 queries a warpgroup, which has 64 rows, computes its half of the columns as rows."""
    (kernel,) = kernels("attention_bwd", "h200", head_dim="128")
    shapes = [kernel.region[name].shape for name in ("dQ[0,1]", "sDQ[0,1,0]")]
    assert shapes == [(64, 80), (80, 64)]
    (kernel,) = kernels("attention_bwd", "h200", head_dim="128", queries="64")
    shapes = [kernel.region[name].shape for name in ("dQ[0,1]", "sDQ[0,1,0]")]
    assert shapes == [(64, 64), (64, 64)]
    assert kernel.operation["OUT[0,1,0]"].kind == "map"


def test_a_single_tile_covers_no_extent_of_results_that_are_left_out() -> None:
    """But others are mistakes, and each is shown where it stands."""
    (kernel,) = kernels("attention_bwd_kv", "h200", head_dim="256")
    assert kernel.one_tile == ("head_dim",)
    (kernel,) = kernels("attention_bwd_kv", "h200", head_dim="256", of="values")
    assert kernel.one_tile == ("head_dim_v",)
    text = read_spec("attention_bwd_kv").source.text
    text = text.replace("one_tile: [head_dim, head_dim_v]", "one_tile: [head_dim, seq_q]")
    line, shown = next((n, s) for n, s in enumerate(text.splitlines(), 1) if "one_tile" in s)
    with pytest.raises(SpecError, match="'seq_q' is not an extent") as found:
        kernels_of(parse_spec(text), read_machine("h200"), {"head_dim": "256", "of": "values"})
    assert f":{line}:{shown.index('seq_q') + 1}:" in str(found.value)


@pytest.mark.parametrize(("head_dim", "rings"), [("64", []), ("128", ["halves"])])
def test_a_ring_may_be_left_out(head_dim: str, rings: list[str]) -> None:
    """Its buffers have slots of their own then."""
    spec = read_spec("attention_bwd_kv")
    (kernel,) = kernels_of(spec, read_machine("h200"), {"head_dim": head_dim})
    assert [ring.name for ring in kernel.rings] == rings
    of_ring = [region.base for region in kernel.regions if region.ring is not None]
    assert of_ring == ["rP", "rdS"] * len(rings)


def test_parts_lie_as_what_is_computed_with_them_is_split() -> None:
    """Parts of keys are columns of scores and rows of operands; a mask counts them as columns."""
    (kernel,) = kernels("attention_bwd_q", "b200")
    masks = [o for o in kernel.operations if o.kind is Kind.MASK]
    sides = [{place.side: place for place in mask.places} for mask in masks]
    assert [(at["columns"].offset, at["columns"].step) for at in sides] == [(0, 128), (64, 128)]
    assert [(at["rows"].offset, at["rows"].block) for at in sides] == [(0, 128)] * 2


def test_rows_of_values_of_rows() -> None:
    """Where nothing else is stored, `row` counts along the extent along which they lie."""
    kernel = kernels_of(read_spec("attention_varlen_bwd_delta"), read_machine("h200"), {})[0]
    end = next(one for one in kernel.operations if one.base == "END")
    assert (end.places[0].along, end.places[0].block, end.places[1].extent) == ("seq_q", 64, "")
