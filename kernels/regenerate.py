"""Writes the generated kernels of this folder again: ``python -m schedgen.kernels.regenerate``.

``--check`` compares instead and exits with 1 if a file differs. Names of files, or beginnings of
names, choose some of them. ``--conform`` compiles each file and compares its PTX with its program
(docs/conform.md); the exit status is 1 if one differs. Solving is deterministic, so the same specs,
machine models and versions of the solvers and of ruff give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from schedgen.codegen.facts import file_name
from schedgen.kernels import split
from schedgen.kernels.tiling import TILES
from schedgen.stored import Store

FOLDER = Path(__file__).parent
TARGETS = {"h200": "sm_90a", "b200": "sm_100a"}
"""Machine models with their architectures."""

PRODUCTS = ("gemm", "gemm_nn", "gemm_symmetric", "gemm_symmetric_nn")
PARTS = ("gemm_parts", "gemm_nn_parts", "gemm_symmetric_parts")
SUMS = ("gemm_sum", "gemm_symmetric_sum")


@dataclass(frozen=True, slots=True)
class Shipped:
    """A generated kernel of this folder: what it is made from."""

    spec: str
    target: str
    settings: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return file_name(self.spec, TARGETS[self.target], dict(self.settings))


def shipped() -> Iterator[Shipped]:
    """All generated kernels of this folder."""
    for target, dtype in product(TARGETS, ("bf16", "fp16")):
        for head_dim, causal in product(("64", "128"), ((), (("causal", "true"),))):
            settings = (("head_dim", head_dim), ("dtype", dtype), *causal)
            yield Shipped("attention_fwd", target, settings)
        for spec in ("gemm_epilogue", "gemm_chain"):
            yield Shipped(spec, target, (("dtype", dtype),))
        for spec, tile in product(PRODUCTS, TILES[TARGETS[target]]):
            yield Shipped(spec, target, (("dtype", dtype), *tile.settings.items()))
        for spec, tile in product(PARTS, split.TILES[TARGETS[target]]):
            yield Shipped(spec, target, (("dtype", dtype), *tile.settings.items()))
        for spec in SUMS:
            yield Shipped(spec, target, (("dtype", dtype),))


def text(kernel: Shipped, store: Store | None = None) -> str:
    """What the file of ``kernel`` should contain: where warpgroups take registers from others, or
    multiply, it is compiled, to see whether they are enough. What ``store`` has is not solved
    again. Raises SchedgenError.
    """
    from schedgen.driver.emitting import emission
    from schedgen.driver.selecting import compiled_emission
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    machine = read_machine(kernel.target)
    spec, settings = read_spec(kernel.spec), dict(kernel.settings)
    found = emission(spec, machine, settings, store=store)
    if needs_compiler(found.text):
        return compiled_emission(spec, machine, settings, first=found, store=store)[0].text
    return found.text


def needs_compiler(file: str) -> bool:
    """Whether only the compiler can say that the kernel of a generated file is acceptable."""
    return "setmaxregister_increase" in file or "warpgroup.wait_group(" in file


def differences(path: Path, store: Store | None = None) -> list[str]:
    """Where the PTX of the generated file ``path`` is not its program. Raises SchedgenError."""
    from schedgen.codegen.report import compile_report
    from schedgen.conform.report import compared
    from schedgen.driver.deriving import derived

    with TemporaryDirectory(prefix="schedgen-") as folder:
        report = compile_report(path, Path(folder))
        # What was solved for the text of the file is not solved again to compare it.
        program, kernel = derived(report.facts, None, str(path), store=store)
        found, _ = compared(report.built.ptx, report.built.cubin, program, kernel)
    return [finding.text for finding in found.findings]


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="files, or beginnings of their names")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument(
        "--conform", action="store_true", help="compile each and compare it with its program"
    )
    options = parser.parse_args()
    with TemporaryDirectory(prefix="schedgen-") as folder:
        different, wrong = _written(options, Store(Path(folder)))
    return 1 if wrong or (options.check and different) else 0


def _written(options: argparse.Namespace, store: Store) -> tuple[int, int]:
    """How many files are different, and how many kernels are not their programs. ``store`` is this
    run's own, so that nothing is taken from earlier ones.
    """
    different = wrong = 0
    for kernel in shipped():
        if options.names and not kernel.name.startswith(tuple(options.names)):
            continue
        path, wanted = FOLDER / kernel.name, text(kernel, store)
        same = path.exists() and path.read_text("utf-8") == wanted
        different += not same
        if not same and not options.check:
            path.write_text(wanted, encoding="utf-8")
        found = differences(path, store) if options.conform else []
        wrong += bool(found)
        print(
            f"{kernel.name}: {'as it was' if same else 'different'}", *found, sep="\n  ", flush=True
        )
    return different, wrong


if __name__ == "__main__":
    sys.exit(main())
