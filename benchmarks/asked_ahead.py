"""Whether it is the answer of a barrier that a chain of waits is made of: kernels that ask ahead.

    python benchmarks/asked_ahead.py --prepare FOLDER    # without a GPU
    python benchmarks/asked_ahead.py --run FOLDER [--save]

A wait that finds its barrier complete takes some 42 cycles (`micro/waits.cu`), nearly all of them
until the answer is there. So generated files are edited: in loops with products, all waits but the
first ask at the beginning of the iteration (`mbarrier.test_wait`), go on where the phase was
complete, and wait as ever where it was not. Cycles are those of an iteration of one output tile, as
calibration measures them, of both files in one run. ``--save`` writes ``results/asked_ahead.json``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from report import RESULTS, environment, lines

from schedgen.calibration.measuring import measure
from schedgen.calibration.preparing import MANIFEST, prepare, prepared
from schedgen.calibration.shipped import shipped_experiments

NAMES = (
    "attention_bwd head_dim=64", "attention_bwd head_dim=128", "attention_bwd_q head_dim=64",
    "attention_bwd_q head_dim=128", "attention_bwd_kv head_dim=64",
    "attention_bwd_kv head_dim=128", "attention_parts head_dim=128",
    "attention_kvcache_parts head_dim=128 page_size=64", "attention_fwd head_dim=64",
    "attention_fwd head_dim=128", "attention_fwd head_dim=128 keys=160",
    "attention_fp8 head_dim=64 dtype=e4m3", "attention_fp8 head_dim=128 dtype=e4m3",
    "gemm_mixed weights=e4m3", "gemm_mixed weights=e4m3 tile_m=16",
    "gemm_mixed weights=i4x2 tile_m=64", "gemm_fp8_blocks dtype=e4m3 factors_b=blocks",
    "gemm_gated tile_m=64 consumers=1 tile_n=64",
)  # fmt: skip
TARGET = "h200"
WAYS = ("as it is", "asked ahead")
_HELPERS = """
def ask(barrier, phase):
    text = (
        "{\\\\n.reg .pred P1;\\\\n"
        "mbarrier.test_wait.parity.shared::cta.b64 P1, [$1], $2;\\\\nselp.b32 $0, 1, 0, P1;\\\\n}"
    )
    given = [Int32(barrier.toint()).ir_value(), Int32(phase).ir_value()]
    integer = ir.IntegerType.get_signless(32)
    return llvm.inline_asm(integer, given, text, "=r,r,r", has_side_effects=True)


def wait_unless(ready, barrier, phase):
    text = (
        "{\\\\n.reg .pred P1;\\\\nsetp.ne.s32 P1, $2, 0;\\\\n@P1 bra.uni DONE;\\\\nLAB_WAIT:\\\\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [$0], $1;\\\\n"
        "@P1 bra.uni DONE;\\\\nbra.uni LAB_WAIT;\\\\nDONE:\\\\n}"
    )
    given = [Int32(barrier.toint()).ir_value(), Int32(phase).ir_value(), ready]
    llvm.inline_asm(None, given, text, "r,r,r", has_side_effects=True)


""".replace("\\\\", "\\")
_LOOP = re.compile(r"^( +)for turn in cutlass\.range\(")
_WAIT = re.compile(r"^( +)(?:wait|cute\.arch\.mbarrier_wait)\((.*), (.*)\)$")
_IMPORT = "from cutlass.cute.nvgpu import"


def edited(text: str) -> str:
    """A generated file with loops that ask ahead."""
    modules = "from cutlass._mlir import ir\nfrom cutlass._mlir.dialects import llvm\n"
    text = text.replace(_IMPORT, modules + _IMPORT, 1).replace(
        "\ndef slot(", _HELPERS + "def slot(", 1
    )
    left = iter(text.split("\n"))
    found: list[str] = []
    line = next(left, None)
    while line is not None:
        found.append(line)
        loop = _LOOP.match(line)
        line = next(left, None)
        if loop is None:
            continue
        inside = len(loop[1]) + 4
        body: list[str] = []
        while line is not None and (not line.strip() or line.startswith(" " * inside)):
            body.append(line)
            line = next(left, None)
        found += _asking(body, inside) if "cute.gemm(" in "\n".join(body) else body
    return "\n".join(found)


def _asking(body: list[str], inside: int) -> Iterator[str]:
    """The lines of a loop: questions, then what it did, with waits for the answers."""
    matches = [_WAIT.match(line) for line in body]
    waits = [number for number, wait in enumerate(matches) if wait and len(wait[1]) == inside]
    given = {number: _WAIT.sub(r"\2, \3", body[number]) for number in waits[1:]}
    indent = " " * inside
    for number, arguments in given.items():
        yield f"{indent}asked_{number} = ask({arguments})"
    for number, line in enumerate(body):
        arguments = given.get(number)
        yield line if arguments is None else f"{indent}wait_unless(asked_{number}, {arguments})"


def _prepare(folder: Path) -> None:
    chosen = [one for one in shipped_experiments(TARGET) if one.name in NAMES]
    for way in WAYS:
        prepare(chosen, TARGET, folder / way, print)
    for one in prepared(folder / WAYS[1]).kernels:
        file = folder / WAYS[1] / one.file
        file.write_text(edited(file.read_text("utf-8")), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FOLDER")
    parser.add_argument("--run", type=Path, metavar="FOLDER")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.prepare is not None:
        _prepare(options.prepare)
        return 0
    if options.run is None or not (options.run / WAYS[0] / MANIFEST).exists():
        parser.error("--prepare FOLDER, or --run one that was prepared")
    measured = {
        way: measure(prepared(options.run / way), options.run / way).measured for way in WAYS
    }
    rows = [
        {"kernel": name, **{way: round(measured[way][name].cycles, 1) for way in WAYS}}
        for name in measured[WAYS[0]]
    ]
    for row in rows:
        print(json.dumps(row))
    if options.save:
        (RESULTS / "asked_ahead.json").write_text(lines(environment(), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
