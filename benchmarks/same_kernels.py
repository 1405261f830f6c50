"""Shipped kernels of today beside the generated files of an earlier revision.

    python benchmarks/same_kernels.py REVISION [--save]

For each spec and architecture: how many kernels have the II, the shared and tensor memory, the
barriers with their slots, arrivals and bytes, and the roles with their registers that they had; how
many have the same code, but for names of specs and roles; and the kind of certificate of the spec's
defaults before and after. Both sides are proven: no file and no lock is written of a program that
is not. REVISION has files ``kernels/SPEC_ARCH_SETTINGS.py`` and ``benchmarks/results/solve.json``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from report import keep, table

from schedgen.codegen.facts import Facts, read_facts
from schedgen.driver import lock_file
from schedgen.driver.binding import kernels_of
from schedgen.driver.lock_file import Locked
from schedgen.kernels import library
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

ROOT = Path(__file__).parent.parent
NAME = "same_kernels"
_SPECS = {
    ("gemm", "kn"): "gemm_nn",
    ("gemm_symmetric", "kn"): "gemm_symmetric_nn",
    ("gemm_parts", "kn"): "gemm_nn_parts",
    ("gemm_parts", "symmetric"): "gemm_symmetric_parts",
    ("gemm_sum", "symmetric"): "gemm_symmetric_sum",
}
"""What was a spec of its own, by the setting that it is now."""
_ROLES = {"tensor": "mma", "tile_load": "LOAD", "epilogue_load": "LOAD", "prologue_load": "LOAD"}
"""Names of roles, before and today, by what they have in common."""
_BARRIER = re.compile(r"^(.+?) +(\d+) +(\d+) +(\d+)$")


def former_name(one: Locked) -> str:
    """What the file of a kernel was called."""
    name = one.name
    for (spec, word), former in _SPECS.items():
        if one.lock.spec == spec and f"_{word}" in name:
            return name.replace(f"_{word}", "", 1).replace(spec, former, 1)
    return name


def former(revision: str, path: str) -> str | None:
    """The text of a file of ``revision``, None if there is none."""
    run = subprocess.run(
        ["git", "show", f"{revision}:{path}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return run.stdout if run.returncode == 0 else None


def barriers(text: str) -> list[tuple[str, ...]]:
    """The table of barriers at the top of a file, without their names."""
    _, _, rest = text.partition("\nbarrier ")
    lines = rest.partition('"""')[0].splitlines()[1:]
    return sorted(found.groups()[1:] for line in lines if (found := _BARRIER.match(line)))


def code(text: str) -> str:
    """What is executed: without what names the spec, its settings and the program."""
    text = text.partition("\nimport ")[2].partition("\nKERNEL = ")[0]
    text = re.sub(r'"""(.|\n)*?"""|#.*', "", text)
    for name, common in _ROLES.items():
        text = text.replace(name, common)
    return re.sub(r"\s|,(?=\s*\))", "", text)  # where lines end depends on the length of names


def compared(one: Locked, old: str, folder: Path) -> dict[str, bool]:
    """What is the same of a kernel."""
    path = folder / former_name(one)
    path.write_text(old, encoding="utf-8")
    before, after = read_facts(path), read_facts(library.file(one))
    new = library.file(one).read_text("utf-8")
    return {
        "II": before.cycles == after.cycles,
        "storage": _storage(before) == _storage(after),
        "roles": [r[1:] for r in _roles(before)] == [r[1:] for r in _roles(after)],
        "barriers": barriers(old) == barriers(new),
        "code": code(old) == code(new),
    }


def _storage(facts: Facts) -> tuple[int, int]:
    return facts.shared_bytes, facts.tensor_columns


def _roles(facts: Facts) -> list[tuple[str, int, int]]:
    return [(role.name, role.warps, role.registers) for role in facts.roles]


def certificates(revision: str) -> dict[tuple[str, str], str]:
    """Kinds of certificates of the specs' defaults, by spec and target."""
    text = former(revision, "benchmarks/results/solve.json")
    rows: list[dict[str, Any]] = json.loads(text)["rows"] if text else []
    return {(row["spec"], row["target"]): row["certificate"] for row in rows}


def _is_default(one: Locked) -> bool:
    """Whether a kernel has none but the default settings of its spec."""
    spec, machine = read_spec(one.lock.spec), read_machine(one.lock.target)
    (kernel, *_) = kernels_of(spec, machine, {})
    return one.kernel.settings.items() <= dict(kernel.parameters).items()


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not words:
        raise SystemExit("give a revision with generated files")
    known, rows = certificates(words[0]), dict[tuple[str, str], dict[str, Any]]()
    kinds: dict[tuple[str, str], set[str]] = {}
    with TemporaryDirectory() as folder:
        for one in lock_file.every():
            row = rows.setdefault(
                (one.lock.spec, one.lock.target),
                {"spec": one.lock.spec, "target": one.lock.target, "kernels": 0, "missing": 0}
                | dict.fromkeys(("II", "storage", "roles", "barriers", "code"), 0)
                | {"certificate before": known.get((one.lock.spec, one.lock.target), "?")},
            )
            row["kernels"] += 1
            kinds.setdefault((one.lock.spec, one.lock.target), set()).add(one.schedule.certificate)
            if _is_default(one):
                row["certificate after"] = one.schedule.certificate
            old = former(words[0], f"kernels/{former_name(one)}")
            if old is None:
                row["missing"] += 1
                continue
            for key, same in compared(one, old, Path(folder)).items():
                row[key] += same
    for key, row in rows.items():  # all kinds, where the defaults are not shipped
        row.setdefault("certificate after", " ".join(sorted(kinds[key])))
    print(table(list(rows.values())))
    keep(NAME, list(rows.values()))


if __name__ == "__main__":
    main()
