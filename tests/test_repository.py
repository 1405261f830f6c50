"""What the repository promises about itself: packages are complete, documents are fresh."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "benchmarks/measured": "schedgen.benchmarks",
    "benchmarks/mutation": "schedgen.benchmarks.mutants",
    **{n: f"schedgen.{n}" for n in ("codegen", "emulator", "kernels", "specs", "visualize")},
}
"""Folders of subpackages that do not lie in the folder of schedgen."""


def test_every_package_is_installed() -> None:
    """The package list is explicit: a new folder that is not in it is missing in wheels."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    folders = {path.parent for path in (ROOT / "schedgen").rglob("__init__.py")}
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    outside = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for folder, package in OUTSIDE.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == found | outside


@pytest.mark.slow
def test_generated_parts_of_documents_are_fresh() -> None:
    for script in (["docs/fill.py", "--check"],):
        run = subprocess.run(
            [sys.executable, *script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr


def test_machine_tables_are_fresh() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import tables  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    document = (ROOT / "docs" / "machines.md").read_text("utf-8")
    assert tables.updated(document) == document


def test_nothing_names_this_machine() -> None:
    """No path of a developer's machine and no registry host may be committed."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    words = ("/" + "work/", "/" + "root/", "pypi" + ".org", "python" + "hosted")
    for name in filter(None, listed):
        path = ROOT / name
        if path.is_symlink() or not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        assert not any(word in text for word in words), name
