"""Output tiles that are left out: all roles leave out the same ones, and all that is done there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.compiling import compile_file
from schedgen.driver.emitting import emission
from schedgen.driver.proved import QUICK
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Address
from tests.schedgen.conform.conftest import Compiled

GROUPED = Path(__file__).parents[2] / "data" / "specs" / "grouped.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_roles_agree_on_which_tiles_there_are(target: str, tmp_path: Path) -> None:
    spec = read_spec(str(GROUPED))
    emitted = emission(spec, read_machine(target), {}, methods=QUICK)
    path = tmp_path / "grouped.py"
    path.write_text(emitted.text, "utf-8")
    module = parse(compile_file(path, tmp_path, sms=132).ptx.read_text("utf-8"))
    kernel = Compiled(module, emitted.proven.program, emitted.solution.problem.kernel)
    found = kernel.conforms()
    assert found.holds, [one.text for one in found.findings]
    changes = 0
    for at, one in enumerate(kernel.code.body):
        if one.name.startswith("ld.global"):  # another number's sizes, or none
            to, address = one.operands
            assert isinstance(address, Address)
            other = replace(one, operands=(to, replace(address, offset=address.offset + 8)))
            assert not kernel.conforms(kernel.changed(at, other)).holds
            assert not kernel.conforms(kernel.changed(at, None)).holds
            changes += 1
        elif one.name in ("setp.lt.s32", "setp.ge.s32", "setp.le.s32", "setp.gt.s32"):
            kinds = {"lt": "le", "le": "lt", "ge": "gt", "gt": "ge"}
            other = replace(one, modifiers=(kinds[one.modifiers[0]], *one.modifiers[1:]))
            assert not kernel.conforms(kernel.changed(at, other)).holds
            changes += 1
    assert changes >= 4 * len(emitted.proven.program.roles)


@pytest.mark.slow
def test_a_tile_is_done_as_a_whole(tmp_path: Path) -> None:
    """What is done for tiles that are left out, too, is no part of a program."""
    spec = read_spec(str(GROUPED))
    emitted = emission(spec, read_machine("h200"), {}, methods=QUICK)
    text = emitted.text.replace("if at_m * 128 < m:", "if at_m * 128 < m or at_group == 1:", 1)
    assert text != emitted.text
    path = tmp_path / "grouped.py"
    path.write_text(text, "utf-8")
    module = parse(compile_file(path, tmp_path, sms=132).ptx.read_text("utf-8"))
    kernel = Compiled(module, emitted.proven.program, emitted.solution.problem.kernel)
    messages = [one.text for one in kernel.conforms().findings]
    assert any("it computes other tiles than" in text for text in messages), messages
