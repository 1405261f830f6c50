"""The kernels of docs/bugs.md: what is found as they are, and nothing once they are mended."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedgen.emulator.machine.switches import Switches, chosen
from schedgen.emulator.race.ptx_launch import run
from schedgen.emulator.race.running import Options, session_of

BUGS = Path(__file__).parents[2] / "docs" / "examples" / "bugs"
FOUND = {
    "aliased_stage": {"K1"},
    "cta_scope_arrive": {"K1"},
    "stage_reuse": {"T8", "B12"},
    "exit_before_arrive": {"N9"},
    "release_before_read": {"C7c", "C7d"},
}
SWITCHES = {"cta_scope_arrive": {"remote_scope": "as-written"}}
BUG = re.compile(r"// bug:\n.*\n")


def rules(folder: Path, name: str) -> set[str]:
    switches = chosen(SWITCHES.get(name, {}), Switches())
    session = session_of(Options("sm_90a", switches=switches))
    run(folder / "kernel.ptx", folder / "launch.json", session, 4)
    assert session.launches
    return {found.rule for found in session.errors}


@pytest.mark.medium
@pytest.mark.parametrize("name", FOUND)
def test_the_bug_is_found(name: str, tmp_path: Path) -> None:
    assert rules(BUGS / name, name) == FOUND[name]
    mended = tmp_path / "kernel.ptx"
    text = (BUGS / name / "kernel.ptx").read_text("utf-8")
    assert "// fix: " in text
    mended.write_text(BUG.sub("", text).replace("// fix: ", ""), "utf-8")
    shutil.copy(BUGS / name / "launch.json", tmp_path)
    assert not rules(tmp_path, name)


@pytest.mark.medium
@pytest.mark.parametrize("name", [name for name in FOUND if name != "stage_reuse"])
def test_what_holds_a_thread_back_is_no_finding(name: str, tmp_path: Path) -> None:
    text = (BUGS / name / "kernel.ptx").read_text("utf-8")
    assert "// late: " in text
    shutil.copy(BUGS / name / "launch.json", tmp_path)
    held = text.replace("// late: ", "")
    (tmp_path / "kernel.ptx").write_text(BUG.sub("", held).replace("// fix: ", ""), "utf-8")
    assert not rules(tmp_path, name)
    (tmp_path / "kernel.ptx").write_text(held, "utf-8")
    assert rules(tmp_path, name) == FOUND[name]


def test_a_scope_that_is_too_small_needs_the_switch() -> None:
    session = session_of(Options("sm_90a"))
    folder = BUGS / "cta_scope_arrive"
    run(folder / "kernel.ptx", folder / "launch.json", session, 4)
    assert not session.errors


@pytest.mark.medium
@pytest.mark.parametrize(("more", "status"), [((), 1), (("--fixed",), 0)])
@pytest.mark.parametrize(("name", "rule"), [("early_read", "L1"), ("odd_box", "T14")])
def test_scripts(name: str, rule: str, more: tuple[str, ...], status: int) -> None:
    command = [sys.executable, "-m", "schedgen.cli.app", "race", "kernel.py", *more]
    ran = subprocess.run(
        command, cwd=BUGS / name, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == status, ran.stderr
    assert (f"error[{rule}]" in ran.stdout) == bool(status)


def test_every_bug_is_in_the_document() -> None:
    text = (BUGS.parents[1] / "bugs.md").read_text("utf-8")
    for folder in BUGS.iterdir():
        assert f"{folder.name}/kernel." in text
