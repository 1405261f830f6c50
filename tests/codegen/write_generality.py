"""Writes the kernels of `test_generality_on_gpu.py`, where the solver is:

    python -m tests.codegen.write_generality DIR

Machines with a GPU often have neither solver nor prover; there the tests read them from
``SCHEDGEN_GENERALITY``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from schedgen.driver.emitting import emission
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.codegen.generality import SETTINGS

SPECS = Path(__file__).parent.parent / "data" / "specs"


def main(folder: Path, targets: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for spec, settings in SETTINGS:
        for target in targets:
            source, machine = read_spec(str(SPECS / f"{spec}.yaml")), read_machine(target)
            made = emission(source, machine, dict(settings))
            (folder / made.name).write_text(made.text, encoding="utf-8")
            print(folder / made.name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["h200"])
