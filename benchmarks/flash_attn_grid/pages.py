"""Calls of `flash_attn_varlen_func` over pages: packed queries, and caches that a table lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from flash_attn_grid.cases import Config
from flash_attn_grid.packed import PackedCase, packed_cases_of
from torch import Tensor

PAGED = (
    (16, Config("causal", head_dim=128, packed=True)),
    (64, Config("causal", head_dim=128, packed=True)),
    (256, Config("causal", head_dim=128, packed=True)),
    (48, Config("window", head_dim=128, packed=True)),
    (64, Config("full", head_dim=64, packed=True)),
    (96, Config("causal", softcap=True, head_dim=128, packed=True)),
    (64, Config("window", slopes=2, sinks=True, head_dim=128, packed=True)),
    (256, Config("causal", sinks=True, head_dim=64, dtype="fp16", packed=True)),
)
"""Keys of a page, and what else kernels are made for."""
GROUPS = (1, 4)
"""Heads that share keys."""
_HEADS = ((4, 4), (8, 2))
_SPARE = 3
"""Pages that belong to nobody."""


def settings_of(page: int, config: Config, group: int) -> tuple[tuple[str, str], ...]:
    """Parameters of the spec, as `flash_attn_varlen_func` gives them for such groups of heads."""
    found = {"head_dim": str(config.head_dim), "dtype": config.dtype}
    flags = {"causal": config.mask == "causal", "window": config.mask == "window"}
    flags |= {"soft_cap": config.softcap, "alibi": bool(config.slopes), "sinks": config.sinks}
    found |= {name: "true" for name, value in flags.items() if value}
    found |= {"page_size": str(page)}
    return tuple((found | ({"group": str(group)} if group > 1 else {})).items())


@dataclass(frozen=True)
class PagedCase:
    """A call whose keys and values are those of ``packed``, in pages of ``page`` keys."""

    packed: PackedCase
    page: int

    def caches(self, given: dict[str, Tensor | None]) -> dict[str, Tensor]:
        """Pages in no order, NaN where nothing is, a table with nonsense behind lengths, and
        lengths; ``given`` are the tensors of the case without pages.
        """
        keys, values = given["k"], given["v"]
        assert keys is not None
        assert values is not None
        begins, page = self.packed.starts[1], self.page
        sizes = [end - begin for begin, end in pairwise(begins)]
        needed = [-(-size // page) for size in sizes]
        order = [int(number) for number in torch.randperm(sum(needed) + _SPARE)]
        table = torch.full((len(sizes), max(*needed, 1)), -7, dtype=torch.int32)
        made = [
            one.new_full((len(order), page, *one.shape[1:]), torch.nan) for one in (keys, values)
        ]
        for number, (begin, size) in enumerate(zip(begins, sizes, strict=False)):
            for nth in range(needed[number]):
                table[number, nth] = order.pop()
                first, most = begin + nth * page, min(page, size - nth * page)
                for pages, whole in zip(made, (keys, values), strict=True):
                    pages[table[number, nth], :most] = whole[first : first + most]
        lengths = torch.tensor(sizes, dtype=torch.int32, device=keys.device)
        return {"k": made[0], "v": made[1], "table": table.to(keys.device), "lengths": lengths}


def paged_cases(count: int, seed: int) -> list[PagedCase]:
    """The same for the same seed: all kinds of kernels equally often."""
    configs = [config for _, config in PAGED]
    found = packed_cases_of(configs, count, f"pages {seed}", _HEADS)
    return [PagedCase(case, PAGED[n % len(PAGED)][0]) for n, case in enumerate(found)]
