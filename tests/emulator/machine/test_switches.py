"""Readings of the ISA by number, by name, on the command line and in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen.cli.app import app
from schedgen.emulator.machine.switches import (
    IDS,
    STRICT,
    InitFence,
    Switches,
    chosen,
    label,
    readings,
)
from schedgen.errors import SchedgenError


def test_by_number_and_by_name() -> None:
    wanted = Switches(init_fence=InitFence.ALWAYS, dealloc_blocks=False)
    assert chosen({"S11": "always", "dealloc_blocks": "false"}) == wanted
    assert chosen({"s16": "true", "init-fence": "cluster-only"}, wanted) == Switches()
    assert chosen({}, STRICT) == STRICT


@pytest.mark.parametrize("name", IDS)
def test_every_reading_can_be_chosen(name: str) -> None:
    assert readings(name)[0] == str(getattr(Switches(), name)).lower()
    for value in readings(name):
        assert " " not in value
        assert str(getattr(chosen({name: value}), name)).lower() == value


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"S4": "off"}, "there is no switch 'S4'"),
        ({"init_fense": "always"}, "init_fence"),
        ({"S11": "never"}, "S11 init_fence: 'never' is none of cluster-only, always"),
    ],
)
def test_mistakes(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SchedgenError, match=message):
        chosen(settings)


def test_command_line_refuses_what_is_no_reading() -> None:
    result = CliRunner().invoke(app, ["emulate", "gemm", "--switch", "S11=never"])
    assert result.exit_code == 2
    assert "cluster-only, always" in result.output


def test_documentation_lists_all() -> None:
    text = (Path(__file__).parents[3] / "docs/emulator.md").read_text("utf-8")
    for name in IDS:
        number = label(name).split()[0]
        assert f"| {number} | `{name}` |" in text
        assert readings(name)[0] in text or "`True`" in text
