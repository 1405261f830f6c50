"""Runs the commands of the documents and checks what stands below them.

    python docs/run.py [NAME ...]          rewrites outputs that are not what the commands print
    python docs/run.py --check [NAME ...]  says which are not; exit status 1 if there is one

A `console` block has commands after `$ ` and what they print. The commands of a document run one
after the other in a folder with a copy of docs/examples/ and of docs/examples/NAME/. A `yaml` block
below `<!-- file: FILE -->` is that file. A line `...` stands for any lines; times are left out of
what is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
NAMES = ("index", "getting-started", "tutorial", "show", "faq", "spec", "bugs")
END = "<!-- what follows is not run -->"
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```\n", re.DOTALL
)
# "; 0.12 s" at the end of a line, "; graph 0.01 s, execution 0.5 s", ", 7.5 s", "graph  0.05 s  no"
TIMES = (
    (re.compile(r"; (\w+ )?\d+\.\d+ s(, \w+ \d+\.\d+ s)*$", re.MULTILINE), ""),
    (re.compile(r", \d+\.\d+ s(?=$|, \d+ did not end$)", re.MULTILINE), ""),
    (re.compile(r" +\d+\.\d+ s  "), "  "),
)


@dataclass(frozen=True, slots=True)
class Stale:
    """A block that is not what it claims to be, and what it has to be (None if nobody can say)."""

    document: str
    what: str
    old: str
    new: str | None


def stale(name: str) -> Iterator[Stale]:
    """What is wrong in ``docs/NAME.md``, found by running it."""
    text, _, _ = (DOCS / f"{name}.md").read_text("utf-8").partition(END)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(DOCS / "examples", place, dirs_exist_ok=True)
        if (own := DOCS / "examples" / name).is_dir():
            shutil.copytree(own, place, dirs_exist_ok=True)
        (place / "docs").symlink_to(DOCS)
        (place / "specs").symlink_to(DOCS.parent / "specs")
        for block in BLOCK.finditer(text):
            if block["file"]:
                file = place / block["file"]
                now = file.read_text("utf-8") if file.is_file() else None
                if now != block["text"]:
                    yield Stale(name, f"docs/examples/{block['file']}", block["text"], now)
            elif block["language"] == "console":
                new = "".join(_run(*part, place) for part in _commands(block["text"]))
                if new != block["text"]:
                    yield Stale(name, block["text"].partition("\n")[0], block["text"], new)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the output below it."""
    for part in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
        if part:
            command, _, output = part.partition("\n")
            yield command.removeprefix("$ "), output


def _run(command: str, expected: str, place: Path) -> str:
    """The command and what it prints; what is expected, if that fits."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = run.stdout
    for pattern, instead in TIMES:
        printed = pattern.sub(instead, printed)
    printed = re.sub(r" +$", "", printed, flags=re.MULTILINE).rstrip("\n")
    printed += "\n" if printed else ""
    fits = _wildcard(expected).fullmatch(printed)
    return f"$ {command}\n{expected if fits else printed}"


def _wildcard(expected: str) -> re.Pattern[str]:
    lines = [
        r"(?:.*\n)*?" if line == "...\n" else re.escape(line)
        for line in expected.splitlines(keepends=True)
    ]
    return re.compile("".join(lines))


def main(arguments: list[str]) -> int:
    """Returns the exit status."""
    check = "--check" in arguments
    names = [name for name in arguments if not name.startswith("-")] or NAMES
    found = [one for name in names for one in stale(name)]
    for one in found:
        path = DOCS / f"{one.document}.md"
        print(f"docs/{one.document}.md: {one.what} is stale: run python docs/run.py")
        if check:
            print(one.new)
        elif one.new is not None:
            text = path.read_text("utf-8")
            path.write_text(text.replace(one.old, one.new, 1), "utf-8")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
