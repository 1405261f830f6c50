"""Products whose operands have as many slots as each other, and products whose operands do not.

    python benchmarks/stages.py [FOLDER] [--save]

With as many slots both operands share their barriers: one wait of the consumers is enough for an
iteration. The rows are the symmetric product with output tiles of 128 x 128, on the GPU at hand.
Kernels are generated into FOLDER unless they are there; --only-write does no more than that.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from products import bound
from report import keep, table

from schedgen.benchmarks.timing import error, in_turns

SPEC = Path(__file__).parent.parent / "specs" / "gemm_symmetric.yaml"
SHAPES = [(4096, 4096), (8192, 8192)]
"""m = n, and k."""
STAGES = [(5, 5), (5, 6), (6, 5)]
"""Slots of the left and of the right operand."""
SETTINGS = {"tile_n": "128"}


def write(folder: Path, left: int, right: int) -> Path:
    """The generated product with that many slots."""
    from schedgen.driver.emitting import emission
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    text = SPEC.read_text(encoding="utf-8")
    for name, slots in (("sA", left), ("sB", right)):
        text, found = re.subn(rf"( {name}: .*depth: )auto", rf"\g<1>{slots}", text)
        assert found == 1, f"{SPEC} leaves the slots of {name} open no more"
    spec = folder / f"stages_{left}_{right}.yaml"
    spec.write_text(text, encoding="utf-8")
    path = spec.with_suffix(".py")
    path.write_text(
        emission(read_spec(str(spec)), read_machine("h200"), SETTINGS).text, encoding="utf-8"
    )
    return path


def rows(folder: Path, n: int, k: int) -> list[dict[str, object]]:
    device = torch.device("cuda", 0)
    a = torch.randn(1, n, k, device=device).bfloat16()
    out = torch.empty(1, n, n, device=device, dtype=torch.bfloat16)
    reference = (a[0].float() @ a[0].float().mT).double()
    runs: dict[str, Callable[[], None]] = {}
    errors: dict[str, float] = {}
    for left, right in STAGES:
        name = f"{left} and {right}"
        runs[name] = bound(folder / f"stages_{left}_{right}.py", a, a, out)
        runs[name]()
        errors[name] = error(out[0], reference)
    times = {name: time.milliseconds for name, time in in_turns(runs).items()}
    return [
        {"m=n": n, "k": k, "slots": name, "ms": round(time, 4)}
        | {"of even": round(time / next(iter(times.values())), 3), "error": f"{errors[name]:.1e}"}
        for name, time in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only-write", action="store_true")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        for left, right in STAGES:
            if not (folder / f"stages_{left}_{right}.py").exists():
                write(folder, left, right)
        if not options.only_write:
            found = [row for n, k in SHAPES for row in rows(folder, n, k)]
            print(table(found))
            keep("stages", found)


if __name__ == "__main__":
    main()
