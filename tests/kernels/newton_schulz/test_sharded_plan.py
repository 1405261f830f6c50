"""Owners of matrices, and the boxes of DTensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial, Replicate, Shard

from schedgen.kernels import ArgumentValueError
from schedgen.kernels.newton_schulz import sharded_layout
from schedgen.kernels.newton_schulz.sharded_layout import Layout
from schedgen.kernels.newton_schulz.sharded_plan import Job, rounds


def jobs(*counted: tuple[int, tuple[int, int]]) -> tuple[Job, ...]:
    shapes = [shape for count, shape in counted for _ in range(count)]
    return tuple(Job(n, shape, "a") for n, shape in enumerate(shapes))


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
@pytest.mark.parametrize(
    "given",
    [
        jobs((24, (2048, 8192)), (24, (8192, 2048)), (72, (2048, 2048))),
        jobs((1, (4096, 4096)), (30, (512, 512))),
        jobs((3, (64, 64))),
        (),
    ],
)
def test_every_job_once_and_loads_balanced(given: tuple[Job, ...], ranks: int) -> None:
    found = rounds(given, ranks, most=1 << 25)
    owned = [[job for now in found for job in now[rank]] for rank in range(ranks)]
    assert sorted((j for mine in owned for j in mine), key=lambda job: job.number) == list(given)
    loads = [sum(job.cost for job in mine) for mine in owned]
    largest = max((job.cost for job in given), default=0)
    # Graham: the list rule leaves the fullest at most one job above the mean.
    assert max(loads) <= sum(loads) / ranks + largest
    assert max(loads) <= 4 / 3 * max(sum(loads) / ranks, largest)


def test_equal_shapes_are_dealt_out_evenly_and_stay_together() -> None:
    given = jobs((8, (64, 256)), (8, (128, 128)), (8, (256, 64)))
    (now,) = rounds(given, 4)
    for mine in now:
        assert [job.shape for job in mine] == sorted(
            (job.shape for job in mine), key=lambda s: (-Job(0, s, "").cost, s)
        )
        assert (
            sorted(job.shape for job in mine)
            == [(64, 256)] * 2 + [(128, 128)] * 2 + [(256, 64)] * 2
        )


def test_rounds_are_limited() -> None:
    found = rounds(jobs((8, (32, 32)), (1, (64, 64))), 2, most=2 * 32 * 32)
    for now in found:
        for mine in now:
            assert len(mine) == 1 or sum(job.elements for job in mine) <= 2 * 32 * 32
    assert len(found) == max(sum(1 for now in found if now[rank]) for rank in (0, 1))


# -- layouts --------------------------------------------------------------------------------------


class Strided:
    """FSDP's placement of what another dimension of the mesh has sharded before."""

    def __init__(self, dim: int, split_factor: int) -> None:
        self.dim, self.split_factor = dim, split_factor

    def is_replicate(self) -> bool:
        return False


def layout(shape: tuple[int, int], mesh: tuple[int, ...], *placements: Any) -> Layout:
    ranks = tuple(range(torch.Size(mesh).numel()))
    splits = sharded_layout._splits(placements, mesh)
    return sharded_layout._layout(shape, mesh, ranks, ranks, splits)


@pytest.mark.parametrize(
    ("mesh", "placements", "copies"),
    [
        ((3,), [Shard(0)], 1),
        ((3,), [Shard(1)], 1),
        ((3,), [Replicate()], 3),
        ((2, 3), [Replicate(), Shard(0)], 2),
        ((2, 3), [Shard(1), Shard(0)], 1),
        ((2, 3), [Shard(0), Shard(0)], 1),
        ((2, 3), [Strided(0, 3), Shard(0)], 1),
        ((2, 2, 2), [Replicate(), Strided(1, 2), Shard(1)], 2),
    ],
)
@pytest.mark.parametrize("shape", [(12, 12), (7, 5), (2, 9), (1, 1)])
def test_boxes_make_up_whole_copies(
    shape: tuple[int, int], mesh: tuple[int, ...], placements: Sequence[Any], copies: int
) -> None:
    found = layout(shape, mesh, *placements)
    assert len(set(found.copies)) == copies
    for owner, copy in enumerate(found.copies):
        counts = torch.zeros(shape)
        for rank in {owner, *found.senders(owner)}:
            assert found.copies[rank] == copy
            found.boxes[rank].of(counts).add_(1)
        assert torch.equal(counts, torch.ones(shape))
        others = [r for r in range(len(found.boxes)) if r != owner and not found.boxes[r].empty]
        assert sorted(found.receivers(owner)) == others
        assert [r for r in range(len(found.boxes)) if found.sends(r, owner)] == sorted(
            found.senders(owner)
        )


def test_order_of_splits() -> None:
    """As the tables in torch's description of strided placements have it."""
    plain = layout((8, 8), (2, 2), Shard(0), Shard(0))
    assert [box.top for box in plain.boxes] == [0, 2, 4, 6]
    strided = layout((8, 8), (2, 2), Strided(0, 2), Shard(0))
    assert [box.top for box in strided.boxes] == [0, 4, 2, 6]


@pytest.mark.parametrize(
    "placements", [[Partial(), Replicate()], [Strided(0, 3), Shard(0)], [Shard(0), Strided(0, 2)]]
)
def test_refused_placements(placements: Sequence[Any]) -> None:
    with pytest.raises(ArgumentValueError, match="allowed: Shard and Replicate"):
        layout((8, 8), (2, 2), *placements)
