"""`polar` and Muon with generated kernels on a GPU, over many shapes.

python -m pytest tests/kernels/newton_schulz/test_on_gpu.py -m gpu
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from itertools import product
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor, nn

from schedgen.kernels import Muon, polar
from schedgen.kernels.newton_schulz import graphs, streams
from schedgen.kernels.newton_schulz.coefficients import resolve
from tests.kernels.newton_schulz.test_polar import DECAYING, GAUSSIAN, defect, error, reference

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

linalg: Any = torch.linalg
SIDES = (256, 264, 300, 384, 512, 640, 768, 900, 1000, 1152, 1536, 2048, 3000)
SHAPES = [
    *((1, m, n) for m, n in product(SIDES, SIDES)),
    *((b, m, n) for b in (2, 3, 16) for m, n in product((256, 300, 512), (256, 384, 1000))),
    *((1, 17, 40), (2, 255, 1000), (1, 1, 512)),
]


@pytest.mark.parametrize("method", ["gram", "standard"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gaussian(shape: tuple[int, int, int], method: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda")
    kept = x.clone()
    found = polar(x, method)
    wanted = reference(x, resolve("polar_express", 5))
    assert torch.equal(x, kept)
    assert found.isfinite().all()
    assert error(found, wanted) <= (GAUSSIAN if min(shape[1:]) > 1 else 2 * GAUSSIAN)
    assert defect(found[0]) == pytest.approx(defect(wanted[0]), rel=0.02, abs=5e-3)


@pytest.mark.parametrize("shape", [(512, 2048), (2048, 512), (1024, 1024), (1152, 3000)], ids=str)
@pytest.mark.parametrize("name", ["polar_express", "you", "jordan"])
def test_decaying(shape: tuple[int, int], name: str) -> None:
    torch.manual_seed(0)
    k = min(shape)
    left, right = (linalg.qr(torch.randn(size, k, device="cuda")).Q for size in shape)
    x = (left * torch.logspace(0, -5, k, device="cuda")) @ right.mT
    assert error(polar(x, coefficients=name), reference(x, resolve(name, 5))) <= DECAYING


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_special(dtype: torch.dtype) -> None:
    assert not polar(torch.zeros(2, 512, 768, device="cuda", dtype=dtype)).any()
    x = torch.randn(2, 512, 768, device="cuda").to(dtype)
    x[0, 3, 4] = math.nan
    found = polar(x)
    assert found[0].isnan().any()
    assert found[1].isfinite().all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_any_norm(scale: float) -> None:
    x = torch.randn(512, 768, device="cuda")
    assert error(polar(x * scale), polar(x).double()) <= GAUSSIAN


def test_backends_agree() -> None:
    x = torch.randn(4, 512, 1536, device="cuda")
    assert error(polar(x, backend="generated"), polar(x, backend="torch").double()) <= GAUSSIAN


def test_own_graphs() -> None:
    """Each call gets a result of its own, on whatever stream and thread."""
    inputs = [torch.randn(300, 512, device="cuda") for _ in range(4)]
    steps = resolve("polar_express", 5)
    results = [polar(x) for x in inputs]
    assert all(
        error(y, reference(x, steps)) <= GAUSSIAN for x, y in zip(inputs, results, strict=True)
    )
    torch.cuda.synchronize()
    failures: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                if not torch.equal(polar(inputs[number]), results[number]):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_graph() -> None:
    x = torch.randn(512, 1536, device="cuda")
    wanted = polar(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = polar(x)
    found.fill_(math.nan)
    graph.replay()
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("shape", [(300, 512), (4, 512, 1536), (8, 1024, 4096)], ids=str)
def test_side_by_side_changes_no_bit(
    shape: tuple[int, ...], captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does memory that is asked for and given back meanwhile, on either stream."""
    monkeypatch.setattr(graphs, "MOST_ELEMENTS", 1 << 25 if captured else 0)
    x = torch.randn(shape, device="cuda")
    with streams.in_order():
        wanted = polar(x)
    n = shape[-2]
    for _ in range(30):
        found = polar(x)
        here = torch.cuda.current_stream()
        for stream in (here, streams._beside(x.device, here.cuda_stream)):
            with torch.cuda.stream(stream):
                x.new_full((*shape[:-2], n, n), math.nan, dtype=torch.float16)
        assert torch.equal(found, wanted)


_CYCLES = 50_000_000
"""Some 30 ms, of one thread."""


def wait() -> Tensor:
    torch.cuda._sleep(_CYCLES)  # pyright: ignore[reportPrivateUsage]
    return torch.ones(1, device="cuda")


def milliseconds(run: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def test_side_by_side_takes_the_time_of_one() -> None:
    """On streams, and as nodes of a graph; what follows waits for both."""
    device = torch.device("cuda", torch.cuda.current_device())

    def both() -> None:
        streams.together(device, wait, wait)

    both()
    one, graph = milliseconds(wait), torch.cuda.CUDAGraph()
    assert milliseconds(both) == pytest.approx(one, rel=0.3)
    with torch.cuda.graph(graph):
        both()
    assert milliseconds(graph.replay) == pytest.approx(one, rel=0.3)
    short = streams.together(device, lambda: torch.zeros(1, device="cuda"), wait)
    assert (short[0] + short[1]).item() == 1


@pytest.mark.parametrize("place", [0, 1])
def test_a_call_that_raises_ends_a_capture(place: int) -> None:
    device = torch.device("cuda", torch.cuda.current_device())

    def refuse() -> NoReturn:
        raise KeyError(place)

    calls: list[Callable[[], Any]] = [wait, wait]
    calls[place] = refuse
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(KeyError), torch.cuda.graph(graph):
        streams.together(device, *calls)
    x = torch.randn(300, 512, device="cuda")
    assert polar(x).isfinite().all()


def test_muon() -> None:
    torch.manual_seed(0)
    start = [torch.randn(512, 1024, device="cuda") for _ in range(3)]
    ours, torchs = ([nn.Parameter(x.clone()) for x in start] for _ in range(2))
    optimizers = Muon(ours, lr=0.02), torch.optim.Muon(torchs, lr=0.02)
    for mine, other in zip(ours, torchs, strict=True):
        mine.grad = other.grad = torch.randn_like(mine)
    for optimizer in optimizers:
        optimizer.step()
    for old, mine, other in zip(start, ours, torchs, strict=True):
        step, apart = ((other - x).square().sum().sqrt() for x in (old, mine))
        assert apart < 0.03 * step
