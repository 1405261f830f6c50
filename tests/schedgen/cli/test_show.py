"""`schedgen show` as a user meets it: formats, files, specs, two schedules, mistakes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app
from schedgen.cli.schedules import complete_format, complete_shown
from schedgen.cli.show import FORMATS, SUFFIXES
from tests.visualize.schedules import solved

BEGINS = {
    "text": "fa4_unit on abstract",
    "svg": "<svg ",
    "perfetto": '{"displayTimeUnit"',
    "dot": 'digraph "fa4_unit" {',
    "json": '{\n "unrolled_format": 1',
    "html": "<!doctype html",
}


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["show", *arguments], input=text)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("show") / "s.json"
    path.write_text(solved("fa4_unit", "abstract").to_json())
    return path


@pytest.mark.medium
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format(file: Path, kind: str) -> None:
    result = run(str(file), "--format", kind)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.lower().startswith(BEGINS[kind].lower())
    assert run("-", "-f", kind, text=file.read_text()).exit_code == 0


@pytest.mark.medium
@pytest.mark.parametrize(("suffix", "kind"), SUFFIXES.items())
def test_the_name_of_the_output_picks_the_format(
    file: Path, tmp_path: Path, suffix: str, kind: str
) -> None:
    out = tmp_path / f"picture{suffix}"
    result = run(str(file), "-o", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text().lower().startswith(BEGINS[kind].lower())
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_format_that_is_given_wins(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "graph.txt"
    assert run(str(file), "-f", "dot", "-o", str(out)).exit_code == 0
    assert out.read_text().startswith("digraph")


def test_json_is_the_unrolled_view(file: Path) -> None:
    found = json.loads(run(str(file), "-f", "json").stdout)
    schedule = solved("fa4_unit", "abstract")
    body = len(schedule.body)
    assert len(found["slices"]) == body * schedule.tile.trips + len(schedule.ops) - body
    assert found["slices"][0] | {"index": 0} == found["slices"][0]
    assert {"operation", "iteration", "unit", "role", "start", "end"} <= set(found["slices"][0])


def test_a_spec_is_solved_first() -> None:
    shown = run("gemm", "--target", "h200", "--set", "k=2048")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("gemm on h200: II ")
    assert "32 iterations" in shown.stdout


@pytest.mark.medium
def test_a_program_is_shown_as_its_steps(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    made = CliRunner().invoke(app, ["solve", "fa4_unit", "--program", str(file)])
    assert made.exit_code == 0
    steps = run(str(file)).stdout
    assert steps == run(str(file), "--program").stdout
    assert "barriers" in steps
    assert "the program, " in run(str(file), "-f", "svg").stdout
    view = json.loads(run(str(file), "-f", "json").stdout)
    assert (view["planned"], view["trips"]) == (False, 32)
    refused = run(str(file), "-f", "dot")
    assert (refused.exit_code, "give the schedule" in refused.stderr) == (2, True)
    refused = run(str(file), str(file))
    assert (refused.exit_code, "this is a program" in refused.stderr) == (2, True)


def test_two_schedules_are_compared(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(solved("fa4_unit", "abstract").to_json().replace('"stages": 2', '"stages": 3'))
    text = run(str(file), str(other))
    assert text.exit_code == 0
    assert [line.split() for line in text.stdout.splitlines()[-1:]] == [["stages", "2", "3"]]
    picture = run(str(file), str(other), "-f", "svg")
    assert f"B: {other}: fa4_unit" in picture.stdout
    assert "<svg" in run(str(file), str(other), "-f", "html").stdout
    refused = run(str(file), str(other), "-f", "dot")
    assert (refused.exit_code, "compared as" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("FILE", "-o", "x.pdf"), "names no format"),
        (("FILE", "-f", "pdf"), "use text, html"),
        (("FILE", "--target", "b200"), "solved already"),
        (("FILE", "--set", "k=1"), "solved already"),
        (("FILE", "FILE", "FILE"), "show one, or two"),
        (("FILE", "--program", "-f", "svg"), "leave out --format"),
        (("gem",), "no shipped spec has this name; there are attention_bwd, "),
        (("gemm", "--target", "b300"), "b200"),
        (("missing.json",), "missing.json: No such file"),
        (("missing.yaml",), "missing.yaml"),
        (("FILE", "-o", "missing/x.svg"), "No such file"),
    ],
)
def test_mistakes(file: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(*(str(file) if word == "FILE" else word for word in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_contradicts_itself_is_refused(file: Path, kind: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(file.read_text().replace('"ii_cycles": 4', '"ii_cycles": 0'))
    result = run(str(bad), "-f", kind)
    assert result.exit_code == 2
    assert f"{bad}: ii_cycles is 0" in result.stderr


@pytest.mark.medium
def test_no_schedule_is_no_picture(tmp_path: Path) -> None:
    out = tmp_path / "x.svg"
    result = run("gemm", "--target", "b200", "--set", "tile_k=512", "-o", str(out))
    assert result.exit_code == 1
    assert "shared memory" in result.stderr
    assert not out.exists()


def test_completion_offers_specs_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gemm.json").touch()
    Path("gems").mkdir()
    found = complete_shown("gem")
    assert {"gemm", "gemm_chain", "gemm.json", "gems/"} <= set(found)
    Path("gems/a.json").touch()
    assert complete_shown("gems/") == ["gems/a.json"]
    assert complete_format("p") == ["perfetto"]
