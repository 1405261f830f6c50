"""The commands of the documents print what the documents say, and the tool that checks it works."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def _imported() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("run")
    finally:
        sys.path.pop(0)


documents = _imported()
NAMES: tuple[str, ...] = documents.NAMES


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "docs/run.py", "--check", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.timeout(900)
def test_commands_print_what_stands_below_them(name: str) -> None:
    run = checked(name)
    assert run.returncode == 0, run.stdout + run.stderr


DOCUMENT = """# Title

<!-- file: a.txt -->
```yaml
one: 1
```

```console
$ cat a.txt
one: 1
$ echo "took; 0.12 s"; echo two
took
two
$ printf 'a\\nb\\nc\\n'
a
...
c
$ ls missing-file
ls: cannot access 'missing-file': No such file or directory
```
"""


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "a.txt").write_text("one: 1\n")
    (tmp_path / "page.md").write_text(DOCUMENT)
    monkeypatch.setattr(documents, "DOCS", tmp_path)
    return tmp_path


def test_a_fresh_document_is_left_alone(docs: Path) -> None:
    assert documents.main(["page"]) == 0
    assert (docs / "page.md").read_text() == DOCUMENT
    assert documents.main(["--check", "page"]) == 0


@pytest.mark.parametrize(
    ("old", "new"), [("\ntwo\n", "\nthree\n"), ("\na\n...", "\nb\n..."), ("took\n", "")]
)
def test_a_wrong_output_is_found_and_mended(docs: Path, old: str, new: str) -> None:
    page = docs / "page.md"
    page.write_text(DOCUMENT.replace(old, new, 1))
    assert documents.main(["--check", "page"]) == 1
    documents.main(["page"])
    assert documents.main(["--check", "page"]) == 0


def test_a_file_that_differs_is_found(docs: Path) -> None:
    (docs / "examples" / "a.txt").write_text("one: 2\n")
    assert documents.main(["--check", "page"]) == 1
