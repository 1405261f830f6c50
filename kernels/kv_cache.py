"""Caches of keys and values, contiguous or in pages: where tokens lie in them, and writing some."""

from __future__ import annotations

import torch
from torch import Tensor

PAGE_SIZES = (256, 128, 64, 32, 16)
"""Keys of pages as which contiguous caches are read."""


def append(
    cache: Tensor, new: Tensor, before: Tensor, table: Tensor | None, numbers: Tensor | None
) -> None:
    """Writes ``new`` behind what a cache has, without a look at lengths on the host.

    Tokens that find no room, and those of pages that are not there, are left out.

    Args:
        cache: (batch, room, heads_k, head_dim), or (pages, page_size, heads_k, head_dim).
        new: (batch, tokens, heads_k, head_dim).
        before: (batch,), int32: how many tokens there are.
        table: (batch, most_pages), int32: which pages a batch has; None: no pages.
        numbers: (batch,): which batch of the cache is meant; None: the same.
    """
    batch, tokens = new.shape[:2]
    if not new.numel() or not cache.numel() or (table is not None and not table.numel()):
        return
    at = before.long()[:, None] + torch.arange(tokens, device=new.device)
    size = cache.shape[1]
    if table is None:
        outer = torch.arange(batch, device=new.device) if numbers is None else numbers.long()
        outer, inside = outer[:, None].expand(batch, tokens), at
        there = (at >= 0) & (at < size)
    else:
        most = table.shape[1]
        listed = (at // size).clamp(0, most - 1)
        outer, inside = table.long().gather(1, listed), at % size
        there = (at >= 0) & (at < most * size)
    there = there & (outer >= 0) & (outer < cache.shape[0])
    _put(cache, new.flatten(0, 1), outer.flatten(), inside.flatten(), there.flatten())


def _put(cache: Tensor, values: Tensor, outer: Tensor, inside: Tensor, there: Tensor) -> None:
    """Writes the values that are ``there``. How many these are the host does not know, so the
    others repeat the first of them, or if there is none what stands at the beginning.
    """
    some, first = there.any(), there.to(torch.int32).argmax()[None]
    place = torch.stack([outer, inside])
    # An index that is a tensor without axes would be copied to the host.
    instead = torch.where(some, place.index_select(1, first)[:, 0], 0)
    value = torch.where(some, values.index_select(0, first)[0], cache[0, 0])
    place = torch.where(there, place, instead[:, None])
    cache.index_put_((place[0], place[1]), torch.where(there[:, None, None], values, value))


def as_pages(cache: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor] | None:
    """A contiguous cache of which each batch has one of ``numbers``, as pages and their table; None
    if its batches are no whole number of pages long and apart. It may be a part of a larger one.
    """
    count, room = cache.shape[:2]
    apart = _apart(cache)
    page = next((size for size in PAGE_SIZES if not room % size and not apart % size), None)
    if page is None:
        return None
    each, between = room // page, apart // page
    shape = ((count - 1) * between + each, page, *cache.shape[2:])
    pages = cache.as_strided(shape, (page * cache.stride(1), *cache.stride()[1:]))
    found = numbers.int()[:, None] * between + torch.arange(
        each, device=numbers.device, dtype=torch.int32
    )
    inside = (numbers >= 0) & (numbers < count)
    return pages, torch.where(inside[:, None], found, -1)


def _apart(cache: Tensor) -> int:
    """Keys from one batch to the next; 1 if there is no whole number of them."""
    if len(cache) == 1:
        return int(cache.shape[1])
    batch, key = cache.stride()[:2]
    return batch // key if key and not batch % key else 1
