"""`schedgen race`: programs as a person runs them, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli import race as command
from schedgen.cli.app import app
from schedgen.cli.race import Asked

PROGRAM = """\
import sys
import torch
import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

BARRIER = "--racy" not in sys.argv


@cute.jit
def keep(room: cute.Tensor, t: cutlass.Int32, a: cute.Tensor):
    room[t] = a[t]


@cute.kernel
def kernel(a: cute.Tensor, b: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    room = cutlass.memory.SmemAllocator().allocate_tensor(
        cutlass.Float32, cute.make_layout(64), 16
    )
    keep(room, t, a)
    if cutlass.const_expr(BARRIER):
        cute.arch.barrier()
    b[t] = room[63 - t]


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor):
    kernel(a, b).launch(grid=(1, 1, 1), block=(64, 1, 1))


def main():
    a = torch.randn(64, device="cuda")
    b = torch.zeros_like(a)
    compiled = cute.compile(launch, from_dlpack(a), from_dlpack(b))
    for _ in range(2):
        compiled(from_dlpack(a), from_dlpack(b))
    torch.cuda.synchronize()
    print("right" if torch.equal(b, a.flip(0)) else "wrong")


if __name__ == "__main__":
    main()
"""
READ = "    b[t] = room[63 - t]"
WRITTEN = "    room[t] = a[t]"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["race", *arguments])


def race(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with the program in a folder. CuTe DSL takes the architecture once for all."""
    path = folder / "program.py"
    if not path.exists():
        path.write_text(PROGRAM, "utf-8")
    command = [sys.executable, "-m", "schedgen.cli", "race", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.medium
def test_clean_program(tmp_path: Path) -> None:
    result = race(tmp_path, "program.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "right"
    assert result.stdout.splitlines()[-1] == "2 launches of 1 kernel: clean"


@pytest.mark.medium
def test_racy_program(tmp_path: Path) -> None:
    result = race(tmp_path, "--arch=sm_100a", "--json", "program.py", "--racy")
    assert result.returncode == 1, result.stderr
    data: dict[str, Any] = json.loads(result.stdout)
    (found,) = data["findings"]
    assert found["rule"] == "K1"
    assert found["launches"] == 2
    source = PROGRAM.splitlines()
    places = {(Path(one["file"]).name, one["line"], one["source"]) for one in found["places"]}
    assert places == {
        ("program.py", source.index(line) + 1, line.strip()) for line in (READ, WRITTEN)
    }
    assert "cute.arch.barrier" in found["repair"]
    (written,) = (one for one in found["places"] if one["source"] == WRITTEN.strip())
    call = source.index("    keep(room, t, a)") + 1
    assert [(one["line"], one["text"]) for one in written["calls"]] == [(call, "keep(room, t, a)")]
    assert not data["clean"]


@pytest.mark.medium
def test_function_and_limit(tmp_path: Path) -> None:
    result = race(tmp_path, "--limit=1", "--schedule=round-robin", "program:main")
    assert result.returncode == 0, result.stderr
    assert "the program was ended by --limit after 1 launches" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 launch of 1 kernel: clean"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--arch=sm_90", "x.py"), "use sm_90a or sm_100a; did you mean 'sm_90a'?"),
        (("--schedule=worst", "x.py"), "use adversarial or random or round-robin"),
        (("--limit=0", "x.py"), "write a number of launches"),
        (("--limit=2m", "x.py"), "write a number of launches"),
        (("no_such.py",), "no_such.py: no such file"),
        (("-m", "no_such_module"), "-m no_such_module: no such module"),
        ((), "nothing to run"),
        (("--switch=S99=x", "x.py"), "S99"),
        (("--stall=0", "x.py"), "--stall 0"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], text: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize(
    ("arguments", "program", "module", "given"),
    [
        (("-q", "a.py", "--json", "-m", "x"), "a.py", None, ("--json", "-m", "x")),
        (("--seeds", "2", "-m", "x", "--arch", "a"), None, "x", ("--arch", "a")),
        (("--demote=W2", "x:f"), "x:f", None, ()),
    ],
)
def test_options_behind_the_program_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    program: str | None,
    module: str | None,
    given: tuple[str, ...],
) -> None:
    asked: list[Asked] = []

    def noted(one: Asked, *_: object) -> int:
        asked.append(one)
        return 0

    monkeypatch.setattr(command, "run_race", noted)
    assert invoke(*arguments).exit_code == 0
    (one,) = asked
    words = one.arguments if module is None else (one.program, *one.arguments)
    assert one.module == module
    assert words == given
    assert module is not None or one.program == program


@pytest.mark.slow
def test_page_and_schedules(tmp_path: Path) -> None:
    """A page, and schedules of findings that are executed again."""
    written = ("--html=page.html", "--schedules=kept.json")
    first = race(tmp_path, *written, "--unexecuted", "program.py", "--racy")
    assert first.returncode == 1, first.stderr
    page = (tmp_path / "page.html").read_text("utf-8")
    for text in ("first access", "second access", "keep(room, t, a)", "program.py"):
        assert text in page
    (kept,) = json.loads((tmp_path / "kept.json").read_text("utf-8"))["schedules"]
    again = race(tmp_path, "--replay=kept.json", "--json", "program.py", "--racy")
    found = json.loads(again.stdout)["findings"]
    assert [one["fingerprint"] for one in found] == [kept["finding"]]


def test_replay_of_no_file() -> None:
    result = invoke("--replay=none.json", "x.py")
    assert result.exit_code == 2
    assert "--replay none.json: No such file" in result.stderr
