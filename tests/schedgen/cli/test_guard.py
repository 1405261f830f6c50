"""Commands that come to no good end: a message and an exit status, no bare traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schedgen.bounds import Constraint, Cycle, ImpossibleCycle
from schedgen.cli.app import app
from schedgen.cli.guard import INTERNAL
from schedgen.codegen.errors import EmitError
from schedgen.machine import CostError
from schedgen.schedule import ScheduleError
from schedgen.solver import tiles
from schedgen.synchronize.build import ProgramError

COMMANDS = [("solve", "gemm"), ("emit", "gemm"), ("emulate", "gemm")]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def failing(patch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whatever reads a machine model raises ``error``."""

    def raising(*_: object) -> None:
        raise error

    patch.setattr("schedgen.machine_file.read_machine", raising)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ImpossibleCycle(Cycle((Constraint("A", "A", 4, 0),))), 1),
        (CostError("A: no rule"), 1),
        (ProgramError("no barrier"), 1),
        (EmitError("no emitter"), 1),
        (ScheduleError("no schedule"), 2),
    ],
)
def test_errors_on_purpose(
    command: tuple[str, str],
    error: Exception,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    failing(monkeypatch, error)
    result = run(*command)
    assert result.exit_code == status
    assert result.output.strip() == str(error)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bug(command: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing(monkeypatch, KeyError("nobody knows"))
    result = run(*command)
    assert result.exit_code == INTERNAL == 70
    assert "internal error: KeyError: 'nobody knows'" in result.output
    assert "report it with the spec" in result.output
    assert "Traceback" not in result.output
    found = re.search(r"the traceback is in (\S+)", result.output)
    assert found is not None
    assert "in raising" in Path(found.group(1)).read_text("utf-8")
    assert len(list(tmp_path.iterdir())) == 1  # nothing was written but the traceback


def test_a_cycle_that_takes_time(tmp_path: Path) -> None:
    """Two maps that read each other within an iteration, through an order of operations."""
    error = ImpossibleCycle(Cycle((Constraint("A", "B", 4, 0), Constraint("B", "A", 3, 0))))
    assert "A -(4)-> B -(3)-> A" in str(error)
    assert "fix: " in str(error)


def test_a_cycle_outside_of_the_main_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the rule and a fix, like any other kernel without a schedule."""
    cycle = Cycle((Constraint("EPI", "LDO", 4, 0), Constraint("LDO", "EPI", 3, 0)))

    def impossible(*_: object) -> None:
        raise ImpossibleCycle(cycle)

    monkeypatch.setattr(tiles, "schedule_tiles", impossible)
    result = run("solve", "gemm", "--target", "h200", "--set", "tile_n=128")
    assert result.exit_code == 1
    assert "[tile-cycle]: outside of the main loop" in result.output
    assert "EPI -(4)-> LDO -(3)-> EPI" in result.output
    assert "fix: give a ring there more slots" in result.output
