"""Tokens that are written into caches, and caches as pages."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from schedgen.kernels.kv_cache import append, as_pages


def cache(*shape: int) -> Tensor:
    return torch.arange(1.0, 1 + shape[0] * shape[1]).view(*shape[:2], 1, 1).repeat(1, 1, 2, 3)


def tokens(batch: int, count: int) -> Tensor:
    return -torch.arange(1.0, 1 + batch * count).view(batch, count, 1, 1).repeat(1, 1, 2, 3)


@pytest.mark.parametrize("before", [[0, 3, 5], [6, 4, 9], [-3, 2**30, 5], [8, 9, 10], [-9, 8, 8]])
def test_what_has_room_is_written(before: list[int]) -> None:
    """And nothing else, whatever lengths say."""
    found, new = cache(3, 8), tokens(3, 3)
    wanted = found.clone()
    for number, first in enumerate(before):
        for n in range(3):
            if 0 <= first + n < 8:
                wanted[number, first + n] = new[number, n]
    append(found, new, torch.tensor(before, dtype=torch.int32), None, None)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("table", [[[4, 0, 2], [1, 3, 5]], [[-1, 9, 2], [1, 2**31 - 1, -7]]])
@pytest.mark.parametrize("before", [[0, 5], [3, 10], [11, 12], [-1, 99]])
def test_pages_that_are_there_are_written(table: list[list[int]], before: list[int]) -> None:
    found, new = cache(6, 4), tokens(2, 3)
    wanted = found.clone()
    for number, first in enumerate(before):
        for n in range(first, first + 3):
            if 0 <= n < 12 and 0 <= table[number][n // 4] < 6:
                wanted[table[number][n // 4], n % 4] = new[number, n - first]
    lengths, pages = (torch.tensor(one, dtype=torch.int32) for one in (before, table))
    append(found, new, lengths, pages, None)
    assert torch.equal(found, wanted)


def test_batches_that_are_picked() -> None:
    found, new = cache(3, 8), tokens(3, 1)
    wanted = found.clone()
    wanted[2, 1], wanted[0, 4] = new[0, 0], new[1, 0]
    numbers = torch.tensor([2, 0, 7], dtype=torch.int32)
    append(found, new, torch.tensor([1, 4, 0], dtype=torch.int32), None, numbers)
    assert torch.equal(found, wanted)


def test_caches_as_pages() -> None:
    found = cache(3, 96)
    made = as_pages(found, torch.tensor([2, 0, -1], dtype=torch.int32))
    assert made is not None
    pages, table = made
    assert pages.shape == (9, 32, 2, 3)
    assert pages.data_ptr() == found.data_ptr()
    assert table.tolist() == [[6, 7, 8], [0, 1, 2], [-1, -1, -1]]
    assert as_pages(cache(3, 24), torch.tensor([0])) is None
    assert as_pages(cache(3, 24)[:, :16], torch.tensor([0])) is None


def test_a_part_of_caches_as_pages() -> None:
    found = cache(3, 96)[:, 16:80]
    made = as_pages(found, torch.tensor([2, 0, 3], dtype=torch.int32))
    assert made is not None
    pages, table = made
    assert pages.shape == (8, 32, 2, 3)
    assert table.tolist() == [[6, 7], [0, 1], [-1, -1]]
    assert torch.equal(pages[table[0].long()].flatten(0, 1), found[2])
    made = as_pages(found[1:2], torch.tensor([0], dtype=torch.int32))
    assert made is not None
    assert torch.equal(made[0].flatten(0, 1), found[1])


class _Seen(TorchDispatchMode):
    """Operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("table", [None, [[1, 0]]])
def test_nothing_is_copied_to_the_host(table: list[list[int]] | None) -> None:
    """A GPU would be waited for, and a CUDA graph could not be captured."""
    pages = None if table is None else torch.tensor(table, dtype=torch.int32)
    before = torch.tensor([2], dtype=torch.int32)
    with _Seen() as seen:
        append(cache(2 if table else 1, 8), tokens(1, 3), before, pages, None)
    assert seen.names
    assert not any("_local_scalar_dense" in name or "nonzero" in name for name in seen.names)


def test_a_table_without_pages() -> None:
    found = cache(2, 8)
    empty = torch.empty(1, 0, dtype=torch.int32)
    append(found, tokens(1, 3), torch.tensor([0], dtype=torch.int32), empty, None)
    assert torch.equal(found, cache(2, 8))
