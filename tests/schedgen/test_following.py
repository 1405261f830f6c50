"""Kernels that follow the output tiles of the one before (``tells`` and ``follows`` of loops)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from schedgen.codegen.compiling import _module as imported
from schedgen.codegen.emit import emit
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import default_extents, outputs, random_inputs
from schedgen.driver.turns import AWAITED, told
from schedgen.emulator.emulation import device
from schedgen.emulator.machine.policies import Adversarial, RoundRobin
from schedgen.following import counted_along, tiles_awaited, tiles_told, words_of
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.program.following import AWAIT, COUNT, counting, follows, of_kernel, tells
from schedgen.program.model import AwaitKernel, Program, RoleProgram, Step
from schedgen.proof.prove import check
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from tests.codegen.examples import solved

TOLD = str(Path("tests/data/specs/tiles_told.yaml"))
FOLLOWED = str(Path("tests/data/specs/tiles_followed.yaml"))


def bound(name: str, target: str = "h200", **settings: str) -> Kernel:
    spec, space = read_spec(name), read_machine(target).accumulators
    return bind(spec.source, spec.file, target, settings, accumulators=space)[0]


def test_words_lie_along_what_tiles_have_one_element_of() -> None:
    kernel = bound("attention_bwd")
    argument = words_of(kernel)
    assert argument is not None
    assert (argument.name, argument.shape) == ("done", ("batch", "heads"))
    assert told(kernel) == {"done"}
    assert counted_along(kernel) == (("seq_k", 128),)
    assert tiles_told((("seq_k", 128),), {"batch": 2, "heads": 3, "seq_q": 64, "seq_k": 300}) == 3
    assert words_of(bound("attention_bwd_convert")) is None
    assert not bound("attention_bwd_convert").follows


def test_tiles_of_a_word_follow_each_other() -> None:
    plain, following = (bound("attention_bwd_convert", follows=x) for x in ("false", "true"))
    assert [axis.extent for axis in plain.grid][:3] == ["batch", "seq_q", "heads"]
    assert [axis.extent for axis in following.grid][:3] == ["batch", "heads", "seq_q"]


def test_how_many_are_awaited_is_a_formula() -> None:
    kernel = bound(FOLLOWED)
    assert tiles_awaited(kernel, {"n": 65}, {"rows": 3}) == 6
    given = default_extents(kernel, {"n": 65, "batch": 2})
    assert random_inputs(kernel, given, 0)["done"].tolist() == [2 * AWAITED] * 2  # type: ignore[union-attr]
    more = random_inputs(kernel, {**given, "rows": 5}, 0)
    assert (more["rows"], more["done"].tolist()) == (5, [10, 10])  # type: ignore[union-attr]


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_tiles_are_counted_once_they_are_there(target: str) -> None:
    """Several tiles of each batch: the words are results that are looked at, too."""
    proven, kernel = solved(TOLD, target)
    assert tells(proven.program)
    assert AwaitKernel() in proven.program.setup
    with compiled(emit(proven, kernel), kernel, proven.program.arch) as made:
        for policy in (RoundRobin(), Adversarial(1)):
            outcome = made.run({"batch": 2}, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.text
            assert "done" in outcome.results


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_a_tile_begins_when_what_it_reads_is_counted(target: str) -> None:
    proven, kernel = solved(FOLLOWED, target)
    assert follows(proven.program)
    assert AwaitKernel() not in proven.program.setup
    assert proven.program.teardown[-1] == AwaitKernel()
    sizes = default_extents(kernel, {"batch": 2})
    inputs = random_inputs(kernel, sizes, 0)
    with compiled(emit(proven, kernel), kernel, proven.program.arch) as made:
        for policy in (RoundRobin(), Adversarial(1)):
            outcome = made.run({"batch": 2}, policy)
            assert outcome.correct
            assert outcome.clean, outcome.report.text

    short = torch.as_tensor(inputs["done"]).clone()
    short[1] -= 1
    with compiled(emit(proven, kernel), kernel, proven.program.arch, stall=1) as made:
        values = {**inputs, **outputs(kernel, sizes), "done": short}
        with pytest.raises(Exception, match="may loop forever"):
            made.execute(values)


@pytest.mark.medium
def test_without_words_that_it_follows_it_begins_too_early() -> None:
    """What the race checker has to know is which words they are."""
    proven, kernel = solved(FOLLOWED, "h200")
    text = emit(proven, kernel)
    other = replace(kernel, follows=None)
    with compiled(text, kernel, proven.program.arch) as made:
        made.kernel = other
        sizes = default_extents(kernel, {})
        values = {**random_inputs(kernel, sizes, 0), **outputs(kernel, sizes)}
        made.execute(values)
        report = made._gpu.reports[-1]  # pyright: ignore[reportPrivateUsage]
        assert report.errors
        assert "griddepcontrol.wait before" in report.text


@pytest.mark.medium
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_one_behind_the_other(target: str, tmp_path: Path) -> None:
    """Both kernels in one emulator, which knows what the first one let others go on behind: loads
    of its results are in order. Where nobody counts, or too few tiles are awaited, they are not.
    """
    told_by, counts = solved(TOLD, target)
    followed_by, waits = solved(FOLLOWED, target)
    sizes = default_extents(counts, {"batch": 2})
    first = {**random_inputs(counts, sizes, 0), **outputs(counts, sizes)}
    others = default_extents(waits, {"batch": 2, "k": 72})
    second = {**random_inputs(waits, others, 0), **outputs(waits, others), "rows": 2}
    second |= {"c": torch.as_tensor(first["d"]).permute(1, 0, 2), "done": first["done"]}
    for name, form, rows in (("all", "release", 2), ("lost", "relaxed", 2), ("few", "release", 1)):
        text = emit(told_by, counts).replace("red.release.gpu", f"red.{form}.gpu")
        second["rows"] = rows
        with device(told_by.program.arch, races="report", sms=2) as gpu:
            torch.as_tensor(first["done"]).zero_()
            _execute(text, counts, first, tmp_path / f"{name}_tells.py")
            _execute(emit(followed_by, waits), waits, second, tmp_path / f"{name}_follows.py")
            early = [str(x) for x in gpu.reports[-1].errors if "griddepcontrol.wait" in str(x)]
            assert bool(early) == (name != "all")
            assert any("before all are there" in one for one in early) == (name == "few")
        wanted = second["c"] + torch.einsum("mbk,nk->mbn", *(_wide(second[n]) for n in "ab"))
        assert torch.allclose(torch.as_tensor(second["d"]), wanted, atol=1e-3, rtol=1e-3)


def _wide(tensor: torch.Tensor | float) -> torch.Tensor:
    return torch.as_tensor(tensor).float()


def _execute(
    text: str, kernel: Kernel, values: Mapping[str, torch.Tensor | float], path: Path
) -> None:
    """Compiles a generated file for the emulator that is there, and launches it."""
    cute: Any = import_module("cutlass.cute")
    runtime: Any = import_module("cutlass.cute.runtime")
    stream = import_module("cuda.bindings.driver").CUstream(0)
    path.write_text(text, encoding="utf-8")
    made: list[Any] = []
    for argument in (a for a in kernel.arguments if a.shape):
        tensor = torch.as_tensor(values[argument.name])
        view = runtime.from_dlpack(tensor, assumed_align=16)
        made.append(view.mark_layout_dynamic(leading_dim=tensor.ndim - 1))
    made += [int(values[a.name]) for a in kernel.arguments if not a.shape]
    cute.compile(imported(path).launch, *made, 2, stream)(*made, stream)


# -- what is looked up -----------------------------------------------------------------------------


def _changed(program: Program, role: RoleProgram, **parts: tuple[Step, ...]) -> Program:
    roles = tuple(replace(one, **parts) if one is role else one for one in program.roles)
    return replace(program, roles=roles)


@pytest.mark.medium
def test_steps_about_tiles_are_looked_up() -> None:
    told_by = solved(TOLD, "h200")[0].program
    (role,) = (one for one in told_by.roles if COUNT in str(one.after))
    followed_by = solved(FOLLOWED, "h200")[0].program
    late = followed_by.role["late"]
    wrong = {
        "does not count each tile once": [
            _changed(told_by, role, after=role.after[:-1]),
            _changed(told_by, role, after=(role.after[-1], *role.after[:-1])),
            _changed(told_by, role, after=(*role.after, role.after[-1])),
        ],
        "does not wait once in each tile": [
            _changed(followed_by, late, before=late.before[1:]),
            _changed(followed_by, late, before=(*late.before[1:], late.before[0])),
        ],
        "has no copies": [
            _changed(followed_by, followed_by.role["vector"], before=late.before[:1]),
        ],
        "may end before the one whose tiles it waits for": [replace(followed_by, teardown=())],
    }
    for text, programs in wrong.items():
        for program in programs:
            proof = check(program, quick=True)
            assert not proof.proven
            for verdict in proof.verdicts:
                assert any(text in finding.text for finding in verdict.findings)


@pytest.mark.medium
def test_a_program_without_them_is_another_one() -> None:
    program = solved(TOLD, "h200")[0].program
    without = of_kernel(program)
    assert not tells(without)
    assert counting(without) == program
    assert AWAIT not in str(without)
