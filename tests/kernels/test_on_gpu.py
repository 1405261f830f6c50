"""Generated kernels on a GPU: results against float64 beside torch's, determinism, torch.compile,
CUDA graphs, streams, the cache. Outputs are poisoned before each run.

    python -m pytest tests/kernels/test_on_gpu.py -m gpu
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from schedgen.codegen.facts import file_name
from schedgen.kernels import attention, gemm, kernel, load, symmetric_gemm
from schedgen.kernels.launcher import architecture
from schedgen.kernels.library import named
from schedgen.spec.reader import read_spec
from tests.kernels.gpu_cases import (
    BF16,
    Attention,
    Product,
    assert_as_good,
    attention_cases,
    attention_reference,
    attention_torch,
    chain_cases,
    epilogue_cases,
    gemm_cases,
    poisoned,
    random,
    symmetric_cases,
)

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def generated(spec: str, dtype: torch.dtype) -> Path:
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    return named(file_name(spec, architecture(GPU), {"dtype": name}))


def nans(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.full(shape, math.nan, device=GPU, dtype=dtype)


@pytest.mark.parametrize("case", attention_cases(), ids=str)
def test_attention(case: Attention) -> None:
    q = random(case.batch, case.seq_q, case.heads, case.head_dim, dtype=case.dtype)
    k, v = (
        random(case.batch, case.seq_k, case.heads_k, width, dtype=case.dtype)
        for width in (case.head_dim, case.head_dim_v or case.head_dim)
    )
    with poisoned():
        out, lse = attention(q, k, v, causal=case.causal, return_lse=True)
    wanted, wanted_lse = attention_reference(q, k, v, case.causal)
    assert_as_good(out, attention_torch(q, k, v, case.causal), wanted)
    assert torch.allclose(lse.double(), wanted_lse, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("case", gemm_cases(), ids=str)
def test_gemm(case: Product) -> None:
    a = random(case.batch, case.m, case.k, dtype=case.dtype)
    b = random(case.batch, case.n, case.k, dtype=case.dtype).mT
    c = random(case.batch, case.m, case.n, dtype=case.dtype)
    with poisoned():
        plain, sum_ = gemm(a, b), gemm(a, b, c, alpha=0.5, beta=0.25)
    product = a.double() @ b.double()
    assert_as_good(plain, a @ b, product)
    torchs = torch.baddbmm(c, a, b, alpha=0.5, beta=0.25)
    assert_as_good(sum_, torchs, 0.5 * product + 0.25 * c.double())


@pytest.mark.parametrize("case", symmetric_cases(), ids=str)
def test_symmetric_gemm(case: Product) -> None:
    a = random(case.batch, case.m, case.k, dtype=case.dtype)
    c = random(case.batch, case.m, case.m, dtype=case.dtype)
    c = c + c.mT
    with poisoned():
        plain, sum_ = symmetric_gemm(a), symmetric_gemm(a, c=c, alpha=0.5, beta=0.25)
    product = a.double() @ a.double().mT
    assert torch.equal(plain, plain.mT)
    assert torch.equal(sum_, sum_.mT)
    assert_as_good(plain, a @ a.mT, product)
    torchs = torch.baddbmm(c, a, a.mT, alpha=0.5, beta=0.25)
    assert_as_good(sum_, torchs, 0.5 * product + 0.25 * c.double())


@pytest.mark.parametrize("case", epilogue_cases(), ids=str)
def test_gemm_epilogue(case: Product) -> None:
    a = random(case.batch, case.m, case.k, dtype=case.dtype)
    b = random(case.batch, case.n, case.k, dtype=case.dtype)
    bias = random(case.n, dtype=case.dtype)
    d = nans(case.batch, case.m, case.n, dtype=case.dtype)
    load(generated("gemm_epilogue", case.dtype))(a, b, bias, d)
    reference = functional.gelu(a.double() @ b.double().mT + bias.double(), approximate="tanh")
    assert_as_good(d, functional.gelu(a @ b.mT + bias, approximate="tanh"), reference)


@pytest.mark.parametrize("case", chain_cases(), ids=str)
def test_gemm_chain(case: Product) -> None:
    a = random(case.batch, case.m, 128, dtype=case.dtype)
    b = random(case.batch, case.n, 128, dtype=case.dtype)
    c = random(case.batch, case.n, case.k, dtype=case.dtype)
    d = nans(case.batch, case.m, case.k, dtype=case.dtype)
    load(generated("gemm_chain", case.dtype))(a, b, c, d)
    reference = (a.double() @ b.double().mT) @ c.double()
    assert_as_good(d, (a @ b.mT) @ c, reference)


def _rows(x: Tensor) -> Tensor:
    return x


def _columns(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def _misaligned(x: Tensor) -> Tensor:
    return torch.cat((x, x[..., :3]), -1)[..., 3:]


def _expanded(x: Tensor) -> Tensor:
    return x[:1].expand_as(x)


@pytest.mark.parametrize("layout", [_rows, _columns, _misaligned, _expanded])
def test_layouts_of_operands(layout: Callable[[Tensor], Tensor]) -> None:
    a, b, c = (layout(random(3, 136, 136)) for _ in range(3))
    with poisoned():
        found = gemm(a, b, c, beta=0.5)
    assert_as_good(
        found, torch.baddbmm(c, a, b, beta=0.5), a.double() @ b.double() + 0.5 * c.double()
    )
    out = layout(random(3, 136, 136)) if layout(a).stride(0) else torch.empty_like(found)
    gemm(a, b, c, beta=0.5, out=out)
    assert torch.equal(out, found)


def test_broadcasting() -> None:
    x, weight, bias = random(2, 3, 40, 64), random(128, 64), random(128)
    reference = x.double() @ weight.double().mT + bias.double()
    assert_as_good(gemm(x, weight.mT, bias), functional.linear(x, weight, bias), reference)


def test_packed_projection() -> None:
    q, k, v = random(2, 333, 3, 4, 64).unbind(2)
    wanted = attention_reference(q, k, v, True)[0]
    assert_as_good(attention(q, k, v, causal=True), attention_torch(q, k, v, True), wanted)


def _attention_problem() -> Callable[[], tuple[Tensor, ...]]:
    q, k, v = random(2, 1000, 4, 128), random(2, 1333, 2, 128), random(2, 1333, 2, 128)
    return lambda: attention(q, k, v, causal=True, return_lse=True)


def _gemm_problem() -> Callable[[], tuple[Tensor, ...]]:
    a, b, c = random(1000, 520), random(520, 1032), random(1000, 1032)
    return lambda: (gemm(a, b, c, beta=0.5),)


def _symmetric_problem() -> Callable[[], tuple[Tensor, ...]]:
    a = random(3, 1000, 520)
    return lambda: (symmetric_gemm(a),)


def _claimed_problem() -> Callable[[], tuple[Tensor, ...]]:
    """Tiles that blocks claim from a counter, which nobody else may have at a time."""
    text = read_spec("gemm").source.text.replace("persistent: true", "claim: dynamic")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "gemm_claimed.yaml"
        path.write_text(text, "utf-8")
        run = kernel(path)
    a, b, c = random(3, 2500, 520), random(3, 2600, 520), random(3, 2500, 2600)
    return lambda: (run(a, b, c, 1.0, 0.5),)


PROBLEMS = [_attention_problem, _gemm_problem, _symmetric_problem, _claimed_problem]


@pytest.mark.parametrize("make", PROBLEMS)
def test_1000_runs_are_equal(make: Callable[[], Callable[[], tuple[Tensor, ...]]]) -> None:
    run = make()
    first = [x.clone() for x in run()]
    different = torch.zeros((), dtype=torch.int64, device=GPU)
    with poisoned():
        for _ in range(1000):
            for found, wanted in zip(run(), first, strict=True):
                different += (found != wanted).sum()
    assert different.item() == 0


@pytest.mark.parametrize("make", PROBLEMS)
def test_graph(make: Callable[[], Callable[[], tuple[Tensor, ...]]]) -> None:
    run = make()
    wanted = [x.clone() for x in run()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    for _ in range(3):
        for x in found:
            x.fill_(math.nan)
        graph.replay()
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


def test_graphs_of_claims_run_beside_each_other() -> None:
    """Each captured launch counts by itself, also where all were captured on one stream."""
    run = _claimed_problem()
    wanted = run()[0].clone()
    graphs: list[tuple[torch.cuda.CUDAGraph, list[Tensor]]] = []
    for _ in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = [run()[0] for _ in range(3)]
        graphs.append((graph, found))
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, (graph, _) in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        eager = run()[0]  # at the same time
        torch.cuda.synchronize()
        assert torch.equal(eager, wanted)
        assert all(torch.equal(one, wanted) for _, found in graphs for one in found)


@pytest.mark.parametrize("make", PROBLEMS)
def test_other_streams_and_threads(make: Callable[[], Callable[[], tuple[Tensor, ...]]]) -> None:
    run = make()
    wanted = [x.clone() for x in run()]
    torch.cuda.synchronize()
    failures: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                if not all(torch.equal(x, y) for x, y in zip(run(), wanted, strict=True)):
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_opcheck() -> None:
    ops = torch.ops.schedgen
    q, k = random(2, 70, 4, 64), random(2, 50, 2, 64)
    for causal in (False, True):
        torch.library.opcheck(ops.attention_fwd.default, (q, k, k, 0.125, causal))
    a, b, c = random(40, 72), random(72, 24), random(24)
    for name, arguments in (
        ("gemm", (a, b, c, 0.5, 0.25)),
        ("gemm_out", (a, b, c, 0.5, 0.25, random(40, 24))),
        ("symmetric_gemm", (a, a.mT, None, 1.0, 1.0)),
        ("symmetric_gemm_out", (a, a.mT, None, 1.0, 1.0, random(40, 40))),
    ):
        torch.library.opcheck(getattr(ops, name).default, arguments)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_block(mode: str) -> None:
    """One graph; with ``reduce-overhead`` it becomes a CUDA graph."""
    width, heads = 256, 4
    weights = random(3 * width, width) / 16, random(width, width) / 16

    def block(x: Tensor) -> Tensor:
        qkv = gemm(x, weights[0].mT).view(*x.shape[:2], 3, heads, width // heads)
        out = attention(*qkv.unbind(2), causal=True)
        return gemm(out.reshape(x.shape), weights[1].mT, x)

    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(4):
        x = random(2, 128, width)
        assert torch.equal(compiled(x).clone(), block(x))


_FIRST_COMPILED = """
import torch
from schedgen.kernels import gemm
a, b = (torch.randn(96, 96, device="cuda", dtype=torch.bfloat16) for _ in range(2))
compiled = torch.compile(lambda a: gemm(a, b), fullgraph=True, mode="reduce-overhead")
for _ in range(4):
    assert torch.equal(compiled(a).clone(), gemm(a, b))
"""


def test_first_call_is_compiled() -> None:
    """A kernel that is loaded while ``reduce-overhead`` warms up leaves nothing in its memory."""
    setting = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", _FIRST_COMPILED],
        env=setting,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]


_FIRST_CALL = """
import time, torch
x = torch.randn(1, 256, 2, 128, device="cuda", dtype=torch.bfloat16)
torch.nn.functional.scaled_dot_product_attention(x, x, x)
torch.cuda.synchronize()
begin = time.perf_counter()
from schedgen.kernels import attention
attention(x, x, x)
torch.cuda.synchronize()
print(time.perf_counter() - begin)
"""


def test_second_process_starts_fast() -> None:
    """From a running torch to the first result; the first process compiles if need be."""
    setting = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seconds: list[float] = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", _FIRST_CALL],
            env=setting,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        seconds.append(float(run.stdout))
    print(f"first process {seconds[0]:.2f} s, second {seconds[1]:.2f} s")
    assert seconds[1] < 1.0


def test_wrong_architecture(tmp_path: Path) -> None:
    path = generated("gemm", BF16)
    here = architecture(GPU)
    other = {"sm_90a": "sm_100a", "sm_100a": "sm_90a"}[here]
    (file := tmp_path / "other.py").write_text(
        path.read_text("utf-8").replace(f'TARGET = "{here}"', f'TARGET = "{other}"'), "utf-8"
    )
    x = random(1, 8, 8)
    with pytest.raises(RuntimeError, match=f"is for {other}"):
        load(file)(x, x, x, x, 1.0, 0.0)


def test_tensors_on_the_host() -> None:
    x = torch.zeros(8, 8, dtype=BF16)
    with pytest.raises(ValueError, match="a: it is on cpu"):
        gemm(x, x)
    with pytest.raises(ValueError, match="b: it is on cpu"):
        gemm(x.cuda(), x)
