"""Solves and proves the shipped kernels again: ``python -m schedgen.kernels.regenerate``.

It writes their locks (``lock/SPEC_ARCH.json``), from which kernels are made when they are used, and
six of them to read. ``--check`` compares instead and exits with 1 if a file differs. Names of
locks, or beginnings of names, choose some of them. ``--emit`` keeps the decisions of the locks and
only emits again, for changes of emission: programs that change are proven, nothing is solved.
``--missing`` solves only kernels that a lock of the same spec and machine model does not have.
``--conform`` compiles each kernel and compares its PTX with its program (docs/conform.md); the exit
status is 1 if one differs. Solving is deterministic, so the same specs, machine models and versions
of the solvers, the compiler and ruff give the same bytes, with nvdisasm: only with it is a kernel
written in another way if the assembler undid its schedule (docs/conform.md, section 5).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schedgen.codegen.facts import file_name
from schedgen.codegen.style import Style, asked
from schedgen.driver import lock_file
from schedgen.driver.lock_file import Lock, LockedKernel, LockError
from schedgen.kernels import (
    attention_scaled_op,
    budgets,
    cross_entropy_op,
    dropout_op,
    mixed_op,
    one_walk,
    quantized_op,
    rotary_op,
    scaled_op,
    scaled_tiling,
    split,
    styles,
)
from schedgen.kernels.attention_arguments import GRADIENT_DIMS, HEAD_DIMS, dims
from schedgen.kernels.attention_backward import ARCHITECTURES as DERIVED
from schedgen.kernels.attention_backward import CONVERT, DELTA, QUERIES, WHOLE
from schedgen.kernels.attention_backward import KEYS as KEYS_AND_VALUES
from schedgen.kernels.attention_decode import COMBINE
from schedgen.kernels.attention_decode import HEAD_DIMS as DECODED
from schedgen.kernels.attention_decode import IN_TURN as DECODED_IN_TURN
from schedgen.kernels.attention_decode import PARTS as DECODE_PARTS
from schedgen.kernels.attention_decode import WHOLE as DECODE_WHOLE
from schedgen.kernels.attention_decode_kvcache import COMBINE as KVCACHE_COMBINE
from schedgen.kernels.attention_decode_kvcache import IN_TURN as KVCACHE_IN_TURN
from schedgen.kernels.attention_decode_kvcache import PARTS as KVCACHE_PARTS
from schedgen.kernels.attention_decode_kvcache import WHOLE as KVCACHE_WHOLE
from schedgen.kernels.keys import KEYS, OWN
from schedgen.kernels.tiling import GATES, Product, sizes
from schedgen.stored import Store

if TYPE_CHECKING:
    from schedgen.driver.emitting import Emission

FOLDER = Path(__file__).parent
TARGETS = {"h200": "sm_90a", "b200": "sm_100a"}
"""Machine models with their architectures."""

EXAMPLES = (
    "attention_fwd_sm_90a_head_dim128_bf16.py",
    "attention_fwd_sm_100a_head_dim128_bf16.py",
    "attention_fwd_sm_100a_head_dim128_bf16_causal.py",
    "gemm_sm_90a_bf16.py",
    "gemm_sm_100a_bf16.py",
    "gemm_symmetric_sm_90a_bf16.py",
)
"""Files of this folder to read; all others are made when they are used."""

PAGES = ("", "16", "64", "256")
"""Keys of a page in decode over caches, of which there are kernels with a head_dim of 128; others
are made on first use."""
PRODUCTS = ((False, True), (False, False), (True, False))
"""Whether products are symmetric, and whether an activation is applied to them."""
SUMS = (False, True)
"""Whether products that are split along k are symmetric."""
FUSED = (
    *({"gate": gate, "scaled": scaled} for gate in GATES for scaled in (False, True)),
    *({"scaled": True}, {"squares": True}),
)
"""What the epilogues of other products do; b is read along k."""
PARTS = ((False, "nk"), (False, "kn"), (True, "nk"))
"""The same, and how b lies in memory: there is no other kernel of parts of a symmetric product."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A shipped kernel: what it is made from."""

    spec: str
    target: str
    settings: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return file_name(self.spec, TARGETS[self.target], dict(self.settings))


def shipped() -> Iterator[Shipped]:
    """All shipped kernels."""
    for target, dtype in product(TARGETS, ("bf16", "fp16")):
        every = [dims(q, v) for q, some in HEAD_DIMS.items() for v in some]
        for of_heads, causal in product(every, ((), (("causal", "true"),))):
            settings = (*of_heads.items(), ("dtype", dtype), *causal)
            of = (TARGETS[target], int(of_heads["head_dim"]), bool(causal))
            for each in KEYS.get(of, (OWN,)):
                more = () if each == OWN else (("keys", str(each)),)
                yield Shipped("attention_fwd", target, (*settings, *more))
        for sizes_of, causal in product(DECODED, ((), (("causal", "true"),))):
            settings = (*dims(*sizes_of).items(), ("dtype", dtype), *causal)
            yield Shipped(DECODE_PARTS, target, settings)
            if sizes_of in DECODED_IN_TURN[TARGETS[target]]:
                yield Shipped(DECODE_WHOLE, target, settings)
        yield Shipped(COMBINE, target, (("dtype", dtype),))
        for page, causal in product(PAGES, ((), (("causal", "true"),))):
            paged = (("page_size", page),) if page else ()
            settings = (*dims(128, 128).items(), ("dtype", dtype), *causal, *paged)
            yield Shipped(KVCACHE_PARTS, target, settings)
            if (128, 128) in KVCACHE_IN_TURN[TARGETS[target]]:
                yield Shipped(KVCACHE_WHOLE, target, settings)
        yield Shipped(KVCACHE_COMBINE, target, (("dtype", dtype),))
        if TARGETS[target] in DERIVED:
            yield from _gradients(target, dtype)
        yield Shipped("gemm_chain", target, (("dtype", dtype),))
        arch = TARGETS[target]
        for (symmetric, activated), layout in product(PRODUCTS, ("nk", "kn")):
            one = Product(arch, dtype, symmetric, layout, activated)
            for tile in sizes(one):
                yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        for symmetric in SUMS:
            one = Product(arch, dtype, symmetric, "kn", a_layout="km")
            for tile in sizes(one):  # none of fp16
                yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        for more in FUSED:
            one = replace(Product(arch, dtype), **more)
            for tile in sizes(one):
                yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        for of_list, layout in product(({"grouped": True}, {"gathered": True}), ("nk", "kn")):
            one = replace(Product(arch, dtype, b_layout=layout), **of_list)
            for tile in sizes(one):  # none of fp16
                yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        one = Product(arch, dtype, dropped=True)
        for tile in sizes(one):
            yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        yield Shipped(dropout_op.SPEC, target, (("dtype", dtype),))
        yield Shipped(cross_entropy_op.SPEC, target, (("dtype", dtype),))
        for half in rotary_op.HALVES:
            yield Shipped(rotary_op.SPEC, target, (("dtype", dtype), ("half", str(half))))
        one = Product(arch, dtype, groups_along_k=True)
        for tile in sizes(one):  # none of fp16
            yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        one = Product(arch, dtype, transposed=True)
        for tile in sizes(one):
            yield Shipped(one.spec, target, tuple(one.settings(tile).items()))
        for symmetric, layout in PARTS:
            one = Product(arch, dtype, symmetric, layout)
            for tile in split.TILES[arch]:
                yield Shipped("gemm_parts", target, tuple(one.parts_settings(tile).items()))
        one = Product(arch, dtype, b_layout="kn", a_layout="km")
        for tile in split.TILES[arch][:1] if sizes(one) else ():
            yield Shipped("gemm_parts", target, tuple(one.parts_settings(tile).items()))
        for symmetric in SUMS:
            one = Product(arch, dtype, symmetric)
            yield Shipped("gemm_sum", target, tuple(one.sum_settings.items()))
    for target in TARGETS:
        yield Shipped("rms_factors", target, ())
    yield from _scaled()


def _gradients(target: str, dtype: str) -> Iterator[Shipped]:
    """Kernels of attention's gradients."""
    yield Shipped(DELTA, target, (("dtype", dtype),))
    for head_dim, causal in product(GRADIENT_DIMS, ((), (("causal", "true"),))):
        settings = (*dims(head_dim, head_dim).items(), ("dtype", dtype), *causal)
        yield Shipped(KEYS_AND_VALUES, target, settings)
        yield Shipped(QUERIES, target, settings)
        if head_dim in one_walk.UNORDERED[TARGETS[target]]:
            yield Shipped(WHOLE, target, settings)
        if head_dim in one_walk.ORDERED[TARGETS[target]]:
            yield Shipped(WHOLE, target, (*settings, ("ordered", "true")))
    yield Shipped(CONVERT, target, (("dtype", dtype),))
    yield Shipped(CONVERT, target, (("dtype", dtype), ("follows", "true")))


def _scaled() -> Iterator[Shipped]:
    """Kernels of 8-bit and 4-bit operands, or results."""
    eight = attention_scaled_op.DTYPES.values(), attention_scaled_op.HEAD_DIMS
    for target, dtype, dim in product(TARGETS, *eight):
        for causal in ((), (("causal", "true"),)):
            settings = (("head_dim", str(dim)), ("dtype", dtype), *causal)
            yield Shipped(attention_scaled_op.SPEC, target, settings)
    for target, dtype in product(TARGETS, ("bf16", "fp16")):
        for out in quantized_op.OUTPUTS.values():
            settings = ("dtype", dtype), ("out", out)
            yield Shipped(quantized_op.SPEC, target, settings)
            if target == "b200":  # Hopper's threads convert nothing to e8m0
                yield Shipped(quantized_op.SPEC, target, (*settings, ("factor", "e8m0")))
    long = {"dtype": "e4m3"} | scaled_op.LONG_SETTINGS
    rows = tuple({"dtype": "e4m3", **more} for more in ({}, {"factors": "whole"}))
    names = scaled_op.NAMES
    blocks = tuple({"dtype": names[d], "factor": names[f]} for d, f in scaled_op.BLOCK)
    specs = (
        (scaled_tiling.LONG, (long,)),
        (scaled_tiling.ROWS, rows),
        (scaled_tiling.BLOCKS, blocks),
    )
    for (spec, kinds), target in product(specs, TARGETS):
        arch = TARGETS[target]
        for tile, kind in product(scaled_tiling.TILES[spec].get(arch, ()), kinds):
            more = scaled_tiling.settings(spec, arch, tile)
            yield Shipped(spec, target, (*kind.items(), *more.items()))
    every = product(TARGETS, mixed_op.WEIGHTS.values(), mixed_op.FACTORS, mixed_op.ROWS)
    for target, weights, factors, rows in every:
        settings = mixed_op.settings(weights, factors, rows)
        yield Shipped(mixed_op.SPEC, target, tuple(settings.items()))


def emitted(kernel: Shipped, store: Store | None = None) -> Emission:
    """What ``kernel`` should be: where warpgroups take registers from others, multiply, or make
    operands of products, it is compiled, to see whether registers are enough, from what
    `schedgen.kernels.budgets` has it begin with. What ``store`` has is not solved again.

    Raises SchedgenError.
    """
    from schedgen.codegen.errors import EmitError
    from schedgen.driver.attempts import acceptable, compiled
    from schedgen.driver.emitting import emission, restyled
    from schedgen.driver.selecting import compiled_emission
    from schedgen.driver.variations import Variation, with_registers
    from schedgen.errors import SchedgenError
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    spec, settings = read_spec(kernel.spec), dict(kernel.settings)
    more = budgets.budget(kernel.spec, kernel.target, settings)
    machine = with_registers(read_machine(kernel.target), *more)
    found = emission(spec, machine, settings, store=store)
    measured = styles.styled((), kernel.spec, kernel.target, settings)
    if "late" in measured:  # what was measured is the schedule as it was planned
        planned = restyled(found, Style.of(measured))
        if acceptable(compiled(planned, Variation(), store, conform=False).report):
            return planned
    if needs_compiler(found.text):
        try:
            # Of what was not measured, how it is written decides whether registers suffice.
            suffices = None if kernel.target == styles.MEASURED else asked(measured)
            found = compiled_emission(
                spec, machine, settings, first=found, store=store, style=suffices, first_level=False
            )[0]
        except EmitError:  # written as was measured to be fast, it may take fewer registers
            words = styles.styled(("peeled",), kernel.spec, kernel.target, settings)
            style = Style.of(words)
            found = compiled_emission(
                spec, machine, settings, first=found, store=store, style=style
            )[0]
    words = styles.styled(found.style.words, kernel.spec, kernel.target, settings)
    other = restyled(found, Style.of(words))
    if other is found or not needs_compiler(other.text):
        return other
    if not acceptable(compiled(other, Variation(), store, conform=False).report):
        raise SchedgenError(
            f"{other.name} spills, or has products one after the other, as {' '.join(words)}; "
            "fix: take it out of kernels/styles.py"
        )
    return other


def needs_compiler(file: str) -> bool:
    """Whether only the compiler can say that the kernel of a generated file is acceptable."""
    unrolled = "store_columns("  # threads make operands of products: many registers at a time
    return any(m in file for m in ("setmaxregister_increase", "warpgroup.wait_group(", unrolled))


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
    parser.add_argument("names", nargs="*", help="locks, or beginnings of their names")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--emit", action="store_true", help="emit again what locks decide")
    parser.add_argument("--missing", action="store_true", help="solve only what locks do not have")
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
    from schedgen.driver.locked import apart, lock_of, merged

    if options.emit:
        return _emitted_again(options), 0
    different = wrong = 0
    for spec, target in dict.fromkeys((one.spec, one.target) for one in shipped()):
        name = f"{spec}_{TARGETS[target]}.json"
        if options.names and not name.startswith(tuple(options.names)):
            continue
        every = [one for one in shipped() if (one.spec, one.target) == (spec, target)]
        path = lock_file.folder() / name
        before = lock_file.read(path) if options.missing and path.exists() else None
        there = {} if before is None else apart(before)
        made: list[tuple[Emission, Mapping[str, str]]] = []
        for kernel in (one for one in every if one.name not in there):
            made.append((emitted(kernel, store), dict(kernel.settings)))
            found = _unlike(made[-1][0], store) if options.conform else ()
            wrong += bool(found)
            print(made[-1][0].name, *found, sep="\n  ", flush=True)
        if not made:
            continue
        lock = lock_of(made)
        if before is not None and not before.is_of(lock.spec_sha256, lock.machine_sha256):
            raise LockError(f"{name} is of another spec or machine model; fix: leave out --missing")
        there |= apart(lock)
        lock = replace(lock, schedules=merged(there[one.name] for one in every))
        files = {path: lock_file.text(lock)}
        files |= {FOLDER / one.name: one.text for one, _ in made if one.name in EXAMPLES}
        different += _kept(files, options)
    return different, wrong


def _emitted_again(options: argparse.Namespace) -> int:
    """How many files are different when the decisions of locks are emitted again."""
    from schedgen.driver.emitting import formatted
    from schedgen.driver.relocking import relocked

    different = 0
    for path in sorted(lock_file.locks().values()):
        if not options.names or path.name.startswith(tuple(options.names)):
            lock, texts = relocked(_restyled(lock_file.read(path)))
            files = {path: lock_file.text(lock)}
            files |= {FOLDER / n: formatted(text) for n, text in texts.items() if n in EXAMPLES}
            different += _kept(files, options)
    return different


def _restyled(lock: Lock) -> Lock:
    """With the styles that were measured to be faster."""

    def of(kernel: LockedKernel) -> LockedKernel:
        words = styles.styled(kernel.style, lock.spec, lock.target, kernel.settings)
        return replace(kernel, style=Style.of(words).words)

    schedules = (replace(s, kernels=tuple(map(of, s.kernels))) for s in lock.schedules)
    return replace(lock, schedules=tuple(schedules))


def _kept(files: Mapping[Path, str], options: argparse.Namespace) -> int:
    """How many of ``files`` have another text; they are written, unless they are only checked."""
    different = 0
    for path, text in files.items():
        same = path.exists() and path.read_text("utf-8") == text
        different += not same
        if not same and not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {'as it was' if same else 'different'}", flush=True)
    return different


def _unlike(made: Emission, store: Store) -> tuple[str, ...]:
    """Where the PTX of a kernel is not its program."""
    with TemporaryDirectory(prefix="schedgen-") as folder:
        path = Path(folder) / made.name
        path.write_text(made.text, encoding="utf-8")
        return tuple(differences(path, store))


if __name__ == "__main__":
    sys.exit(main())
