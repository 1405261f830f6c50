"""Does the emulator compute what an H200 computes? Micro-kernels, and the shipped kernels.

    python benchmarks/emulate_hardware.py --on gpu -o DIR
    python benchmarks/emulate_hardware.py --on emulator --against DIR [--save]

The first, on a machine with a GPU of compute capability 9.0, runs every kernel on seeded inputs and
writes ``DIR/hardware.npz`` and ``hardware.json``; it needs neither a solver nor a CUDA toolkit. The
second, anywhere, runs the same in the emulator and compares: bit by bit where the order of the
arithmetic is defined, otherwise with a bound that each row states. ``--on emulator -o DIR`` writes
the files as well, for tests. ``--only=NAME,NAME`` takes kernels whose names begin
so; ``--against`` takes several folders, of which later ones replace results of earlier ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from micro import copies, products
from micro.launch import EXACT, Array, Micro
from micro.run import Gpu, emulate
from report import environment, keep, table

PATIENCE = 300
"""Seconds for one kernel on the GPU, its compilation included."""
Row = dict[str, Any]


@cache
def cases() -> Mapping[str, Any]:
    """Name -> micro-kernel or generated kernel."""
    import emulate_shipped

    found: dict[str, Any] = {}
    for micro in (*copies.cases(), *products.cases()):
        found[micro.name] = micro
    for generated in emulate_shipped.cases():
        found[generated.name] = generated
    return found


def bits(values: Any) -> Array:
    """A tensor's or an array's words."""
    import torch

    if isinstance(values, torch.Tensor):
        dense = values.contiguous()
        return dense.view({2: torch.int16, 4: torch.int32}[dense.element_size()]).numpy()
    return values


def numbers(words: Array, kind: str) -> Array:
    """Words as the numbers that they are."""
    if kind == "bf16":
        return (words.astype(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return words.view(kind)


def in_emulator(name: str) -> tuple[dict[str, Array], str]:
    """Outputs as words, and what the race checker finds."""
    case = cases()[name]
    if isinstance(case, Micro):
        return emulate(case)
    import emulate_shipped

    found, text = emulate_shipped.emulated(case)
    return {key: bits(value) for key, value in found.items()}, text


def on_gpu(name: str, gpu: Gpu) -> dict[str, Array]:
    """Outputs as words."""
    case = cases()[name]
    if isinstance(case, Micro):
        return gpu.run(case)
    import emulate_shipped

    return {key: bits(value) for key, value in emulate_shipped.on_gpu(case).items()}


def work(folder: Path, names: list[str], where: str) -> None:
    """Runs kernels that have no file yet; the file of one that fails has its error."""
    gpu = Gpu() if where == "gpu" else None
    for name in names:
        if (folder / f"{name}.npz").exists() or (folder / f"{name}.txt").exists():
            continue
        (folder / "current").write_text(name, "utf-8")
        print(name, flush=True)
        try:
            found = on_gpu(name, gpu) if gpu else in_emulator(name)[0]
        except Exception as error:
            (folder / f"{name}.txt").write_text(f"{type(error).__name__}: {error}", "utf-8")
            raise SystemExit(1) from error  # its context may be broken: a new process goes on
        np.savez(folder / f"{name}.npz", **found)  # pyright: ignore[reportArgumentType]


def supervise(folder: Path, names: list[str], where: str) -> None:
    """Lets processes run all kernels, although one may hang or break its context."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--on", where, "--work", str(parts), "--names", *names]
    while True:
        before = len(list(parts.iterdir()))
        try:
            done = subprocess.run(command, check=False, timeout=PATIENCE).returncode == 0
        except subprocess.TimeoutExpired:
            done = False
        if done:
            break
        if len(list(parts.iterdir())) == before and not (parts / "current").exists():
            raise SystemExit("no kernel can be run")
        current = (parts / "current").read_text("utf-8")
        if not any((parts / f"{current}{end}").exists() for end in (".npz", ".txt")):
            (parts / f"{current}.txt").write_text("hangs, or ends the process", "utf-8")
    collect(folder, parts, where)


def files() -> dict[str, str]:
    """Which versions of the generated kernels these are."""
    import emulate_shipped

    return {case.name: case.facts.sha256[:12] for case in emulate_shipped.cases()}


def collect(folder: Path, parts: Path, where: str) -> None:
    """One file for all results, and one that says where they are from."""
    arrays: dict[str, Array] = {}
    for path in sorted(parts.glob("*.npz")):
        with np.load(path) as found:
            arrays |= {f"{path.stem}/{key}": found[key] for key in found.files}
    np.savez_compressed(folder / "hardware.npz", **arrays)  # pyright: ignore[reportArgumentType]
    import torch

    there = environment() | {"torch": torch.__version__, "on": where}
    if where == "gpu":
        gpu = Gpu()
        there |= {"gpu": gpu.name, "driver": str(gpu.driver)}
    failures = {path.stem: path.read_text("utf-8") for path in sorted(parts.glob("*.txt"))}
    data = {"environment": there, "failures": failures, "files": files()}
    text = json.dumps(data, indent=1) + "\n"
    (folder / "hardware.json").write_text(text, "utf-8")
    print(f"{len(arrays)} arrays; {len(failures)} kernels failed: {', '.join(failures) or 'none'}")


def compare(name: str, wanted: Mapping[str, Array], failure: str) -> Row:
    """One row: the emulator beside the hardware."""
    row: Row = {"kernel": name, "of": "", "elements": 0, "different bits": 0, "largest": 0.0}
    case = cases()[name]
    row["of"] = case.about if isinstance(case, Micro) else "generated kernel"
    if failure:
        return row | {"equal": False, "allowed": EXACT, "note": f"on the GPU: {failure}"}
    try:
        found, races = in_emulator(name)
    except Exception as error:
        return row | {"equal": False, "allowed": EXACT, "note": f"in the emulator: {error}"}
    rule, kinds, bounds = _rule(case, found)
    equal = True
    for key, ours in found.items():
        theirs = wanted[key]
        same = ours.view(np.uint8) == theirs.view(np.uint8)
        words = same.reshape(*ours.shape, -1).all(-1)
        row["elements"] += words.size
        row["different bits"] += int((~words).sum())
        if rule == EXACT:
            equal &= bool(words.all())
            continue
        one, other = (numbers(x, kinds[key]).astype(np.float64) for x in (ours, theirs))
        excess = np.where(words, 0.0, np.abs(one - other) / bounds[key])
        row["largest"] = max(row["largest"], round(float(np.nan_to_num(excess, nan=99).max()), 3))
        equal &= row["largest"] <= 1
    same_bits = {"digest": digest(wanted)} if rule == EXACT and equal else {}
    return row | {"equal": equal, "allowed": rule, "note": races} | same_bits


def digest(outputs: Mapping[str, Array]) -> str:
    """Twelve hexadecimal digits for all outputs."""
    found = sha256()
    for key in sorted(outputs):
        found.update(np.ascontiguousarray(outputs[key]).tobytes())
    return found.hexdigest()[:12]


def _rule(case: Any, found: Mapping[str, Array]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """What is allowed, with the kind and the bound of each output."""
    if isinstance(case, Micro):
        return case.rule, dict.fromkeys(found, case.kind), dict.fromkeys(found, case.allowed)
    import torch

    types = {p.name: p.dtype for p in case.facts.tensors}
    kinds = {key: {"bf16": "bf16", "fp16": "f2", "f32": "f4"}[types[key]] for key in found}
    tensors = {
        key: torch.from_numpy(numbers(words, kinds[key]).astype(np.float32)).to(
            {"bf16": torch.bfloat16, "f2": torch.float16, "f4": torch.float32}[kinds[key]]
        )
        for key, words in found.items()
    }
    rule, bounds = case.rule(tensors)
    return rule, kinds, bounds


def against(folders: list[Path], names: list[str]) -> None:
    """Compares, prints, keeps the rows."""
    theirs: dict[str, dict[str, Array]] = {}
    failures: dict[str, str] = {}
    origin: dict[str, str] = {}
    for folder in folders:
        about = json.loads((folder / "hardware.json").read_text("utf-8"))
        origin |= about["environment"]
        found: dict[str, dict[str, Array]] = {}
        with np.load(folder / "hardware.npz") as arrays:
            for key in arrays.files:
                name, _, output = key.partition("/")
                found.setdefault(name, {})[output] = arrays[key]
        theirs |= found
        failures = {k: v for k, v in failures.items() if k not in found} | about["failures"]
        old = about.get("files", {})
        for name in [name for name in found if old.get(name) != files().get(name)]:
            print(f"{name} is another file now than on the GPU")
            del theirs[name]
    there = [name for name in names if name in theirs or name in failures]
    if len(there) < len(names):
        missing = sorted(set(names) - set(there))
        print(f"{len(missing)} kernels were not run on the GPU: {', '.join(missing)}")
    rows: list[Row] = []
    for name in there:
        rows.append(compare(name, theirs.get(name, {}), failures.get(name, "")))
        rows[-1] |= {"hardware": origin}
        if not rows[-1]["equal"] or rows[-1]["note"]:
            print(table([{k: v for k, v in rows[-1].items() if k != "hardware"}]), flush=True)
    for row in rows[1:]:  # the same in all
        del row["hardware"]
    keep("emulate_hardware", rows)
    equal = sum(row["equal"] for row in rows)
    exact = sum(row["equal"] and row["allowed"] == EXACT for row in rows)
    print(f"{len(rows)} kernels, {equal} equal, {exact} of them bit by bit")
    raise SystemExit(equal != len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=("gpu", "emulator"), required=True)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--against", type=Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--names", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or [
        name for name in cases() if name.startswith(tuple(options.only.split(",")))
    ]
    if options.work:
        work(options.work, names, options.on)
    elif options.against:
        against(options.against, names)
    elif options.output:
        supervise(options.output, names, options.on)
    else:
        parser.error("-o DIR or --against DIR is needed")


if __name__ == "__main__":
    main()
