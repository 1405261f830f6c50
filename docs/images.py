"""Draws the pictures of README and docs again, each by the commands that stand beside it.

python docs/images.py          rewrites docs/images/
python docs/images.py --check  says which of them are stale; exit status 1 if one is
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IMAGES = Path(__file__).parent / "images"

# The published kernel's storage map and product order, as in benchmarks/attention_maps.py.
_FA4 = "--set exp2_polynomial=3/16 --set p_storage=own --set product_order=pv_first --set kv_lag=0"

PICTURES: Mapping[str, Sequence[str]] = {
    "attention_fwd_b200.svg": ("show attention_fwd --target b200 -o attention_fwd_b200.svg",),
    "attention_fwd_h200.svg": ("show attention_fwd --target h200 -o attention_fwd_h200.svg",),
    "attention_program_b200.svg": (
        "solve attention_fwd --target b200 --program program.json",
        "show program.json -o attention_program_b200.svg",
    ),
    "attention_maps.svg": (
        f"solve attention_fwd --target b200 {_FA4} -o fa4.json",
        "solve attention_fwd --target b200 --set exp2_polynomial=3/16 -o solver.json",
        "show fa4.json solver.json -o attention_maps.svg",
    ),
}


def drawn(name: str) -> str:
    """What the commands of picture ``name`` draw today."""
    with tempfile.TemporaryDirectory() as folder:
        for command in PICTURES[name]:
            subprocess.run(
                [sys.executable, "-m", "schedgen.cli", *command.split()],
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        return (Path(folder) / name).read_text("utf-8")


def main() -> int:
    """Returns the exit status."""
    stale: list[str] = []
    for name in PICTURES:
        path, new = IMAGES / name, drawn(name)
        if path.is_file() and path.read_text("utf-8") == new:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            IMAGES.mkdir(exist_ok=True)
            path.write_text(new, "utf-8")
    if "--check" in sys.argv:
        print("\n".join(f"docs/images/{n} is stale: run python docs/images.py" for n in stale))
        return 1 if stale else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
