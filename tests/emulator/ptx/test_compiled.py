"""PTX that CuTe DSL compiles on this machine, with no GPU."""

# pyright: reportUnknownVariableType=false
# CuTe DSL annotates make_ptr in part.

from pathlib import Path

import cutlass
import pytest
from cutlass import cute
from cutlass.cute.runtime import make_ptr
from cutlass.memory import SmemAllocator

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Guard, Kernel, Parameter, Symbol


@cute.kernel
def wait_and_store(pointer: cute.Pointer, count: cutlass.Int32) -> None:
    thread = cute.arch.thread_idx()[0]
    barrier = SmemAllocator().allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    if thread == 0:
        cute.arch.mbarrier_arrive(barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    cute.arch.mbarrier_wait(barrier, 1)
    if thread < count:
        cute.printf("thread {}", thread)
        cute.make_tensor(pointer, cute.make_layout(32))[thread] = cutlass.Float32(thread)


@cute.jit
def launch(pointer: cute.Pointer, count: cutlass.Int32) -> None:
    wait_and_store(pointer, count).launch(grid=(1, 1, 1), block=(32, 1, 1))


@pytest.fixture(params=["sm_90a", "sm_100a"], scope="module")
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def ptx(architecture: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp(architecture)
    pointer = make_ptr(cutlass.Float32, 4096, cute.AddressSpace.gmem, assumed_align=16)
    options = f"--gpu-arch={architecture} --keep-ptx --dump-dir={folder} --generate-line-info"
    cute.compile(launch, pointer, 5, options=options)
    (written,) = folder.glob("*.ptx")
    return written.read_text()


@pytest.fixture(scope="module")
def kernel(ptx: str) -> Kernel:
    (only,) = parse(ptx).kernels.values()
    return only


def test_module(ptx: str, architecture: str) -> None:
    module = parse(ptx)
    assert module.target == architecture
    assert module.functions["vprintf"].body is None
    text = next(v for v in module.variables if v.name.startswith("printfFormat"))
    assert text.data.rstrip(b"\n\0") == b"thread %d"
    assert [v.size for v in module.variables if v.space == "shared"] == [0]


def test_interface(kernel: Kernel) -> None:
    assert kernel.directives["reqntid"] == (32, 1, 1)
    pointer, count = kernel.parameters
    assert pointer == Parameter(pointer.name, "u64", 8, 8, 0)
    assert count == Parameter(count.name, "u32", 4, 4, 8)


def test_every_wait_loop_has_its_own_label(kernel: Kernel) -> None:
    waits = [label for label in kernel.labels if label.startswith("LAB_WAIT#")]
    assert len(waits) == 2
    for wait in waits:
        number = wait.partition("#")[2]
        tried, done, again = kernel.body[kernel.labels[wait] :][:3]
        assert tried.name.startswith("mbarrier.try_wait.parity")
        assert done.guard == Guard(f"P1#{number}")
        assert again.operands == (Symbol(wait),)


def test_instructions_know_their_source(kernel: Kernel) -> None:
    lines = Path(__file__).read_text().splitlines()
    init = next(i for i in kernel.body if i.name.startswith("mbarrier.init"))
    assert init.location is not None
    assert Path(init.location.file) == Path(__file__)
    assert "mbarrier_init(" in lines[init.location.line - 1]
