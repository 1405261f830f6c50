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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from schedgen.kernels import ArgumentTypeError, ArgumentValueError, Muon
from schedgen.kernels.newton_schulz import muon, sharded
from schedgen.kernels.newton_schulz.sharded_ranks import RankError

KIND = sys.argv[4] if len(sys.argv) > 4 else "cpu"
CLOSE = 5e-3 if KIND == "cpu" else 2e-2
"""Relative to a step. Rounding to float16 may cost a Gaussian matrix 1e-2, and other batches may
be rounded otherwise on a GPU."""
SHAPES = [(12, 20), (20, 12), (9, 9), (3, 8), (7, 30), (12, 20), (12, 20)]
"""Some do not divide by the number of ranks; of 3 rows, the last of 4 ranks has none."""
rank, ranks = 0, 1


def random(shapes: Sequence[tuple[int, int]], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(KIND) for shape in shapes]


def whole(x: Any) -> Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone()


def spread(x: Tensor, mesh: Any, placements: Sequence[Any]) -> nn.Parameter:
    return nn.Parameter(distribute_tensor(x.clone(), mesh, placements))


def same_updates(
    make: Callable[[Tensor, int], nn.Parameter], bound: float = CLOSE, **options: Any
) -> list[Any]:
    """Muon on parameters that ``make`` makes beside Muon in one process; returns the former."""
    start = random(SHAPES, 0)
    alone = [nn.Parameter(x.clone()) for x in start]
    shared = [make(x, n) for n, x in enumerate(start)]

    def groups(params: list[Any]) -> list[dict[str, Any]]:
        last: dict[str, Any] = {"params": params[3:], "nesterov": False, "lr": 0.05}
        return [{"params": params[:3]}, last]

    expected, found = Muon(groups(alone), lr=0.02), Muon(groups(shared), lr=0.02, **options)
    for step in range(3):
        for one, many, grad in zip(alone, shared, random(SHAPES, step + 1), strict=True):
            one.grad = grad.clone()
            given: Any = many
            many.grad = grad.clone()
            if isinstance(given, DTensor):
                many.grad = distribute_tensor(grad, given.device_mesh, given.placements)
        expected.step()
        found.step()
    for x, one, many in zip(start, alone, shared, strict=True):
        apart = (whole(many) - one).square().sum().sqrt()
        assert apart <= bound * (one - x).square().sum().sqrt()
        momenta = found.state[many]["momentum_buffer"], expected.state[one]["momentum_buffer"]
        assert torch.equal(whole(momenta[0]), momenta[1])
    return [found, *shared]


# -- the same as one process ----------------------------------------------------------------------


def rows_columns_replicas_and_plain_tensors() -> None:
    mesh = init_device_mesh(KIND, (ranks,))
    ways: list[Any] = [[Shard(0)], [Shard(1)], [Replicate()], None]

    def make(x: Tensor, n: int) -> nn.Parameter:
        way = ways[n % 4]
        return nn.Parameter(x.clone()) if way is None else spread(x, mesh, way)

    same_updates(make)


def divided_replicas() -> None:
    found = same_updates(lambda x, n: nn.Parameter(x.clone()), process_group=dist.group.WORLD)
    for param in found[1:]:
        copies = [torch.empty_like(param) for _ in range(ranks)]
        dist.all_gather(copies, param.detach())
        assert all(torch.equal(copy, param) for copy in copies)


def many_rounds() -> None:
    """One exchange is under way while another round is computed."""
    mesh, plan = init_device_mesh(KIND, (ranks,)), sharded.rounds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "rounds", partial(plan, most=1))
        same_updates(lambda x, n: spread(x, mesh, [Shard(n % 2)]))


def meshes_of_two_dimensions() -> None:
    if ranks < 4:
        return
    mesh = init_device_mesh(KIND, (2, ranks // 2))
    for ways in ([Replicate(), Shard(0)], [Shard(1), Replicate()], [Shard(0), Shard(1)]):
        same_updates(lambda x, n, ways=ways: spread(x, mesh, ways))
    same_updates(lambda x, n: spread(x, mesh, [Shard(0), Shard(0)]))


def meshes_that_overlap() -> None:
    """Ranks meet each other in groups of different members, also in groups of one."""
    names = ("outer", "inner")
    mesh = init_device_mesh(KIND, (ranks // 2, 2), mesh_dim_names=names)
    meshes = [mesh["outer"], mesh["inner"], init_device_mesh(KIND, (ranks,))]
    found = same_updates(lambda x, n: spread(x, meshes[n % 3], [Shard(0)]), timeout=20)
    optimizer: Muon = found[0]

    def closure() -> None:
        if rank == ranks - 1:
            raise ZeroDivisionError("of its own")

    with raises(ZeroDivisionError, "of its own"):
        optimizer.step(closure)
    optimizer.step()


def sixteen_bits_on_the_way() -> None:
    """Each part goes to its owner and comes back, once."""
    mesh, sent = init_device_mesh(KIND, (ranks,)), list[float]()
    for dtype, bound in ((None, CLOSE), (torch.bfloat16, 2e-2)):
        found = same_updates(
            lambda x, n: spread(x, mesh, [Shard(0)]), bound, communication_dtype=dtype
        )
        total = torch.tensor(found[0].bytes_sent, device=KIND)
        dist.all_reduce(total)
        sent.append(total.item())
    elements = sum(m * n for m, n in SHAPES) * (ranks - 1) / ranks
    assert sent[0] == pytest.approx(6 * elements, rel=0.2)  # whole rows, and 16 bytes
    assert sent[1] == pytest.approx(4 * elements, rel=0.2)


# -- models ---------------------------------------------------------------------------------------


def net() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = ((6, 14), (14, 11), (11, 3))
    return nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in sizes)).to(KIND)


def trained(model: nn.Module, optimizer: Muon, steps: int, first: int = 0) -> None:
    """Each rank has a batch of its own."""
    for step in range(first, first + steps):
        torch.manual_seed(step)
        inputs = torch.randn(ranks, 16, 6).to(KIND)
        losses = [model(x).square().mean() for x in (inputs if alone(model) else [inputs[rank]])]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()


def alone(model: nn.Module) -> bool:
    return not any(isinstance(p, DTensor) for p in model.parameters())


def fsdp(model: nn.Sequential) -> nn.Sequential:
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)  # type: ignore[return-value]


def fsdp_compiled() -> None:
    model = fsdp(net())
    compiled: Any = torch.compile(model, backend="eager")
    trained(compiled, Muon(model.parameters(), lr=0.02), 3)
    as_in_one_process(model)


def ddp_compiled() -> None:
    model = DistributedDataParallel(net())
    compiled: Any = torch.compile(model, backend="eager")
    optimizer = Muon(model.parameters(), lr=0.02, process_group=dist.group.WORLD)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        compiled(torch.randn(ranks, 16, 6).to(KIND)[rank]).square().mean().backward()
        optimizer.step()
    as_in_one_process(model)


def as_in_one_process(model: nn.Module) -> None:
    """After three steps."""
    start, expected = net(), net()
    trained(expected, Muon(expected.parameters(), lr=0.02), 3)
    triples = zip(start.parameters(), expected.parameters(), model.parameters(), strict=True)
    for x, one, many in triples:
        # Gradients are means in another order, and then other ones.
        step = (one - x).square().sum().sqrt()
        assert (whole(many) - one).square().sum().sqrt() <= 2 * CLOSE * step


def fsdp_over_tensor_parallelism() -> None:
    """Placements are strided: rows are split across the inner dimension of the mesh first."""
    if ranks < 4:
        return
    mesh = init_device_mesh(KIND, (2, ranks // 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(8, 10, bias=False)).to(KIND)
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    param: Any = model[0].weight
    assert hasattr(param.placements[0], "split_factor")
    x = whole(param)
    model(random([(16, 8)], 1)[0]).square().mean().backward()
    expected = nn.Parameter(x.clone())
    expected.grad = whole(param.grad)
    for optimizer in (Muon([expected], lr=0.02), Muon([param], lr=0.02)):
        optimizer.step()
    step = (expected - x).square().sum().sqrt()
    assert (whole(param) - expected).square().sum().sqrt() <= CLOSE * step


def state_round_trip() -> None:
    model = fsdp(net())
    optimizer = Muon(model.parameters(), lr=0.02)
    trained(model, optimizer, 2)
    state = optimizer.state_dict()
    momenta = [s["momentum_buffer"] for s in state["state"].values()]
    assert all(isinstance(m, DTensor) and m.placements == (Shard(0),) for m in momenta)
    other = fsdp(net())
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    restored = Muon(other.parameters(), lr=0.5)
    restored.load_state_dict({**state, "state": {n: dict(s) for n, s in state["state"].items()}})
    for momentum in momenta:
        momentum.zero_()  # what was loaded is a copy, or this shows
    restored.load_state_dict(optimizer_state := restored.state_dict())
    assert optimizer_state["param_groups"][0]["lr"] == 0.02


def checkpoint_of_one_process() -> None:
    """A full state dict, of torch.distributed.checkpoint, goes to one process and back."""
    model, full = fsdp(net()), StateDictOptions(full_state_dict=True)
    optimizer = Muon(model.parameters(), lr=0.02)
    trained(model, optimizer, 2)
    saved = get_optimizer_state_dict(model, optimizer, options=full)
    expected = [whole(s["momentum_buffer"]) for s in optimizer.state.values()]
    if rank == 0:
        single = net()
        other = Muon(single.parameters(), lr=0.02)
        set_optimizer_state_dict(single, other, saved)
        found = [s["momentum_buffer"] for s in other.state.values()]
        assert all(map(torch.equal, found, expected))
    again = fsdp(net())
    restored = Muon(again.parameters(), lr=0.5)
    set_optimizer_state_dict(again, restored, saved, options=StateDictOptions(full_state_dict=True))
    for mine, theirs in zip(again.parameters(), model.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    trained(model, optimizer, 2, first=2)
    trained(again, restored, 2, first=2)
    pairs = zip(again.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(whole(a), whole(b)) for a, b in pairs)


# -- gradients that are missing -------------------------------------------------------------------


def no_gradient_on_some_ranks() -> None:
    """The rank's part counts as zeros."""
    mesh = init_device_mesh(KIND, (ranks,))
    start, grad = random([(8, 12)] * 2, 0), random([(8, 12)], 1)[0]
    first, second = (spread(x, mesh, [Shard(0)]) for x in start)
    if rank:
        first.grad = distribute_tensor(grad, mesh, [Shard(0)], src_data_rank=None)
    optimizer = Muon([first, second], lr=0.02)
    optimizer.step()
    grad[: 8 // ranks] = 0
    expected = nn.Parameter(start[0].clone())
    expected.grad = grad
    other = Muon([expected], lr=0.02)
    other.step()
    step = (expected - start[0]).square().sum().sqrt()
    assert (whole(first) - expected).square().sum().sqrt() <= CLOSE * step
    momenta = [o.state[p]["momentum_buffer"] for o, p in ((optimizer, first), (other, expected))]
    assert torch.equal(whole(momenta[0]), momenta[1])  # ranks agreed after a second try
    assert torch.equal(whole(second), start[1])
    assert second not in optimizer.state


def no_gradient_on_some_replicas() -> None:
    param = nn.Parameter(torch.ones(4, 6, device=KIND))
    param.grad = None if rank else torch.ones_like(param)
    with pytest.raises(ArgumentValueError, match="on some of its replicas only"):
        Muon([param], process_group=dist.group.WORLD).step()


# -- failures -------------------------------------------------------------------------------------


def failing() -> tuple[list[nn.Parameter], Muon]:
    """On more than one matrix for each rank, so that all have something to do."""
    mesh = init_device_mesh(KIND, (ranks,))
    params = [spread(x, mesh, [Shard(0)]) for x in random([(8, 12)] * 2 * ranks, 0)]
    for p in params:
        p.grad = torch.ones_like(p)
    return params, Muon(params, timeout=20)


def raises(error: type[Exception], says: str) -> Any:
    """On the last rank ``error``; and what the others are told about it."""
    if rank == ranks - 1:
        return pytest.raises(error, match=says)
    told = f"rank {ranks - 1}: .*{error.__name__}: .*{says}"
    return pytest.raises(RankError, match=told)


def a_closure_fails() -> None:
    _, optimizer = failing()

    def closure() -> None:
        if rank == ranks - 1:
            raise ZeroDivisionError("of its own")

    with raises(ZeroDivisionError, "of its own"):
        optimizer.step(closure)
    optimizer.step()  # the groups are still in order


def a_gradient_is_wrong() -> None:
    params, optimizer = failing()
    if rank == ranks - 1:
        params[1].grad = torch.ones(8, 12, device=KIND).to_sparse()
    with raises(ArgumentTypeError, "sparse"):
        optimizer.step()


def an_iteration_fails() -> None:
    for name in ("polar", "_adjustment"):  # before and after the last exchange
        params, optimizer = failing()
        before = [whole(p) for p in params]

        def fail(*arguments: Any, **options: Any) -> Tensor:
            raise torch.OutOfMemoryError("no memory left")

        with pytest.MonkeyPatch.context() as patch:
            if rank == ranks - 1:
                patch.setattr(muon, name, fail)
            with raises(torch.OutOfMemoryError, "no memory left"):
                optimizer.step()
        if name == "polar":
            assert all(torch.equal(whole(p), x) for p, x in zip(params, before, strict=True))


def other_parameters() -> None:
    mesh = init_device_mesh(KIND, (ranks,))
    params = [spread(x, mesh, [Shard(0)]) for x in random([(8, 12), (12, 8)], 0)]
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.raises(RankError, match="have different matrices"):
        Muon(params[::-1] if rank else params, timeout=20).step()


def a_rank_does_not_come() -> None:
    params, optimizer = failing()
    optimizer = Muon(params, timeout=1)
    optimizer.step()
    if rank == ranks - 1:
        sleep(3)
        return
    begin = monotonic()
    with pytest.raises(RankError, match=r"did not report within 1 s"):
        optimizer.step()
    assert monotonic() - begin < 3


def a_rank_dies() -> None:
    _, optimizer = failing()
    optimizer.step()
    if rank == ranks - 1:
        os._exit(0)
    with pytest.raises(RankError, match="is gone"):
        optimizer.step()


CASES = [
    rows_columns_replicas_and_plain_tensors,
    divided_replicas,
    many_rounds,
    meshes_of_two_dimensions,
    meshes_that_overlap,
    sixteen_bits_on_the_way,
    fsdp_compiled,
    ddp_compiled,
    fsdp_over_tensor_parallelism,
    state_round_trip,
    checkpoint_of_one_process,
    no_gradient_on_some_ranks,
    no_gradient_on_some_replicas,
    a_closure_fails,
    a_gradient_is_wrong,
    an_iteration_fails,
    other_parameters,
    a_rank_does_not_come,
    a_rank_dies,
]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    if KIND == "cuda":
        torch.cuda.set_device(rank)
    backend = "gloo" if KIND == "cpu" else "nccl"
    dist.init_process_group(backend, f"file://{folder}/store", rank=rank, world_size=ranks)
    found: dict[str, str] = {}
    for case in CASES:
        begin = monotonic()
        if case is a_rank_dies:  # and cannot write any more
            (folder / f"{rank}.json").write_text(json.dumps({**found, case.__name__: "passed"}))
        try:
            case()
            found[case.__name__] = "passed"
        except BaseException:
            found[case.__name__] = traceback.format_exc()
        print(f"{case.__name__}: {monotonic() - begin:.1f} s", file=sys.stderr)
    (folder / f"{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # no farewell to a group with a dead member


if __name__ == "__main__":
    rank, ranks = int(sys.argv[2]), int(sys.argv[3])
    main(Path(sys.argv[1]))
