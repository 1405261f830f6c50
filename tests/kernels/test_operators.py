"""Calls as they were planned: what is compiled of operators, on a GPU that is not there, where
kernels are host functions that read arguments as those of CuTe DSL do, and compute with torch.
"""

from __future__ import annotations

import ctypes
import gc
import math
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.facts import Facts, file_name, read_facts
from schedgen.kernels import (
    attention,
    attention_op,
    dropout_op,
    gated_op,
    gemm,
    gemm_op,
    library,
    load,
    mixed_op,
    native,
    of_file,
    operators,
    plans,
    rms_op,
    scaled_op,
    symmetric_gemm,
)
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.launcher import DTYPES, frame_layout
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.operators import Operator
from tests.kernels.standin import StandIn, install
from tests.kernels.test_attention_op import operands
from tests.kernels.test_gemm_op import random

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
OPERATORS = [
    attention_op.OPERATOR,
    *(dropout_op.PRODUCT, dropout_op.ELEMENTS),
    gemm_op._gemm,  # pyright: ignore[reportPrivateUsage]
    gemm_op._gemm_out,  # pyright: ignore[reportPrivateUsage]
    *(gemm_op._gemm_gelu, gemm_op._gemm_gelu_out),  # pyright: ignore[reportPrivateUsage]
    *gated_op.OPERATORS["silu"],  # pyright: ignore[reportPrivateUsage]
    rms_op._gemm_rms,  # pyright: ignore[reportPrivateUsage]
    *(rms_op._gemm_scaled, rms_op._gemm_scaled_out),  # pyright: ignore[reportPrivateUsage]
    gemm_op._symmetric_gemm,  # pyright: ignore[reportPrivateUsage]
    gemm_op._symmetric_gemm_out,  # pyright: ignore[reportPrivateUsage]
    *(mixed_op._mixed_gemm, mixed_op._mixed_gemm_out),  # pyright: ignore[reportPrivateUsage]
    *(scaled_op._scaled_gemm, scaled_op._scaled_gemm_out),  # pyright: ignore[reportPrivateUsage]
]
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t
)

_compiled: dict[Operator, native.Native] = {}


class Kernel(StandIn):
    """Stands in for `Launcher`, also for the host function behind it."""

    planned: list[str]
    every: dict[int, Kernel]
    failing = False

    def __init__(self, calls: list[str], name: str) -> None:
        super().__init__(calls, name)
        self.facts: Facts = read_facts(library.named(name))
        self.number = len(self.every) + 1
        self.every[self.number] = self

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        recorder = plans.current()
        if recorder is None:
            super().launch(tensors, scalars)
        else:
            run = ctypes.cast(_run, ctypes.c_void_p).value or 0
            target = plans.Target(run, self.number, frame_layout(self.facts))
            recorder.launch(target, tensors, scalars)

    def call(self, places: Any, count: int) -> int:
        """What the host function does with its arguments."""
        if self.failing:
            ctypes.c_int32.from_address(places[count - 1]).value = 700
            return 0
        arguments = self.arguments(places, count)
        self.planned.append(self.name)
        super().launch(*arguments)
        return 0

    def arguments(self, places: Any, count: int) -> tuple[list[Tensor], list[float]]:
        """Tensors and scalars that it is passed."""
        facts = self.facts
        assert count == len(facts.parameters) + 2  # the stream, and the result
        tensors = [
            _tensor(places[n], len(p.extents), DTYPES[p.dtype]) for n, p in enumerate(facts.tensors)
        ]
        scalars: list[float] = [
            (ctypes.c_int32 if one.whole else ctypes.c_float).from_address(place).value
            for one, place in zip(facts.scalars, places[len(tensors) : count - 2], strict=True)
        ]
        return tensors, scalars


@_RUN
def _run(function: int, places: Any, count: int) -> int:
    try:
        return Kernel.every[function].call(places, count)
    except BaseException as error:  # which cannot pass through C
        Kernel.planned.append(repr(error))
        return 1


def _tensor(place: int, rank: int, dtype: torch.dtype) -> Tensor:
    """A tensor as its address, extents and strides say."""
    address = ctypes.c_void_p.from_address(place).value
    shape = (ctypes.c_int32 * rank).from_address(place + 8)
    strides = (ctypes.c_int64 * (rank - 1)).from_address(place + 8 + (4 * rank + 7) // 8 * 8)
    size = 1 + sum((n - 1) * s for n, s in zip(shape, [*strides, 1], strict=True))
    memory = (ctypes.c_char * (size * dtype.itemsize)).from_address(address or 0)
    return torch.frombuffer(memory, dtype=dtype).as_strided(tuple(shape), (*strides, 1))


def opened(operator: Operator, patch: pytest.MonkeyPatch) -> None:
    """Gives an operator something compiled for tensors on the CPU, for one test."""
    if operator not in _compiled:
        assert operator._open()  # pyright: ignore[reportPrivateUsage]
        assert operator.native is not None
        _compiled[operator] = operator.native
    patch.setattr(operator, "native", _compiled[operator])
    patch.setattr(operator, "_opened", True)
    patch.setattr(operator, "_seen", type(operator._seen)())  # pyright: ignore


def made_of(calls: list[str], path: Path) -> Kernel:
    """The kernel in a generated file."""
    found = [kernel for kernel in Kernel.every.values() if kernel.name == path.name]
    return found[0] if found else Kernel(calls, path.name)


@pytest.fixture(autouse=True)
def planned(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """The names of kernels whose calls were planned; all are computed on the CPU."""
    calls = install(monkeypatch)
    made: dict[str, Kernel] = {}

    def launcher(device: torch.device, spec: str, **settings: str) -> Kernel:
        del device
        name = file_name(spec, "sm_90a", settings)
        if name not in made:
            made[name] = Kernel(calls, name)
        return made[name]

    monkeypatch.setattr(Kernel, "planned", [], raising=False)
    monkeypatch.setattr(Kernel, "every", {}, raising=False)
    monkeypatch.setattr(library, "launcher", launcher)
    monkeypatch.setattr(operators, "KEY", "CPU")
    monkeypatch.setattr(of_file, "launcher", lambda path, device: made_of(calls, path))  # pyright: ignore
    for operator in OPERATORS:
        opened(operator, monkeypatch)
    yield Kernel.planned
    for compiled in _compiled.values():
        compiled.forget()
    assert not any("Error" in name for name in Kernel.planned)


@pytest.mark.medium
@pytest.mark.parametrize("causal", [False, True])
def test_attention(planned: list[str], causal: bool) -> None:
    """Planned when it is seen twice; other tensors, other numbers, the same results."""
    for turn in range(4):
        q, k, v = (x + turn for x in operands(2, 40, 72, 4, 2, 64))
        scale = 0.125 * (turn + 1)
        out, lse = attention(q, k, v, softmax_scale=scale, causal=causal, return_lse=True)
        wanted = attention_op._forward(q, k, v, scale, causal)  # pyright: ignore
        assert torch.equal(out, wanted[0])
        assert torch.equal(lse, wanted[1])
        assert (out.stride(), lse.stride()) == (wanted[0].stride(), wanted[1].stride())
        assert len(planned) == max(0, turn - 1)


def test_parts_of_one_tensor(planned: list[str]) -> None:
    """q, k and v next to each other in one memory: each is taken from its own address."""
    for turn in range(3):
        q, k, v = torch.randn(2, 40, 3, 4, 64).bfloat16().unbind(2)
        out = attention(q, k, v)
        assert torch.equal(out, attention(*(x.contiguous() for x in (q, k, v))))
        assert len(planned) == 2 * max(0, turn - 1)


def test_addresses_that_are_the_same(planned: list[str]) -> None:
    """What was planned for a @ a.mT does not take a second matrix from the first."""
    for _ in range(3):
        a, b = random(64, 64), random(64, 64, seed=1)
        for left, right in ((a, a.mT), (a, b.mT), (a, a)):
            wanted = (left.float() @ right.float()).bfloat16()
            assert torch.allclose(gemm(left, right), wanted, atol=0.1)
    assert len(planned) == 3


@pytest.mark.parametrize(
    ("shape", "kernels"), [((64, 72, 40), 1), ((2, 64, 72, 40), 1), ((64, 72, 8192), 2)]
)
@pytest.mark.parametrize("addend", ["none", "row", "whole"])
def test_products(planned: list[str], shape: tuple[int, ...], kernels: int, addend: str) -> None:
    """Also in batches, and split along k, where parts are allocated."""
    *outer, m, n, k = shape
    for turn in range(6):
        a, b = random(*outer, m, k, seed=turn), random(*outer, k, n, seed=turn + 9)
        c = {"none": None, "row": random(n), "whole": random(*outer, m, n)}[addend]
        alpha, beta = 1.0 + turn, 2.0 - 4 * (turn % 2)
        found = gemm(a, b, c, alpha=alpha, beta=beta)
        wanted = torch.empty_like(found)
        gemm_op._compute(torch.device("cpu"), False, (a, b, c), alpha, beta, wanted)  # pyright: ignore
        assert torch.equal(found, wanted)
    assert len(planned) == 2 * kernels  # the sign of beta is part of the signature


def test_results_into_a_tensor(planned: list[str]) -> None:
    """Also into the addend itself; what overlaps an operand is refused each time."""
    a, b, c = random(64, 64), random(64, 64, seed=1), random(64, 64, seed=2)
    for turn in range(4):
        out, wanted = c.clone(), gemm(a, b, c)
        version = out._version
        assert gemm(a, b, out, out=out) is out
        assert torch.equal(out, wanted)
        assert out._version > version, turn
    assert planned
    memory = torch.randn(2 * 64 * 64).bfloat16()
    a, out = memory[: 64 * 64].view(64, 64), memory[64 * 32 : 64 * 96].view(64, 64)
    for _ in range(3):
        with pytest.raises(ArgumentValueError, match="it overlaps a"):
            gemm(a, b, out=out)


def test_symmetric_products(planned: list[str]) -> None:
    for turn in range(4):
        a = random(72, 40, seed=turn)
        found = symmetric_gemm(a)
        assert torch.allclose(found.float(), a.float() @ a.float().mT, atol=0.2, rtol=0.02)
    assert len(planned) == 2


def test_arguments_that_are_wrong(planned: list[str]) -> None:
    """A signature that is refused is refused each time."""
    for _ in range(3):
        with pytest.raises(ArgumentValueError, match="its head_dim is 48"):
            attention(*operands(1, 16, 16, 1, 1, 48))
        with pytest.raises(ArgumentValueError, match="softmax_scale"):
            attention(*operands(1, 16, 16, 1, 1, 64), softmax_scale=-1.0)
        with pytest.raises(ArgumentValueError, match="finite numbers"):
            gemm(random(8, 8), random(8, 8), alpha=math.inf)
    assert not planned


def test_tensors_of_another_device(planned: list[str]) -> None:
    """What is compiled is for one kind of device; others get the fake, or what it refuses."""
    for _ in range(3):
        a, other = random(64, 64), random(64, 64).to("meta")
        assert (gemm(a, a).device.type, gemm(other, other).device.type) == ("cpu", "meta")
    assert len(planned) == 1


def test_layouts_that_are_copied(planned: list[str]) -> None:
    """Copies are steps of plans, also where only the address is another one."""
    memory = torch.randn(8 * 64 * 3 + 1).bfloat16()
    for _ in range(3):
        odd = memory[1 : 1 + 8 * 64].view(8, 64)  # no address that is a multiple of 16 bytes
        assert torch.equal(gemm(odd, odd.mT), gemm(odd.clone(), odd.clone().mT))
        wide = memory[: 8 * 3 * 64].view(8, 3, 64)[:, 0, ::3]
        assert torch.equal(gemm(wide, wide.mT), gemm(wide.contiguous(), wide.contiguous().mT))
    assert len(planned) == 3  # the copies of odd, wide, and its copies


def test_rows_that_see_no_key(planned: list[str]) -> None:
    """They are filled, which no plan does."""
    for _ in range(3):
        out = attention(*operands(1, 9, 4, 1, 1, 64), causal=True)
        assert not out[:, :5].any()
    assert not planned


def test_a_launch_that_fails(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Python tries again, and says what is wrong."""
    q, k, v = operands(1, 16, 16, 1, 1, 64)
    out = [attention(q, k, v) for _ in range(3)][-1]
    monkeypatch.setattr(Kernel, "failing", True)
    assert torch.equal(attention(q, k, v), out)
    assert len(planned) == 1


@pytest.mark.medium
def test_nothing_is_lost(planned: list[str]) -> None:
    """Tensors of calls are given back, those of results to whoever holds them."""
    a = random(64, 64)

    def held() -> int:
        return torch._C._storage_Use_Count(a.untyped_storage()._cdata)  # pyright: ignore

    def tensors() -> int:
        gc.collect()
        return sum(isinstance(one, Tensor) for one in gc.get_objects())

    for _ in range(3):
        gemm(a, a)
    before, holders = tensors(), held()
    kept = [gemm(a, a) for _ in range(20)]
    assert tensors() - before == len(kept)
    assert held() == holders
    assert len(planned) == 21


def test_plans_are_of_signatures(planned: list[str]) -> None:
    operator = gemm_op._gemm  # pyright: ignore[reportPrivateUsage]
    assert operator.native is not None
    for rows in (8, 16, 8, 16, 24, 8):
        gemm(random(rows, 64), random(64, 8))
    assert operator.native.plans == 2
    assert len(planned) == 1


def test_plans_that_were_dropped(planned: list[str]) -> None:
    """They are made again; what has none, because zeros are filled in, is not tried again."""
    a, none = random(64, 64), random(64, 0)
    for _ in range(3):
        gemm(a, a)
        gemm(none, none.mT)
    assert len(planned) == 1
    for compiled in _compiled.values():
        compiled.forget()
    for _ in range(3):
        gemm(a, a)
    assert len(planned) == 2
    operator = gemm_op._gemm  # pyright: ignore[reportPrivateUsage]
    assert list(operator._seen.values()) == [False]  # pyright: ignore[reportPrivateUsage]


def test_kernels_of_files(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are arguments; what they are made from may be at the same place."""
    kernel = load("gemm_sm_90a_bf16_tile_n128.py")
    opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    a, b = random(1, 64, 72), random(1, 40, 72)
    for turn in range(4):
        d = random(1, 64, 40)
        wanted = (a.float() @ b.float().mT * 2 + d.float() * (turn + 1)).bfloat16()
        kernel(a, b, d, d, 2, turn + 1.0)
        assert torch.equal(d, wanted)
        assert len(planned) == max(0, turn - 1)
    with pytest.raises(ArgumentValueError, match="pass a, b, c, d, alpha, beta"):
        kernel(a, b)


def test_kernels_of_specs(planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With several results, one of them in padded rows, and with extents that only results have."""
    kernel = SpecKernel(library.named("attention_fwd_sm_90a_head_dim64_bf16.py"))
    opened(kernel._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    for turn in range(4):
        q, k, v = (x + turn for x in operands(1, 50, 30, 2, 1, 64))
        out, lse = kernel(q, k, v, 0.125 * math.log2(math.e))
        wanted, wanted_lse = attention(q, k, v, softmax_scale=0.125, return_lse=True)
        assert torch.equal(out, wanted)
        assert torch.equal(lse, wanted_lse)
        assert lse.stride() == (104, 52, 1)
    parts = SpecKernel(library.named("gemm_parts_sm_90a_bf16_tile_n128.py"))
    opened(parts._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]
    a = random(1, 70, 640)
    for count in (2, 2, 2, 3, 2):
        found = parts(a, a, part=count)
        assert torch.allclose(found.sum(1), a.float() @ a.float().mT, atol=0.01)
    named = [name for name in planned if "parts" in name]
    assert len(named) == 2


def test_codes_of_data_types() -> None:
    """They are those of torch's C interface."""
    library = ctypes.CDLL(str(native.libraries() / "libtorch_cpu.so"))
    for dtype, code in plans.CODES.items():
        name = str(dtype).removeprefix("torch.")
        assert getattr(library, f"aoti_torch_dtype_{name}")() == code
