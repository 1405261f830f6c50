"""What one of several ranks does to test Muon with sharded parameters.

    python -m tests.kernels.newton_schulz.sharded_cases FOLDER RANK RANKS cpu|cuda

Through gloo on the CPU, or through NCCL with a GPU for each rank. Writes to FOLDER/RANK.json what
came out of each case: "passed" or a traceback. All ranks run the same cases in the same order; the
last one ends with the death of a rank.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

from schedgen.kernels import Muon
from schedgen.kernels.newton_schulz import sharded
from tests.kernels.newton_schulz import sharded_failures, sharded_models
from tests.kernels.newton_schulz.sharded_common import (
    CLOSE,
    KIND,
    RANK,
    RANKS,
    SHAPES,
    raises,
    same_updates,
    spread,
)


def rows_columns_replicas_and_plain_tensors() -> None:
    mesh = init_device_mesh(KIND, (RANKS,))
    ways: list[Any] = [[Shard(0)], [Shard(1)], [Replicate()], None]

    def make(x: Tensor, n: int) -> nn.Parameter:
        way = ways[n % 4]
        return nn.Parameter(x.clone()) if way is None else spread(x, mesh, way)

    same_updates(make)


def divided_replicas() -> None:
    found = same_updates(lambda x, n: nn.Parameter(x.clone()), process_group=dist.group.WORLD)
    for param in found[1:]:
        copies = [torch.empty_like(param) for _ in range(RANKS)]
        dist.all_gather(copies, param.detach())
        assert all(torch.equal(copy, param) for copy in copies)


def many_rounds() -> None:
    """One exchange is under way while another round is computed."""
    mesh, plan = init_device_mesh(KIND, (RANKS,)), sharded.rounds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "rounds", partial(plan, most=1))
        same_updates(lambda x, n: spread(x, mesh, [Shard(n % 2)]))


def meshes_of_two_dimensions() -> None:
    if RANKS < 4:
        return
    mesh = init_device_mesh(KIND, (2, RANKS // 2))
    for ways in ([Replicate(), Shard(0)], [Shard(1), Replicate()], [Shard(0), Shard(1)]):
        same_updates(lambda x, n, ways=ways: spread(x, mesh, ways))
    same_updates(lambda x, n: spread(x, mesh, [Shard(0), Shard(0)]))


def meshes_that_overlap() -> None:
    """Ranks meet each other in groups of different members, also in groups of one."""
    names = ("outer", "inner")
    mesh = init_device_mesh(KIND, (RANKS // 2, 2), mesh_dim_names=names)
    meshes = [mesh["outer"], mesh["inner"], init_device_mesh(KIND, (RANKS,))]
    found = same_updates(lambda x, n: spread(x, meshes[n % 3], [Shard(0)]), timeout=20)
    optimizer: Muon = found[0]

    def closure() -> None:
        if RANK == RANKS - 1:
            raise ZeroDivisionError("of its own")

    with raises(ZeroDivisionError, "of its own"):
        optimizer.step(closure)
    optimizer.step()


def sixteen_bits_on_the_way() -> None:
    """Each part goes to its owner and comes back, once."""
    mesh, sent = init_device_mesh(KIND, (RANKS,)), list[float]()
    for dtype, bound in ((None, CLOSE), (torch.bfloat16, 2e-2)):
        found = same_updates(
            lambda x, n: spread(x, mesh, [Shard(0)]), bound, communication_dtype=dtype
        )
        total = torch.tensor(found[0].bytes_sent, device=KIND)
        dist.all_reduce(total)
        sent.append(total.item())
    elements = sum(m * n for m, n in SHAPES) * (RANKS - 1) / RANKS
    assert sent[0] == pytest.approx(6 * elements, rel=0.2)  # whole rows, and 16 bytes
    assert sent[1] == pytest.approx(4 * elements, rel=0.2)


CASES = [
    rows_columns_replicas_and_plain_tensors,
    divided_replicas,
    many_rounds,
    meshes_of_two_dimensions,
    meshes_that_overlap,
    sixteen_bits_on_the_way,
    sharded_models.fsdp_compiled,
    sharded_models.ddp_compiled,
    sharded_models.fsdp_over_tensor_parallelism,
    sharded_models.state_round_trip,
    sharded_models.checkpoint_of_one_process,
    sharded_failures.no_gradient_on_some_ranks,
    sharded_failures.no_gradient_on_some_replicas,
    sharded_failures.a_closure_fails,
    sharded_failures.a_gradient_is_wrong,
    sharded_failures.an_iteration_fails,
    sharded_failures.other_parameters,
    sharded_failures.a_rank_does_not_come,
    sharded_failures.a_rank_dies,
]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    if KIND == "cuda":
        torch.cuda.set_device(RANK)
    backend = "gloo" if KIND == "cpu" else "nccl"
    dist.init_process_group(backend, f"file://{folder}/store", rank=RANK, world_size=RANKS)
    found: dict[str, str] = {}
    for case in CASES:
        begin = monotonic()
        if case is sharded_failures.a_rank_dies:  # and cannot write any more
            (folder / f"{RANK}.json").write_text(json.dumps({**found, case.__name__: "passed"}))
        try:
            case()
            found[case.__name__] = "passed"
        except BaseException:
            found[case.__name__] = traceback.format_exc()
        print(f"{case.__name__}: {monotonic() - begin:.1f} s", file=sys.stderr)
    (folder / f"{RANK}.json").write_text(json.dumps(found))
    os._exit(0)  # no farewell to a group with a dead member


if __name__ == "__main__":
    main(Path(sys.argv[1]))
