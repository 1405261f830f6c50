"""Muon on several GPUs of one host beside Muon on one of them.

    python benchmarks/muon_sharded.py [--save] [--ranks N] [--cpu]

Matrices of transformer blocks, as DTensors that are sharded by rows as FSDP2 does it, or
replicated as under DDP; on N GPUs, or on 2 and 4 as far as there are any. *Difference* is the
largest distance of an updated matrix from that of one GPU, relative to its step. Times are medians
of whole steps, from all GPUs idle to all GPUs idle, of the slowest rank. *Sent*: by the rank that
sends most, in a step; *least*: if each part went to its owner and each result back in 16 bits, from
all ranks alike. Then one rank fails, in an iteration; and one dies: whether all others end with an
error, and after how long. With --cpu small matrices go through gloo, to try the script.

The exit status is 1 if a difference is beyond what rounding explains, or a rank saw no error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from report import keep, table
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from schedgen.kernels import Muon
from schedgen.kernels.newton_schulz import muon

CPU = "--cpu" in sys.argv
KIND = "cpu" if CPU else "cuda"
_STEPS, _WARM_UP = (3, 1) if CPU else (15, 4)
_SCALE = 32 if CPU else 1
_ROUNDING = 2e-2
"""Between two evaluations, each of which may be 1e-2 off where float16 rounds its iterations
(tests/kernels/newton_schulz/test_polar.py)."""


@dataclass(frozen=True)
class Model:
    """``layers`` times four square matrices and ``wide`` between the width and the inner width."""

    width: int
    inner: int
    wide: int
    layers: int

    def shapes(self) -> list[tuple[int, int]]:
        width, inner = self.width // _SCALE, self.inner // _SCALE
        block = [(width, width)] * 4 + [(inner, width), (width, inner), (inner, width)][: self.wide]
        return block * self.layers


MODELS = [Model(2048, 8192, 2, 8), Model(4096, 11008, 3, 3)]
WAYS: list[tuple[str, torch.dtype, torch.dtype | None]] = [
    ("rows", torch.float32, None),
    ("rows", torch.float32, torch.bfloat16),
    ("rows", torch.bfloat16, None),
    ("replicas", torch.bfloat16, None),
]
"""How matrices lie, of what type they are, and in what type they travel."""


def _tensors(shapes: list[tuple[int, int]], dtype: torch.dtype) -> list[Tensor]:
    """The same on all ranks."""
    generator = torch.Generator(KIND).manual_seed(0)
    return [torch.randn(s, generator=generator, device=KIND).to(dtype) for s in shapes]


def _idle() -> None:
    if not CPU:
        torch.cuda.synchronize()
    dist.barrier()


def _milliseconds(step: Callable[[], Any]) -> float:
    """Median of steps, of the slowest rank."""
    times: list[float] = []
    for number in range(_WARM_UP + _STEPS):
        _idle()
        begin = perf_counter()
        step()
        if not CPU:
            torch.cuda.synchronize()
        if number >= _WARM_UP:
            times.append(perf_counter() - begin)
    slowest = torch.tensor(times, device=KIND, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return median(slowest.tolist()) * 1e3


def _measured(
    model: Model, way: str, dtype: torch.dtype, travels: torch.dtype | None
) -> dict[str, object]:
    ranks, shapes = dist.get_world_size(), model.shapes()
    # From zero on: bfloat16 parameters of size 1 would round most of a step away.
    start, grads = (
        [torch.zeros(s, dtype=dtype, device=KIND) for s in shapes],
        _tensors(shapes, dtype),
    )
    alone = [nn.Parameter(x.clone()) for x in start]
    mesh = init_device_mesh(KIND, (ranks,))
    options: dict[str, Any] = {"lr": 0.02, "communication_dtype": travels}
    if way == "replicas":
        many = [nn.Parameter(x.clone()) for x in start]
        options["process_group"] = dist.group.WORLD
    else:
        many = [nn.Parameter(distribute_tensor(x.clone(), mesh, [Shard(0)])) for x in start]
    for one, other, grad in zip(alone, many, grads, strict=True):
        whole: Any = other
        one.grad = grad
        other.grad = grad if way == "replicas" else distribute_tensor(grad, mesh, whole.placements)
    single, shared = Muon(alone, lr=0.02), Muon(many, **options)
    single.step()
    shared.step()
    difference = 0.0
    for one, other in zip(alone, many, strict=True):
        whole = other
        found = (whole.full_tensor() if isinstance(whole, DTensor) else whole).detach().float()
        step = one.detach().float()
        difference = max(difference, ((found - step).norm() / step.norm()).item())
    one_ms, ms = _milliseconds(single.step), _milliseconds(shared.step)
    sent = torch.tensor(shared.bytes_sent, device=KIND)
    dist.all_reduce(sent, dist.ReduceOp.MAX)
    elements = sum(m * n for m, n in shapes)
    # The owner's own part of each matrix does not travel; replicas have it all from the start.
    there = 0 if way == "replicas" else (travels or dtype).itemsize / ranks
    least = elements * (ranks - 1) / ranks * (there + (2 if way == "replicas" else 2 / ranks))
    return {
        "width": model.width // _SCALE,
        "matrices": len(shapes),
        "elements": f"{elements / 1e6:.0f} M",
        "parts": way,
        "type": str(dtype).removeprefix("torch."),
        "travels as": str(travels or dtype).removeprefix("torch."),
        "ranks": ranks,
        "difference": f"{difference:.1e}",
        "one GPU ms": round(one_ms, 2),
        "ms": round(ms, 2),
        "speed-up": round(one_ms / ms, 2),
        "sent MB": round(sent.item() / 1e6, 1),
        "least MB": round(least / 1e6, 1),
    }


# -- failures -------------------------------------------------------------------------------------


def _small(timeout: float) -> Muon:
    mesh = init_device_mesh(KIND, (dist.get_world_size(),))
    tensors = _tensors([(512, 1024)] * 8, torch.float32)
    params = [nn.Parameter(distribute_tensor(x, mesh, [Shard(0)])) for x in tensors]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = Muon(params, timeout=timeout)
    optimizer.step()
    _idle()
    return optimizer


def _outcome(optimizer: Muon) -> dict[str, object]:
    begin = perf_counter()
    try:
        optimizer.step()
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return {"seconds": round(perf_counter() - begin, 3), "error": text[:150]}


def _fails() -> dict[str, object]:
    def no_memory(*arguments: Any, **options: Any) -> Tensor:
        raise torch.OutOfMemoryError("no memory, as a test")

    last, optimizer = dist.get_rank() == dist.get_world_size() - 1, _small(60)
    real: Any = muon.polar  # pyright: ignore[reportPrivateImportUsage]
    with mock.patch.object(muon, "polar", no_memory if last else real):
        found = _outcome(optimizer)
    optimizer.step()  # all ranks can go on
    _idle()
    return found


def _dies() -> dict[str, object]:
    optimizer = _small(60)
    if dist.get_rank() == dist.get_world_size() - 1:
        os._exit(0)
    return _outcome(optimizer)


# -- processes ------------------------------------------------------------------------------------


def _rank(rank: int, ranks: int, folder: str) -> None:
    if CPU:
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "gloo" if CPU else "nccl", f"file://{folder}/store", rank=rank, world_size=ranks
    )
    rows: list[dict[str, object]] = []
    for model in MODELS:
        for way in WAYS:
            rows.append(_measured(model, *way))
            if rank == 0:
                print(rows[-1], flush=True)
    failures: list[dict[str, object]] = []
    for name, case in (("an iteration fails", _fails), ("a rank dies", _dies)):
        failures.append({"case": name, "ranks": ranks, "rank": rank, **case()})
        Path(folder, f"{rank}.json").write_text(json.dumps([rows, failures]), "utf-8")
    os._exit(0)  # NCCL would wait for the dead


def _run(ranks: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Measurements, and what each rank said about failures; the dead say nothing."""
    with tempfile.TemporaryDirectory() as folder:
        processes: Any = torch.multiprocessing
        processes.spawn(_rank, (ranks, folder), nprocs=ranks)
        found = [
            json.loads(Path(folder, f"{rank}.json").read_text("utf-8")) for rank in range(ranks)
        ]
    failures = [row for _, each in found for row in each]
    assert len(failures) == 2 * ranks - 1, failures
    return found[0][0], failures


def main() -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast, which not every host allows
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's name need not have an address
    wanted = [n for n in (2, 4) if n <= (2 if CPU else torch.cuda.device_count())]
    if "--ranks" in sys.argv:
        wanted = [int(sys.argv[sys.argv.index("--ranks") + 1])]
    if not wanted:
        sys.exit("this needs two GPUs of one host; or --cpu, to try the script")
    rows, failures = list[dict[str, object]](), list[dict[str, object]]()
    for ranks in wanted:
        measured, said = _run(ranks)
        rows += measured
        failures += said
    print(table(rows))
    print(table(failures))
    if not CPU:
        keep("muon_sharded", rows)
        keep("muon_sharded_failures", failures)
    silent = sum(row["error"] == "no error" for row in failures)
    apart = sum(float(str(row["difference"])) > _ROUNDING for row in rows)
    if silent or apart:
        sys.exit(f"{silent} ranks saw no error, {apart} differences are too large")


if __name__ == "__main__":
    main()
