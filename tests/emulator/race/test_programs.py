"""Programs, run as Python runs them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schedgen.emulator.race.programs import Ended, ProgramError, module, run, script
from schedgen.emulator.race.session import LimitReached


def written(folder: Path, text: str, *arguments: str) -> Ended:
    path = folder / "program.py"
    path.write_text(text, "utf-8")
    return run(script(str(path), arguments))


def test_sees_its_arguments_and_folder(tmp_path: Path) -> None:
    before = list(sys.path), sys.argv
    (tmp_path / "beside_it.py").write_text("VALUE = 5\n", "utf-8")
    text = "import sys\nimport beside_it\n"
    text += "sys.exit(beside_it.VALUE + len(sys.argv) + (__name__ != '__main__'))\n"
    assert written(tmp_path, text, "--json", "x") == Ended(8)
    assert (list(sys.path), sys.argv) == before


def test_how_it_ends(tmp_path: Path) -> None:
    assert written(tmp_path, "import sys\nsys.exit()\n") == Ended(0)
    assert written(tmp_path, "import sys\nsys.exit('no')\n") == Ended(1, "no")
    found = written(tmp_path, "def f():\n    raise KeyError('here')\n\nf()\n")
    assert found.status == 1
    assert "line 2, in f" in found.error
    assert found.error.endswith("KeyError: 'here'")
    assert "runpy" not in found.error
    found = written(
        tmp_path,
        "from schedgen.emulator.race.session import LimitReached\n"
        "try:\n    raise LimitReached('after 2 launches')\nexcept Exception:\n    pass\n",
    )
    assert found == Ended(limited="after 2 launches")
    assert not issubclass(LimitReached, Exception)


def test_modules_and_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "some_program_here.py"
    path.write_text("import sys\ndef f():\n    sys.exit(4)\nif __name__ == '__main__':\n    f()\n")
    assert run(script("some_program_here:f", ())) == Ended(4)
    assert run(module("some_program_here", ())) == Ended(4)
    with pytest.raises(ProgramError, match=r"did you mean 'f'\?"):
        run(script("some_program_here:F", ()))
    with pytest.raises(ProgramError, match=r"did you mean 'some_program_here\.py'"):
        script("some_program_hear.py", ())
    with pytest.raises(ProgramError, match="without __main__"):
        script(str(tmp_path), ())
