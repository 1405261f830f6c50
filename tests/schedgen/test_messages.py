"""What a newcomer stumbled over: each mistake is told with what to do about it."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen.cli.app import app
from tests.visualize.schedules import solved

ROOT = Path(__file__).parent.parent.parent
GEMM = (
    (ROOT / "docs" / "examples" / "tutorial" / "gemm3.yaml")
    .read_text("utf-8")
    .replace("[b200, h200]", "[b200]")
    .replace("space: accumulator", "space: tmem")
)


def failing(tmp_path: Path, text: str, *arguments: str) -> str:
    """What ``schedgen COMMAND FILE ...`` prints about a spec with ``text``."""
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    command, *more = arguments or ("solve",)
    result = CliRunner().invoke(app, [command, str(file), *more])
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.output
    return result.stderr


def test_a_number_as_extent_of_an_argument(tmp_path: Path) -> None:
    text = failing(tmp_path, GEMM.replace("a: {shape: [m, k]", "a: {shape: [m, 128]"))
    assert "extents of arguments have names, 128 is none" in text
    assert "under 'parameters': {default: 128}" in text


def test_an_operand_where_the_machine_cannot_use_it(tmp_path: Path) -> None:
    text = failing(tmp_path, GEMM.replace("[b200]", "[h200]"))
    assert "MMA: machine h200 has no rule for mma with a in smem, b in smem, d in tmem" in text
    assert "fix: it has rules for mma with a in registers, d in registers; or a in smem" in text


@pytest.mark.medium
def test_more_rows_than_a_warpgroup_has(tmp_path: Path) -> None:
    hopper = GEMM.replace("[b200]", "[h200]").replace("acc: {space: tmem", "acc: {space: registers")
    text = failing(tmp_path, hopper, "emit", "-o", str(tmp_path))
    assert "[rows-of-product]: MMA: wgmma multiplies 64 rows, not 128" in text
    assert re.search(r"fix: split rows over a dimension of 64 rows.*docs/faq\.md", text)


def test_a_schedule_where_a_spec_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(solved("fa4_unit", "abstract").to_json())
    result = CliRunner().invoke(app, ["solve", str(file)])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "not a spec" in result.stderr


@pytest.mark.slow
def test_a_schedule_of_a_machine_without_kernels(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(solved("fa4_unit", "abstract").to_json())
    for command in ("emit", "emulate"):
        result = CliRunner().invoke(app, [command, str(file)])
        assert result.exit_code == 1
        assert "there is no emitter for none" in result.stderr
        assert "fix: solve it for one of sm_90a, sm_100a" in result.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--extent", "m"), ("--switch", "x"), ("--set", "k")]
)
def test_the_option_that_is_wrong_is_named(option: str, value: str) -> None:
    result = CliRunner().invoke(app, ["emulate", "gemm", option, value])
    assert result.exit_code == 2
    assert f"{option} {value}: write NAME=VALUE" in result.stderr
