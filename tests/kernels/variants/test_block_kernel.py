"""Kernels that list blocks, in the emulator: the lists are those that operations of torch make, and
accesses are ordered under any schedule.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.compiling import compile_file
from schedgen.codegen.cubin import read_resources
from schedgen.driver.emulating import (
    _dynamic,  # pyright: ignore[reportPrivateUsage]
    _module,  # pyright: ignore[reportPrivateUsage]
    _stream,  # pyright: ignore[reportPrivateUsage]
    generated_switches,
)
from schedgen.emulator.emulation import device
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.kernels.variants.block_kernel import CTAS, WARPS, parts_of, room, text_of
from schedgen.kernels.variants.blocks import Blocks, by_torch
from schedgen.kernels.variants.calling import Asked, asked, expressed, sizes_of
from schedgen.kernels.variants.listing import whole_of
from schedgen.kernels.variants.reading import number_name

DOCUMENTS = "doc[row] == docs[column]"


class Lists:
    """A kernel in the emulator, for tensors of any sizes; `compiled` makes one."""

    def __init__(self, gpu: Any, function: Any, wanted: Asked) -> None:
        self.gpu, self.function, self.wanted = gpu, function, wanted

    def check(
        self,
        lengths: tuple[int, int],
        tile: tuple[int, int],
        given: dict[str, Any],
        policy: Policy | None = None,
        outer: tuple[int, int] = (1, 1),
    ) -> Blocks:
        """The lists of torch, with which those of the kernel agree where they mean something.

        Args:
            lengths: queries and keys.
            tile: queries of a tile, and keys of a block.
            outer: batches and heads.
        """
        q, k = (torch.empty(outer[0], length, outer[1], 64) for length in lengths)
        settings = (("tiles", "1"), ("rows", str(tile[0])), ("keys", str(tile[1])))
        function: Any = SimpleNamespace(facts=SimpleNamespace(settings=settings))
        right = by_torch(function, self.wanted, q, k, given)
        parts, blocks = parts_of(self.wanted), right.listed.shape[-1]
        tiles, slices = right.counts.shape[-1], right.counts[..., 0].numel()
        passed = expressed(self.wanted, sizes_of(q, k), q, 1.0, None, given)
        tensors: list[Any] = [passed[one.argument] for one in parts.vectors]
        results = [torch.full((slices, tiles), -1, dtype=torch.int32) for _ in range(3)]
        results.append(torch.full((slices, tiles, blocks), -1, dtype=torch.int32))
        scratch = torch.full((slices, room(parts, tiles, blocks)), -1, dtype=torch.int32)
        heads = outer[1] if "head" in parts.along else 1
        scalars: list[Any] = [passed[number_name(name)] for name in parts.numbers]
        scalars += [*lengths, *tile, heads]
        arrays = [*(one.contiguous() for one in tensors), scratch, *results]
        self.gpu.emulator.policy = policy or RoundRobin()
        self.function(*map(_dynamic, arrays), *scalars, _stream())
        report = self.gpu.reports[-1]
        assert not report.errors, report.text
        for found, expected in zip(
            results[:3], (right.order, right.counts, right.fulls), strict=True
        ):
            assert torch.equal(found.reshape(expected.shape), expected)
        inside = torch.arange(blocks) < right.counts[..., None]
        listed = results[3].reshape(right.listed.shape)
        assert torch.equal(listed[inside], right.listed[inside])
        assert (listed[~inside] == -1).all()
        return right


@contextmanager
def compiled(
    folder: Path,
    mask: str,
    given: dict[str, Any],
    *,
    causal: bool = False,
    arch: str = "sm_90a",
    warps: Sequence[int] = (2, 2),
) -> Generator[Lists]:
    """The kernel for a mask; ``warps``: CTAs of a cluster and warps of each."""
    wanted = replace(asked(mask, None, causal, None, given), blocks=True)
    text = text_of(wanted, whole_of(wanted, given), arch, *warps)
    parts = parts_of(wanted)
    with device(arch, races="report", switches=generated_switches(), sms=2) as gpu:
        module = _module(text, folder)
        from cutlass import cute  # which takes the architecture when it is imported

        like = [torch.zeros([2] * len(one.indices)) for one in parts.vectors]
        ints = [torch.zeros([2] * rank, dtype=torch.int32) for rank in (2, 2, 2, 2, 3)]
        numbers: list[Any] = [1.0] * len(parts.numbers)
        passed = [*map(_dynamic, [*like, *ints]), *numbers, 1, 1, 1, 1, 1]
        yield Lists(gpu, cute.compile(module.launch, *passed, 2, _stream()), wanted)


def documents(length: int, *, count: int = 5, of_each: bool = False) -> Tensor:
    """Numbers of documents, in order or not."""
    found = torch.randint(0, count, (length,), generator=torch.Generator().manual_seed(length))
    return found if of_each else found.sort().values


def of_rows(docs: Tensor, queries: int) -> dict[str, Tensor]:
    """As many queries as there are keys, or fewer, or others."""
    return {"doc": docs[:queries].clone(), "docs": docs}


@pytest.mark.medium
@pytest.mark.parametrize("causal", [False, True])
def test_documents(tmp_path: Path, causal: bool) -> None:
    """Sorted or not, ragged or not, one block, and tiles that see nothing."""
    given = of_rows(documents(300), 200)
    with compiled(tmp_path, DOCUMENTS, given, causal=causal) as lists:
        blocks = lists.check((200, 300), (16, 8), given, Adversarial(0))
        assert blocks.fulls.any()
        lists.check((200, 300), (32, 24), given, Seeded(1))
        mixed = of_rows(documents(256, of_each=True), 256)
        lists.check((256, 256), (64, 32), mixed, Adversarial(1))
        nothing = of_rows(documents(256), 256)
        nothing["doc"][32:64] = -1
        nothing["doc"][200:] = 99
        blocks = lists.check((256, 256), (16, 16), nothing, Adversarial(2))
        assert not blocks.counts[-5:].any()
        lists.check((7, 5), (64, 32), of_rows(documents(7), 7) | {"docs": documents(5)})
        more = {"doc": documents(300), "docs": documents(40)}
        lists.check((300, 40), (16, 8), more)


@pytest.mark.medium
def test_as_they_are_launched(tmp_path: Path) -> None:
    """With all warps, and more tiles than these, on the other architecture."""
    given = of_rows(documents(500), 500)
    warps = CTAS, WARPS
    with compiled(tmp_path, DOCUMENTS, given, arch="sm_100a", warps=warps) as lists:
        lists.check((500, 500), (3, 25), given, Adversarial(3))


@pytest.mark.medium
def test_batches_and_heads(tmp_path: Path) -> None:
    """Lists of each, from tensors in any order of dimensions, with elements that are no numbers."""
    doc, per = documents(160).reshape(2, 80), torch.tensor([[3, 40, 90], [7, 20, 80]])
    bias = torch.rand(100, 3)
    bias[5, 1], bias[30, 0], bias[60, 2] = math.nan, math.inf, -math.inf
    given: dict[str, Any] = {"doc": doc, "per": per, "bias": bias}
    mask = "doc[batch, row] > 1 and row < per[batch, head] or bias[column, head] * 3 > 2.8"
    with compiled(tmp_path, mask, given) as lists:
        blocks = lists.check((80, 100), (16, 8), given, Adversarial(1), (2, 3))
        assert blocks.counts.shape == (2, 3, 5)
        assert 0 < blocks.share < 1
    mask = "doc[batch, row] == per[batch, head] // 30 and (head != 1 or column % 16 < batch + 3)"
    given = {"doc": doc, "per": per}
    with compiled(tmp_path, mask, given) as lists:
        lists.check((80, 100), (16, 8), given, None, (2, 3))


@pytest.mark.medium
def test_arithmetic(tmp_path: Path) -> None:
    """Everything that expressions have, with numbers of a call."""
    given: dict[str, Any] = of_rows(documents(300), 200)
    given |= {"bias": torch.rand(300), "turn": 13, "least": 0.35}
    mask = (
        "(row - 3) // 7 % turn == column % 5 and true and (not bias[column] < least * 2.5 or "
        "where(doc[row] > 2, row * 0.1, column / 3 - abs(row - column)) < max(9, min(row, 30)) or "
        "doc[row] % 3 // 2 != floor(docs[column] / 2 + relu(-bias[column])) and tanh(row) < 2)"
    )
    with compiled(tmp_path, mask, given) as lists:
        blocks = lists.check((200, 300), (16, 8), given, Adversarial(2))
        assert 0 < blocks.share < 1
        other = given | {"turn": 5, "least": 0.1}
        lists.check((200, 300), (8, 4), other)


@pytest.mark.medium
def test_many_blocks(tmp_path: Path) -> None:
    """More than 32 words of bits in a list."""
    given = of_rows(documents(2200, count=40), 40)
    given["doc"][:20] = 17
    with compiled(tmp_path, DOCUMENTS + " or column < 3 * row", given) as lists:
        assert lists.check((40, 2200), (8, 2), given).listed.shape == (5, 1100)


@pytest.mark.medium
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_it_assembles(tmp_path: Path, arch: str) -> None:
    """For a GPU: registers for two CTAs on an SM, and none in memory."""
    given = of_rows(documents(8), 8)
    wanted = replace(asked(DOCUMENTS, None, True, None, given), blocks=True)
    path = tmp_path / "listed.py"
    path.write_text(text_of(wanted, whole_of(wanted, given), arch), "utf-8")
    resources = read_resources(compile_file(path, tmp_path, sms=132).cubin)
    assert resources.registers <= 65536 // (2 * 32 * WARPS)
    assert not resources.local_bytes


def test_lists_depend_on_nothing_else(tmp_path: Path) -> None:
    """Scores, sinks and other arguments make no other kernel; kinds of numbers do."""
    given = of_rows(documents(8), 8)
    one = replace(asked(DOCUMENTS, None, False, None, given), blocks=True)
    more: dict[str, Any] = given | {"factor": 2.0}
    other = asked(DOCUMENTS, "score * factor", False, torch.ones(2), more)
    text = text_of(one, (True, True), "sm_90a")
    assert text == text_of(other, (True, True), "sm_90a")
    bias: dict[str, Any] = {"doc": torch.ones(8), "docs": torch.ones(8)}
    assert whole_of(one, given) == (True, True)
    assert whole_of(one, bias) == (False, False)
