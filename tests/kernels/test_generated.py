"""The committed kernels are what the specs say, and acceptable."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.codegen.facts import read_facts
from schedgen.codegen.report import compile_report
from schedgen.kernels.regenerate import FOLDER, TARGETS, Shipped, needs_compiler, shipped, text
from schedgen.spec.reader import read_spec

ALL = list(shipped())


def name(kernel: Shipped) -> str:
    return kernel.name.removesuffix(".py")


def compiled_for_its_text(kernel: Shipped) -> bool:
    """Whether `text` compiles the kernel, and refuses one that is not acceptable."""
    return needs_compiler((FOLDER / kernel.name).read_text("utf-8"))


def test_all_are_there_and_no_others() -> None:
    found = {path.name for arch in TARGETS.values() for path in FOLDER.glob(f"*_{arch}_*.py")}
    assert found == {kernel.name for kernel in ALL}
    assert len(found) == len(ALL)


@pytest.mark.parametrize("kernel", ALL, ids=name)
def test_file_is_of_todays_spec(kernel: Shipped) -> None:
    """Quick, and enough to notice that a spec was changed and nothing was regenerated."""
    path = FOLDER / kernel.name
    assert f"spec      {read_spec(kernel.spec).source.sha256}\n" in path.read_text("utf-8")
    facts = read_facts(path)
    assert (facts.kernel, facts.target) == (kernel.spec, TARGETS[kernel.target])
    assert {p.dtype for p in facts.tensors} <= {dict(kernel.settings)["dtype"], "f32"}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ALL, ids=name)
def test_file_is_what_is_generated_today(kernel: Shipped) -> None:
    """If not: ``python -m schedgen.kernels.regenerate``. That compiles kernels whose warpgroups
    take registers from others, or multiply, and takes none that spills.
    """
    assert text(kernel) == (FOLDER / kernel.name).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [one for one in ALL if not compiled_for_its_text(one)], ids=name)
def test_kernel_compiles_without_spills(kernel: Shipped, tmp_path: Path) -> None:
    assert compile_report(FOLDER / kernel.name, tmp_path).problems == ()
