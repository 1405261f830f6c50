"""Kernels that are their programs although their compiler wrote them in a way of its own; what is
lost, added or weakened in them is still found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from schedgen.benchmarks.mutants.kernels import mutants
from schedgen.emulator.ptx.tree import Guard, Immediate, Module
from tests.schedgen.conform.conftest import Compiled

OfSpec = Callable[[str], Compiled]


def _causal(kernel: Compiled) -> Iterator[Module]:
    """Roles with an iteration more than others at least, or that take the larger of two bounds."""
    for at, one in enumerate(kernel.code.body):
        if one.name == "max.s32" and one.operands[-1] == Immediate(1):
            yield kernel.changed(at, replace(one, operands=(*one.operands[:-1], Immediate(2))))
        elif one.name == "min.s32":
            yield kernel.changed(at, replace(one, opcode="max"))


def _band(kernel: Compiled) -> Iterator[Module]:
    """The same, and an element that is read, instead of a prefetch, before the kernel ahead is
    known to be over.
    """
    yield from _causal(kernel)
    body = kernel.code.body
    awaited = next(at for at, one in enumerate(body) if one.name == "griddepcontrol.wait")
    read = next(one for one in body if one.name.startswith("ld.global"))
    early = [at for at, one in enumerate(body[:awaited]) if one.opcode.startswith("prefetch")]
    assert kernel.conforms(kernel.changed(early[0], None)).holds
    yield kernel.changed(early[0], replace(read, guard=body[early[0]].guard))


def _conditions(kernel: Compiled) -> Iterator[Module]:
    """Bytes on no condition, copies on the opposite one, and copies that are lost."""
    body = kernel.code.body
    asked = [one.operands[0] for one in body if one.name == "setp.eq.f32"]
    names = {getattr(register, "name", "") for register in asked}
    for at, one in enumerate(body):
        loads = any(n.name.startswith("cp.async.bulk.tensor") for n in body[at : at + 10])
        if one.guard is not None and one.guard.register in names and loads:
            opposite = Guard(one.guard.register, not one.guard.negated)
            yield kernel.changed(at, replace(one, guard=opposite))
        elif one.opcode == "selp" and Immediate(0) in one.operands and one.operands[-1] in asked:
            to, *_, when = one.operands
            always = replace(one, operands=(to, Immediate(16384), Immediate(16384), when))
            yield kernel.changed(at, always)
        elif one.name.startswith("cp.async.bulk.tensor"):
            yield kernel.changed(at, None)


def _bands(kernel: Compiled) -> Iterator[Module]:
    """What writes one band, and the fences behind both."""
    for at, one in enumerate(kernel.code.body):
        if one.opcode == "stmatrix" or one.name.startswith("fence.proxy.async"):
            yield kernel.changed(at, None)


def _sums(kernel: Compiled) -> Iterator[Module]:
    """Waits for loads."""
    for at, one in enumerate(kernel.code.body):
        if one.name.startswith("tcgen05.wait"):
            yield kernel.changed(at, None)


def _vector(kernel: Compiled) -> Iterator[Module]:
    """The one write of a vector that is left, and waits for loads."""
    for at, one in enumerate(kernel.code.body):
        if one.name == "st.shared.b32":
            yield kernel.changed(at, None)
    yield from _sums(kernel)


def _in_turns(kernel: Compiled) -> Iterator[Module]:
    """Turns that nobody awaits, or passes on, or too early, or those of others."""
    body = kernel.code.body
    for at, one in enumerate(body):
        if one.name == "ld.acquire.gpu.global.b32":
            yield kernel.changed(at, replace(one, modifiers=("relaxed", *one.modifiers[1:])))
            assert body[at + 1].name == "setp.eq.b32"
            yield kernel.changed(at + 1, replace(body[at + 1], modifiers=("ne", "b32")))
        if one.name.startswith(("cp.async.bulk.wait_group", "cp.reduce.async.bulk")):
            yield kernel.changed(at, None)
        if one.name in ("fence.proxy.async.global", "st.release.gpu.global.b32"):
            yield kernel.changed(at, None)
        if one.name == "st.release.gpu.global.b32":
            yield kernel.changed(at, replace(one, modifiers=("relaxed", *one.modifiers[1:])))
            yield kernel.changed(at, replace(one, operands=(one.operands[0], Immediate(0))))


def _told(kernel: Compiled) -> Iterator[Module]:
    """Tiles that are counted twice, too early or not at all, or copies that are not waited for."""
    for at, one in enumerate(kernel.code.body):
        if one.name.startswith("cp.async.bulk.wait_group"):
            yield kernel.changed(at, None)
        if one.name == "red.release.gpu.global.add.u32":
            yield kernel.changed(at, None)
            yield kernel.changed(at, replace(one, modifiers=("relaxed", *one.modifiers[1:])))
            yield kernel.changed(at, replace(one, operands=(one.operands[0], Immediate(2))))


def _followed(kernel: Compiled) -> Iterator[Module]:
    """Tiles that nobody waits for, or not behind what others have stored; the end of the kernel
    before.
    """
    body = kernel.code.body
    for at, one in enumerate(body):
        if one.name == "ld.acquire.gpu.global.b32":
            yield kernel.changed(at, replace(one, modifiers=("relaxed", *one.modifiers[1:])))
            assert body[at + 1].name == "setp.ge.s32"
            yield kernel.changed(at + 1, replace(body[at + 1], modifiers=("eq", "b32")))
        if one.name in ("fence.proxy.async.global", "griddepcontrol.wait"):
            yield kernel.changed(at, None)


def _added(kernel: Compiled) -> Iterator[Module]:
    """Sums that are stored, or are smallest elements, stores that add, copies that are lost."""
    for at, one in enumerate(kernel.code.body):
        where = one.modifiers[3:6]  # the rank, and from where to where
        if one.name.startswith("cp.reduce.async.bulk.tensor"):
            yield kernel.changed(at, None)
            rest = ("async", "bulk", "tensor", *where, "tile", "bulk_group")
            yield kernel.changed(at, replace(one, modifiers=rest))
            smallest = tuple("min" if m == "add" else m for m in one.modifiers)
            yield kernel.changed(at, replace(one, modifiers=smallest))
        elif one.name.startswith("cp.async.bulk.tensor") and "bulk_group" in one.modifiers:
            rest = ("reduce", "async", "bulk", "tensor", *where, "add", "tile", "bulk_group")
            yield kernel.changed(at, replace(one, modifiers=rest))


@pytest.mark.slow
def test_global_memory_is_read_for_formulas_only(of_spec: OfSpec) -> None:
    kernel = of_spec("band_with_factors")
    operations = tuple(
        replace(operation, formulas=()) if operation.base == "CAST" else operation
        for operation in kernel.kernel.operations
    )
    other = replace(kernel, kernel=replace(kernel.kernel, operations=operations))
    found = other.conforms()
    assert any("ld.global" in one.text for one in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("causal_chain", _causal),
        ("band_with_factors", _band),
        ("condition_of_wide_load", _conditions),
        ("bands_of_one_tile", _bands),
        ("two_sums_in_tensor_memory", _sums),
        ("row_kept_in_registers", _bands),
        ("vector_written_over", _vector),
        ("sums", _added),
        ("sums_in_order", _in_turns),
        ("tiles_told", _told),
        ("tiles_followed", _followed),
    ],
)
def test_they_are_their_programs(
    of_spec: OfSpec, name: str, changes: Callable[[Compiled], Iterator[Module]]
) -> None:
    kernel = of_spec(name)
    found = kernel.conforms()
    assert found.holds, [one.text for one in found.findings]
    assert found.seconds < 5
    changed = list(changes(kernel))
    assert len(changed) >= 3
    for number, module in enumerate(changed):
        assert not kernel.conforms(module).holds, number
    every = list(mutants(kernel.code))
    for mutant in every[:: len(every) // 6]:
        changed_one = kernel.conforms(mutant.module(kernel.module))
        assert not changed_one.holds, (mutant.operator, mutant.instruction.line)
