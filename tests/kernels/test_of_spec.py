"""From a spec that was written a minute ago to a torch function in one call."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode  # pyright: ignore[reportPrivateImportUsage]

from schedgen.codegen.compiling import _module as imported
from schedgen.driver import selecting
from schedgen.emulator.emulation import device
from schedgen.errors import SchedgenError, SpecError
from schedgen.kernels import kernel, layouts, library
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError, KernelError
from schedgen.kernels.of_spec import SpecKernel

GEMM = Path(__file__).parents[2] / "docs" / "examples" / "tiny_gemm.yaml"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for what is kept."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that all tests of this module share."""
    return tmp_path_factory.mktemp("kept")


def made(target: str) -> SpecKernel:
    found = kernel(GEMM, target=target, tile_n=128)
    assert isinstance(found, SpecKernel)
    return found


@pytest.fixture
def product(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SpecKernel:
    """A matrix product from a file."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(folder))
    return made("h200")


def operands(m: int, n: int, k: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return (torch.randn(m, k) / 8).bfloat16(), (torch.randn(n, k) / 8).bfloat16()


@pytest.mark.slow
def test_what_it_says(product: SpecKernel, folder: Path) -> None:
    assert product.path.is_relative_to(folder)
    assert repr(product) == "<kernel tiny_gemm for sm_90a: (a, b) -> d>"
    assert dict(product.facts.settings)["tile_n"] == "128"


@pytest.mark.medium
def test_the_second_time_nothing_is_solved(
    product: SpecKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it is solved again")

    monkeypatch.setattr(selecting, "selected", refuse)
    assert kernel(GEMM, target="h200", tile_n=128) is product
    with pytest.raises(AssertionError, match="solved again"):
        kernel(GEMM, target="h200", tile_n=64)


def test_what_a_spec_says_by_itself_need_not_be_given(
    product: SpecKernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is anything else than a kernel that is made said to be."""
    monkeypatch.setattr(selecting, "selected", None)
    assert kernel(GEMM, target="h200", tile_n=128, tile_k=64) is product
    assert not caplog.records


def test_that_a_kernel_is_made_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def selected(_: str, __: str, ___: object, told: Callable[[str], None], **____: object) -> None:
        for text in ("II 512", "compiling"):
            told(text)
        raise SchedgenError("enough")

    monkeypatch.setattr(selecting, "selected", selected)
    with caplog.at_level(logging.INFO), pytest.raises(SchedgenError, match="enough"):
        kernel(GEMM, target="h200", tile_n=192)
    warned, *told = caplog.records
    assert "which may take minutes" in warned.message
    assert warned.message.endswith(f": schedgen build --spec {GEMM} -t h200 --set=tile_n=192")
    assert [one.levelno for one in caplog.records] == [logging.WARNING, *2 * [logging.INFO]]
    assert [one.message for one in told] == ["II 512", "compiling"]


def test_a_changed_file_is_another_kernel(
    product: SpecKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By content: not by its name, nor by when it was written."""
    asked: list[str] = []

    def selected(name: str, *_: object, **__: object) -> None:
        asked.append(name)
        raise SchedgenError("asked")

    monkeypatch.setattr(selecting, "selected", selected)
    copy = tmp_path / "tiny_gemm.yaml"
    copy.write_text(GEMM.read_text("utf-8") + "# more\n", "utf-8")
    with pytest.raises(SchedgenError, match="asked"):
        kernel(copy, target="h200", tile_n=128)
    assert asked == [str(copy)]


def test_pace_is_another_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a spec that has a shipped kernel, where nobody keeps to an order."""
    asked: list[object] = []

    def selected(*_: object, pace: tuple[str, ...], **__: object) -> None:
        asked.append(pace)
        raise SchedgenError("asked")

    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selecting, "selected", selected)
    kernel("gemm", target="h200", dtype="bf16")
    for name in (GEMM, "gemm"):
        with pytest.raises(SchedgenError, match="asked"):
            kernel(name, target="h200", pace=["TENSOR"])
    assert asked == [("TENSOR",)] * 2


def test_pace_is_of_a_unit_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(SchedgenError, match="TENSORS"):
        kernel(GEMM, target="h200", tile_n=128, pace=["TENSORS"])


def test_a_damaged_file_is_written_again(product: SpecKernel, folder: Path) -> None:
    text = product.path.read_text("utf-8")
    product.path.write_text("", "utf-8")
    from schedgen.kernels import of_spec

    assert of_spec._written(product.path.name, text) == product.path
    assert product.path.read_text("utf-8") == text
    assert not [path for path in folder.iterdir() if path.name.startswith(".tiny")]


def test_fake_results(product: SpecKernel) -> None:
    with FakeTensorMode():
        a = torch.empty(300, 64, dtype=torch.bfloat16)
        b = torch.empty(100, 64, dtype=torch.bfloat16)
        d = product(a, b=b)
    assert (d.shape, d.dtype) == ((300, 100), torch.bfloat16)
    assert d.stride() == (104, 1)  # rows at multiples of 16 bytes


def test_it_is_compiled_as_one_graph(product: SpecKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[int] = []

    def launch(a: Tensor, b: Tensor, d: Tensor) -> None:
        launches.append(1)
        d.copy_(a.float() @ b.float().mT)

    monkeypatch.setattr(product, "_launch", launch)

    def more(a: Tensor, b: Tensor) -> Tensor:
        return product(a, b) + 1

    compiled: Any = torch.compile(more, fullgraph=True, backend="eager")
    a, b = operands(70, 90, 48)
    expected = (a.float() @ b.float().mT).bfloat16() + 1
    assert torch.equal(compiled(a, b), expected)
    assert launches == [1]


def test_several_results_and_numbers() -> None:
    made = SpecKernel(library.named("attention_fwd_sm_90a_head_dim64_bf16.py"))
    with FakeTensorMode():
        q = torch.empty(2, 70, 4, 64, dtype=torch.bfloat16)
        k = torch.empty(2, 90, 2, 64, dtype=torch.bfloat16)
        out, lse = made(q, k, k, 0.1)
    assert (out.shape, out.dtype) == (q.shape, torch.bfloat16)
    assert (lse.shape, lse.dtype) == ((2, 4, 70), torch.float32)


def test_extents_of_results_only() -> None:
    made = SpecKernel(library.named("gemm_parts_sm_90a_bf16_tile_n128.py"))
    assert made.free == ("part",)
    with FakeTensorMode():
        a = torch.empty(1, 70, 64, dtype=torch.bfloat16)
        assert made(a, a, part=3).shape == (1, 3, 70, 70)
    with pytest.raises(TypeError, match="part missing; arguments are a, b, part"):
        made(a, a)


def test_what_does_not_fit(product: SpecKernel) -> None:
    a, b = operands(70, 90, 48)
    with pytest.raises(ArgumentValueError, match=r"b: its k is 40; allowed: 48"):
        product(a, b[:, :40])
    with pytest.raises(ArgumentTypeError, match=r"a: its dtype is torch.float32"):
        product(a.float(), b)
    with pytest.raises(ArgumentValueError, match=r"a: it has 3 dimensions; allowed: \(m, k\)"):
        product(a[None], b)
    with pytest.raises(DeviceError, match="a is on cpu, and there is no GPU here"):
        product(a, b)
    for arguments, named, message in (
        ((a,), {}, "b missing; arguments are a, b"),
        ((a, b, a), {}, "3 arguments, 2 expected"),
        ((a, b), {"c": a}, "'c' is no argument"),
        ((a, b), {"b": b}, "'b' is given twice"),
    ):
        with pytest.raises(TypeError, match=message):
            product(*arguments, **named)


def test_layouts_that_bulk_copies_cannot_read_are_copied(
    product: SpecKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 45 elements, and a transposed view."""
    launched: list[Tensor] = []
    monkeypatch.setattr(product, "_launch", lambda *arguments: launched.extend(arguments))  # pyright: ignore
    a, b = torch.randn(70, 45).bfloat16(), torch.randn(45, 50).bfloat16().mT
    product(a, b)
    assert all(layouts.problem(tensor) is None for tensor in launched)
    assert torch.equal(launched[0], a)
    assert torch.equal(launched[1], b)


def test_no_target_and_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"fix: target='b200', or one of b200, h200"):
        kernel(GEMM)


def test_wrong_specs_and_settings(tmp_path: Path) -> None:
    with pytest.raises(SchedgenError, match="neither a shipped spec nor a file"):
        kernel("no_such_spec", target="h200")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("schedgen: 1\n", "utf-8")
    with pytest.raises(SpecError):
        kernel(wrong, target="h200")
    with pytest.raises(SchedgenError, match="tile_q"):
        kernel(GEMM, target="h200", tile_q=3)
    with pytest.raises(ArgumentTypeError, match=r"tile_n: it is \[64\]"):
        kernel(GEMM, target="h200", tile_n=[64])


def test_a_folder_that_cannot_be_written(
    product: SpecKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from schedgen.kernels import of_spec

    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(tmp_path / "file" / "kept"))
    with pytest.raises(KernelError, match="fix: set SCHEDGEN_CACHE_DIR"):
        of_spec._written("one.py", "text")


class Emulated:
    """Stands in for `Launcher`: PTX on the CPU, with the race checker."""

    def __init__(self, path: Path, arch: str) -> None:
        self.path, self.arch = path, arch

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        cute: Any = import_module("cutlass.cute")
        runtime: Any = import_module("cutlass.cute.runtime")
        stream = import_module("cuda.bindings.driver").CUstream(0)
        views = [t.as_strided(t.shape, (*layouts.strides(t), 1)) for t in tensors]
        with device(self.arch, sms=2):
            arguments = [
                runtime.from_dlpack(v, assumed_align=16).mark_layout_dynamic(leading_dim=v.ndim - 1)
                for v in views
            ]
            function = cute.compile(imported(self.path).launch, *arguments, *scalars, 2, stream)
            function(*arguments, *scalars, stream)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "arch"), [("h200", "sm_90a"), ("b200", "sm_100a")])
def test_in_the_emulator(
    target: str, arch: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is computed, on both architectures, from the file."""
    monkeypatch.setenv("SCHEDGEN_CACHE_DIR", str(folder))
    product = made(target)

    def launch(*tensors: Tensor) -> None:
        Emulated(product.path, arch).launch(tensors)

    monkeypatch.setattr(product, "_launch", launch)
    a, b = operands(150, 140, 200)
    # Not by its operator, which an equal file of another test may have defined.
    found = product._run(a, b)
    assert isinstance(found, Tensor)
    wanted = a.double() @ b.double().mT
    assert torch.allclose(found.double(), wanted, rtol=1e-2, atol=1e-2)
    assert library.load(product.path).facts == product.facts


@pytest.mark.medium
def test_importing_kernels_imports_no_solver() -> None:
    import subprocess

    code = (
        "import sys, schedgen.kernels; "
        "print([m for m in ('ortools', 'z3', 'schedgen.driver.solution') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
