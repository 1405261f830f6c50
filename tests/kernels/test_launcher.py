"""Loading kernels: the cache on disk, arguments as the runtime takes them, files of users."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.compiling import Built
from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import Facts, Parameter, read_facts
from schedgen.errors import SchedgenError
from schedgen.kernels import cache, layouts, library, load
from schedgen.kernels.apart import apart
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from schedgen.kernels.launcher import _Frame
from schedgen.kernels.library import named

KERNEL = named("gemm_epilogue_sm_90a_bf16.py")


# -- cache ----------------------------------------------------------------------------------------


class Compiler:
    """Writes an object, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path, folder: Path, *, sms: int) -> Built:
        self.calls += 1
        made = folder / "kernel.o"
        made.write_bytes(f"{path.stem} {sms} {self.calls}".encode())
        return Built(made, made, made)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    compiler = Compiler()
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "compile_file", compiler)
    return compiler


def test_entry_is_used_again(compiler: Compiler) -> None:
    facts = read_facts(KERNEL)
    first = cache.compiled(KERNEL, facts, 132)
    assert first == b"gemm_epilogue_sm_90a_bf16 132 1"
    assert cache.compiled(KERNEL, facts, 132) == first
    assert compiler.calls == 1
    files = {path.suffix for path in cache.folder().iterdir()}
    assert files == {".o", ".lock"}


def test_key_is_content(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = read_facts(KERNEL)
    (copy := tmp_path / KERNEL.name).write_text(KERNEL.read_text("utf-8") + "# changed\n", "utf-8")
    cache.compiled(KERNEL, facts, 132)
    cache.compiled(KERNEL, facts, 114)
    cache.compiled(copy, read_facts(copy), 132)
    monkeypatch.setattr(cache, "toolchain", lambda: "another version")
    cache.compiled(KERNEL, facts, 132)
    assert compiler.calls == 4


@pytest.mark.parametrize("damage", [b"", b"too short", b"x" * 100])
def test_damaged_entry_is_replaced(
    compiler: Compiler, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    facts = read_facts(KERNEL)
    cache.compiled(KERNEL, facts, 132)
    (entry,) = cache.folder().glob("*.o")
    entry.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert cache.compiled(KERNEL, facts, 132).endswith(b" 2")
    assert "damaged" in caplog.text
    assert cache.compiled(KERNEL, facts, 132).endswith(b" 2")


def test_folder_that_cannot_be_written(
    compiler: Compiler,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING):
        assert cache.compiled(KERNEL, read_facts(KERNEL), 132).endswith(b" 1")
    assert "is not kept" in caplog.text


def _compile_slowly(folder: str, results: Any) -> None:
    class Slow(Compiler):
        def __call__(self, path: Path, folder: Path, *, sms: int) -> Built:
            results.put("compiled")
            return super().__call__(path, folder, sms=sms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCHEDGEN_CACHE_DIR", folder)
        patch.setattr(cache, "compile_file", Slow())
        cache.compiled(KERNEL, read_facts(KERNEL), 132)


def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=_compile_slowly, args=(str(tmp_path), results)) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert results.get(timeout=5) == "compiled"
    assert results.empty()


# -- arguments ------------------------------------------------------------------------------------


def facts(*ranks: int, scalars: int = 0) -> Facts:
    tensors = [Parameter(f"t{n}", tuple("xyzw"[:rank]), "bf16") for n, rank in enumerate(ranks)]
    numbers = [Parameter(f"s{n}", (), "f32") for n in range(scalars)]
    return Facts("kernel", "sm_90a", (*tensors, *numbers), (), (), 0, 0, 0, "0" * 64)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_tensors_are_packed_as_the_dsl_packs_them(rank: int) -> None:
    runtime: Any = pytest.importorskip("cutlass.cute.runtime")
    tensor = torch.zeros(2, 3, 5, 16, dtype=torch.bfloat16)[(0,) * (4 - rank)]
    frame = _Frame(facts(rank, rank))
    frame.fill([tensor, tensor], [], 0)
    theirs = runtime.from_dlpack(tensor, assumed_align=16)
    if rank > 1:
        theirs = theirs.mark_layout_dynamic(leading_dim=rank - 1)
        form = f"@P{rank}i{rank - 1}q"
        wanted = ctypes.string_at(theirs.__c_pointers__()[0], struct.calcsize(form))
    else:
        form = "@Pi"
        wanted = struct.pack(form, tensor.data_ptr(), 16)
    for place in list(frame.arguments)[:2]:
        found = ctypes.string_at(place, len(wanted))
        # Numbers, not bytes: nobody writes what pads four bytes to eight.
        assert struct.unpack(form, found) == struct.unpack(form, wanted)


def test_numbers_stream_and_result() -> None:
    frame = _Frame(facts(1, 3, scalars=2))
    frame.fill([torch.zeros(8), torch.zeros(1, 2, 8)], [0.5, -2.0], 1 << 40)
    places = list(frame.arguments)
    assert len(places) == frame.count == 6
    assert [struct.unpack("f", ctypes.string_at(p, 4))[0] for p in places[2:4]] == [0.5, -2.0]
    assert struct.unpack("P", ctypes.string_at(places[4], 8)) == (1 << 40,)
    ctypes.c_int32.from_address(places[5]).value = 7
    assert frame.result.value == 7
    assert all(place % 4 == 0 for place in places)
    assert all(place % 8 == 0 for place in (places[0], places[1], places[4]))


def bf16(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (bf16(4, 16), None),
        (bf16(4, 32)[:, :16], None),
        (bf16(16).expand(4, 16), None),
        (bf16(1, 12), None),  # the stride of a single row means nothing
        (bf16(4, 12), "stride 12 of dimension 0 is not a multiple of 16 bytes"),
        (bf16(16, 4).mT, "its last dimension has stride 4"),
        (bf16(4, 32)[:, 1:17], "its address is not a multiple of 16 bytes"),
    ],
)
def test_layouts_of_bulk_copies(tensor: Tensor, reason: str | None) -> None:
    assert layouts.problem(tensor) == reason
    assert layouts.problem(layouts.accessible(tensor)) is None
    assert torch.equal(layouts.accessible(tensor), tensor)
    assert all(s % 8 == 0 for s in layouts.strides(layouts.accessible(tensor)))


# -- files of users -------------------------------------------------------------------------------


def test_file_of_a_user(tmp_path: Path) -> None:
    (path := tmp_path / "mine.py").write_bytes(KERNEL.read_bytes())
    kernel = load(path)
    a, b, bias, d = bf16(1, 8, 16), bf16(1, 8, 16), bf16(8), bf16(1, 8, 8)
    refused: list[tuple[tuple[Any, ...], type[SchedgenError], str]] = [
        ((a, b, bias), ArgumentValueError, "pass a, b, bias, d"),
        ((a, b, 1.0, d), ArgumentTypeError, "bias: it is a float"),
        ((a, b.float(), bias, d), ArgumentTypeError, "b: its dtype is torch.float32"),
        ((a, b[0], bias, d), ArgumentValueError, "b: it has 2 dimensions"),
        ((a, b, bf16(16), d), ArgumentValueError, "bias: its n is 16; allowed: 8"),
        ((a, b, bias, bf16(1, 8, 12)[..., :8]), ArgumentValueError, "d: stride 12"),
        ((bf16(0, 8, 16), bf16(0, 8, 16), bias, d), ArgumentValueError, "at least 1"),
        ((a, b, bias, d), DeviceError, "a is on cpu, and there is no GPU here"),
    ]
    for arguments, kind, message in refused:
        with pytest.raises(kind) as caught:
            kernel(*arguments)
        assert message in str(caught.value)


def test_file_that_is_none(tmp_path: Path) -> None:
    (path := tmp_path / "mine.py").write_text("x = 1\n")
    with pytest.raises(EmitError, match="schedgen emit"):
        load(path)


def test_kernel_that_is_not_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def architecture(device: torch.device) -> str:
        assert device.type == "cuda"
        return "sm_1"

    monkeypatch.setattr(library, "architecture", architecture)
    with pytest.raises(DeviceError, match="there is no gemm_sm_1_bf16"):
        library.launcher(torch.device("cuda:0"), "gemm", dtype="bf16")


@pytest.mark.medium
def test_import_is_light() -> None:
    """Machines that only run kernels need no solver, and calling needs no compiler."""
    code = (
        "import sys, schedgen.kernels\n"
        "heavy = {'cutlass', 'lark', 'networkx', 'ortools', 'pydantic', 'ruamel', 'typer', 'z3'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# -- what stays -----------------------------------------------------------------------------------


def test_what_stays_is_made_by_another_thread() -> None:
    assert apart(threading.get_ident) != threading.get_ident()


def test_what_goes_wrong_in_the_other_thread_is_heard_of() -> None:
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 / 0)
