"""The pictures of the documents are what their commands draw today."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_pictures_are_fresh() -> None:
    run = subprocess.run(
        [sys.executable, "docs/images.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_picture_stands_beside_its_commands() -> None:
    """Each picture is shown by a document which has the last command that draws it."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        pictures: dict[str, tuple[str, ...]] = importlib.import_module("images").PICTURES
    finally:
        sys.path.pop(0)
    text = (ROOT / "docs" / "attention.md").read_text("utf-8")
    for name, commands in pictures.items():
        assert f"](images/{name})" in text
        for command in commands:
            assert f"schedgen {command}" in text
        assert (ROOT / "docs" / "images" / name).is_file()
