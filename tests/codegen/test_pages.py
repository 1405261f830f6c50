"""Kernels that find rows through tables of pages, and numbers that are folded into rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from schedgen.codegen.errors import EmitError
from schedgen.driver.emulating import Compiled, compiled, emulate
from schedgen.driver.inputs import compared, default_extents, outputs, random_inputs
from schedgen.emulator.machine.policies import Adversarial
from schedgen.kernel import Kernel
from schedgen.reference.evaluate import evaluate
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of

PAGED = SPECS / "paged.yaml"
EXTENTS = {"m": 140, "rows": 200}
BROKEN = (
    ((200, 150, 64, 300, 10**9), (-1, 2**31 - 1, -(2**31), 0, 10**6)),
    ((-5, 2**31 - 1, -(2**31), 1, 17), (5, 5, 5, -1, 5)),
)
"""Lengths above the room or below 0, and pages that are not there, or are listed twice."""


def test_text() -> None:
    text = text_of(PAGED, "h200")
    assert "rows = length_of(of_lengths, at_batch, most_rows)" in text
    assert "n_rows = n_x_most_pages * 16" in text
    assert "copy_pages(tma_k, g_k, sK[(None, None, " in text
    assert "if n_page != 16:" in text
    assert "part_of_tile(64, 64, 16, BFloat16)" in text
    assert '("k", ("pages", "page", "d"), "bf16"),' in text


@pytest.mark.medium
def test_numbers_are_folded_into_rows() -> None:
    text = text_of("attention_kvcache", "h200")
    assert "within(g_k, 0, at_batch * pitch_k, seq_k)" in text
    assert "pitch_k = Int32(k.stride[0] // cutlass.max(k.stride[1], 1))" in text
    assert "copy_pages(" not in text


def test_pages_that_do_not_fit_tiles_are_refused() -> None:
    with pytest.raises(EmitError, match="a tile of 64 rows, from pages of 20, would be") as caught:
        text_of(PAGED, "h200", page="20")
    assert "'page' be multiples of 8" in str(caught.value)


@pytest.mark.medium
def test_no_copy_lies_in_two_pages() -> None:
    """Tiles of 64 rows are copied by 16 from pages of 48, and by 32 from pages of 96."""
    text = text_of(PAGED, "h200", page="48")
    assert "box = gcd(rows, page)" in text
    assert "part_of_tile(64, 64, 16, BFloat16)" in text
    assert "part_of_tile(64, 64, 32, BFloat16)" in text_of(PAGED, "h200", page="96")


def is_right(
    spec: Path | str, target: str, settings: dict[str, str], extents: dict[str, int], seed: int
) -> None:
    """What a kernel computes in the emulator, under an adversarial schedule, without races."""
    _, kernel = solved(spec, target, **settings)
    text, policy = text_of(spec, target, **settings), Adversarial(seed)
    outcome = emulate(text, kernel, ARCHITECTURES[target], extents=extents, policy=policy)
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("page", ["16", "48", "64", "96", "128"])
def test_products_of_pages(target: str, page: str) -> None:
    """Pages that are a part of a tile, a tile, have several, or parts of tiles. Behind the lengths
    is NaN, and tables name pages that are not there.
    """
    is_right(PAGED, target, {"page": page}, EXTENTS, 1)


def check_broken(
    made: Compiled,
    kernel: Kernel,
    sizes: dict[str, int],
    inputs: dict[str, Any],
    lengths_name: str,
    table_name: str,
) -> None:
    """Results with arrays that break the bounds of lengths and pages are what the spec says."""
    table = torch.as_tensor(inputs[table_name])
    for lengths, pages in BROKEN:
        inputs[lengths_name] = torch.tensor(lengths, dtype=torch.int32)
        listed = [pages[n % len(pages)] for n in range(table.numel())]
        inputs[table_name] = torch.tensor(listed, dtype=torch.int32).view_as(table)
        results = outputs(kernel, sizes)
        made.execute({**inputs, **results})
        numbers = {name: torch.as_tensor(x).double().numpy() for name, x in inputs.items()}
        expected = evaluate(kernel, numbers, sizes)
        for result in compared(kernel, results, expected).values():
            assert result.matches, (lengths, pages)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("page", ["16", "96"])
def test_contents_that_break_the_bounds_are_contained(target: str, page: str) -> None:
    """The emulator ends where anything outside of a tensor is touched. A page that is not there is
    one of zeros.
    """
    _, kernel = solved(PAGED, target, page=page)
    sizes = default_extents(kernel, EXTENTS)
    inputs = random_inputs(kernel, sizes, 0)
    for name in "kv":
        inputs[name] = torch.as_tensor(inputs[name]).nan_to_num(1.0)
    with compiled(text_of(PAGED, target, page=page), kernel, ARCHITECTURES[target]) as made:
        check_broken(made, kernel, sizes, inputs, "lengths", "table")


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize(
    ("settings", "extents"),
    [
        ({}, {}),
        ({"page_size": "16", "causal": "true"}, {}),
        ({"page_size": "64", "window": "true"}, {"window_left": 70, "window_right": 20}),
        ({"page_size": "256", "soft_cap": "true", "alibi": "true", "sinks": "true"}, {}),
    ],
)
def test_attention_over_caches(
    target: str, settings: dict[str, str], extents: dict[str, int]
) -> None:
    """Lengths of 0, 1, 127, 129 and more, with two heads for each of the caches."""
    sizes = {"seq_q": 130, "seq_k": 260, "heads": 2} | extents
    is_right("attention_kvcache", target, settings, sizes, 2)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize(
    ("settings", "extents"),
    [
        ({"page_size": "16", "causal": "true"}, {}),
        ({"page_size": "48", "window": "true"}, {"window_left": 70, "window_right": 20}),
        ({"page_size": "256", "soft_cap": "true", "alibi": "true", "sinks": "true"}, {}),
    ],
)
def test_packed_queries_over_caches(
    target: str, settings: dict[str, str], extents: dict[str, int]
) -> None:
    """Both sides have lengths of 0, 1 and more than a tile."""
    settings = {"head_dim": "64", **settings}
    sizes = {"seq_q": 130, "seq_k": 260, "heads": 2} | extents
    is_right("attention_varlen_kvcache", target, settings, sizes, 6)


SPLITS = {"split": 3, "seq_k": 300, "split_steps": 1, "most_splits": 64, "rows_q": 6, "group": 2}


@pytest.mark.medium
def test_text_of_tiles_that_are_left_out() -> None:
    text = text_of("attention_kvcache_parts", "h200", page_size="16")
    assert "if ((at_split == 0) or (((at_split * cutlass.max(Int32(split_steps), Int32(" in text
    assert text.count("seq_k = length_of(of_cache_seqlens, at_batch, most_seq_k)") >= 3
    text = text_of("attention_kvcache_combine", "h200")
    assert "n_seq_k = Int32(1073741823)" in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize(
    ("settings", "extents"),
    [
        ({}, {"seq_k": 385}),
        ({"page_size": "16", "causal": "true"}, {}),
        ({"page_size": "64", "causal": "true"}, {"most_splits": 2, "seq_k": 700}),
        ({"page_size": "256", "head_dim": "64"}, {"seq_k": 384, "rows_q": 70, "heads_k": 2}),
        ({"page_size": "32", "head_dim": "192"}, {"split_steps": 2}),
    ],
)
def test_splits_of_caches(target: str, settings: dict[str, str], extents: dict[str, int]) -> None:
    """Lengths of 0, 1, 127, 129 and more, so that some splits are behind the end."""
    is_right("attention_kvcache_parts", target, settings, SPLITS | extents, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "extents"),
    [
        ({"head_dim": "64"}, {"seq_k": 385}),
        ({"page_size": "64", "causal": "true"}, {"most_splits": 2, "seq_k": 700}),
        ({"page_size": "32", "head_dim": "96"}, {"split_steps": 2}),
    ],
)
def test_splits_of_caches_in_turn(settings: dict[str, str], extents: dict[str, int]) -> None:
    """Lengths of 0, 1, 127, 129 and more, with up to six splits."""
    sizes = {name: size for name, size in (SPLITS | extents).items() if name != "split"}
    is_right("attention_kvcache_whole", "h200", settings, sizes, 5)


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
@pytest.mark.parametrize("room", [385, 200])
def test_splits_of_lengths_are_combined(target: str, room: int) -> None:
    """Lengths beyond the room count as that."""
    _, kernel = solved("attention_kvcache_combine", target)
    sizes = {n: SPLITS[n] for n in ("split", "split_steps", "most_splits", "rows_q")}
    sizes |= {"seq_k": 385, "room": room, "head_dim_v": 128}
    text, arch = text_of("attention_kvcache_combine", target), ARCHITECTURES[target]
    outcome = emulate(text, kernel, arch, extents=sizes, policy=Adversarial(4))
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_splits_of_contents_that_break_the_bounds(target: str) -> None:
    settings = {"page_size": "16", "head_dim": "64"}
    _, kernel = solved("attention_kvcache_parts", target, **settings)
    sizes = default_extents(kernel, SPLITS)
    inputs = random_inputs(kernel, sizes, 0)
    for name in ("k_pages", "v_pages"):
        inputs[name] = torch.as_tensor(inputs[name]).nan_to_num(1.0)
    text = text_of("attention_kvcache_parts", target, **settings)
    with compiled(text, kernel, ARCHITECTURES[target]) as made:
        check_broken(made, kernel, sizes, inputs, "cache_seqlens", "block_table")


@pytest.mark.slow
def test_bits_do_not_depend_on_who_shares_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a tile are those of one head, or of two heads that share keys: which kernel a batch
    takes follows from what is in it, and no result shows which one it was. The emulator's products
    round sums by the place of a row, as BLAS does and tensor cores do not, so they are exact here.
    """

    def exact(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        return (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)

    monkeypatch.setattr("schedgen.emulator.instructions.wgmma_product.multiply", exact)
    settings = {"head_dim": "64", "page_size": "48", "causal": "true"}
    sizes = {"seq_q": 130, "seq_k": 260, "heads": 4, "heads_k": 2}
    found: list[dict[str, torch.Tensor]] = []
    inputs: dict[str, Any] = {}
    for group in (1, 2):
        _, kernel = solved("attention_varlen_kvcache", "h200", **settings, group=str(group))
        extents = default_extents(kernel, sizes)
        if not inputs:
            inputs = random_inputs(kernel, extents, 0)
        else:
            inputs |= {"q": grouped(torch.as_tensor(inputs["q"]), group)}
            inputs |= {"cu_seqlens_q": torch.as_tensor(inputs["cu_seqlens_q"]) * group}
            more = {
                "heads": 4 // group,
                "seq_q": 130 * group,
                "total_q": extents["total_q"] * group,
            }
            extents |= more
        results = outputs(kernel, extents)
        text = text_of("attention_varlen_kvcache", "h200", **settings, group=str(group))
        with compiled(text, kernel, "sm_90a") as made:
            made.execute({**inputs, **results})
        found.append({name: torch.as_tensor(one) for name, one in results.items()})
    one, two = found
    assert torch.equal(grouped(one["o"], 2).nan_to_num(7.0), two["o"].nan_to_num(7.0))
    ends = [int(end) // 2 for end in inputs["cu_seqlens_q"]]
    for number, (begin, end) in enumerate(pairwise(ends)):
        apart = two["lse"][number].view(2, -1, 2).transpose(1, 2).reshape(4, -1)
        assert torch.equal(one["lse"][number, :, : end - begin], apart[:, : end - begin])
        assert one["o"][begin:end].isfinite().all()


def grouped(tensor: torch.Tensor, group: int) -> torch.Tensor:
    """(tokens, heads, columns) with the heads of a group as rows: row = token * group + head."""
    tokens, heads, columns = tensor.shape
    apart = tensor.view(tokens, heads // group, group, columns).transpose(1, 2)
    return apart.reshape(tokens * group, heads // group, columns).contiguous()
