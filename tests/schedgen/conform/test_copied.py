"""Copies that threads begin are writes of theirs, if they wait for them before anything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from schedgen.emulator.ptx.tree import Immediate
from tests.schedgen.conform.conftest import Compiled


@pytest.mark.medium
def test_its_ptx_is_its_program(of_spec: Callable[[str], Compiled]) -> None:
    found = of_spec("gathered").conforms()
    assert found.holds, found.findings


@pytest.mark.medium
def test_copies_that_nobody_waits_for_or_that_are_lost_are_found(
    of_spec: Callable[[str], Compiled],
) -> None:
    made = of_spec("gathered")
    body = made.code.body
    waits = [n for n, one in enumerate(body) if one.name.startswith("cp.async.wait_group")]
    copies = [n for n, one in enumerate(body) if one.name.startswith("cp.async.cg")]
    groups = [n for n, one in enumerate(body) if one.name.startswith("cp.async.commit_group")]
    assert copies
    for at in waits:
        found = made.conforms(made.changed(at, None))
        assert not found.holds
        (left,) = body[at].operands
        assert isinstance(left, Immediate)
        more = replace(body[at], operands=(Immediate(left.value + 1),))
        found = made.conforms(made.changed(at, more))
        assert any(" among them" in one.message for one in found.findings), found.findings
    for before, at in pairwise([0, *groups]):
        if any(before < copy < at for copy in copies):  # and not an empty group
            assert not made.conforms(made.changed(at, None)).holds
    for at in copies:
        lost = made.conforms(made.changed(at, None))
        assert any("bytes of 'sA' are not written" in one.message for one in lost.findings)
    one = body[copies[0]]
    to, source, _, *more = one.operands
    short = replace(one, operands=(to, source, Immediate(8), *more))
    assert not made.conforms(made.changed(copies[0], short)).holds
    fence = next(n for n in range(waits[0], len(body)) if body[n].opcode == "fence")
    assert not made.conforms(made.changed(fence, None)).holds


@pytest.mark.medium
def test_copies_before_the_kernel_in_front_is_over_are_found(
    of_spec: Callable[[str], Compiled],
) -> None:
    made = of_spec("gathered")
    body = made.code.body
    (wait,) = (n for n, one in enumerate(body) if one.name.startswith("griddepcontrol.wait"))
    copy = next(one for one in body if one.name.startswith("cp.async.cg"))
    found = made.conforms(made.changed(wait, replace(copy, line=body[wait].line)))
    assert not found.holds
