"""The comparison of a compiled file with its program, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedgen.conform.assembly import Assembly
    from schedgen.conform.check import Conformance
    from schedgen.kernel import Kernel
    from schedgen.program.model import Program


def compared(
    ptx: Path, cubin: Path, program: Program, kernel: Kernel
) -> tuple[Conformance, Assembly | None]:
    """Compares a PTX file with the program that its kernel was emitted from, and the cubin with it
    if there is a disassembler.

    Raises PtxError if it is no PTX.
    """
    from schedgen.conform.assembly import assembled, disassembler
    from schedgen.conform.check import conform
    from schedgen.emulator.ptx.parse import parse

    module, tool = parse(ptx.read_text("utf-8"), str(ptx)), disassembler()
    found = conform(module, program, kernel)
    if tool is None or len(module.kernels) != 1:
        return found, None
    (code,) = module.kernels.values()
    return found, assembled(tool, cubin, code)


def lines(found: Conformance, assembly: Assembly | None) -> Iterator[str]:
    """What a person reads."""
    verdict = "the program, for all trip counts" if found.holds else "NOT THE PROGRAM"
    yield f"  conform      {verdict} ({found.seconds:.2f} s)"
    for role in found.roles:
        yield (
            f"    {role.name:<12} {role.steps} steps are {role.instructions} instructions, in "
            f"{role.cases} cases of trip counts"
        )
    for finding in found.findings:
        yield f"    {finding.text}"
    if assembly is None:
        yield "  cubin order  not compared: there is no nvdisasm (pip install nvidia-cuda-nvdisasm)"
        return
    moved = f"{len(assembly.moved)} moved" if assembly.moved else "none moved"
    yield f"  cubin order  {assembly.same} instructions in the order of the PTX, {moved}"
    yield from (f"    moved or merged: {one.text}" for one in assembly.moved)
    yield from (f"    added: {one.text}" for one in assembly.added)
    if assembly.overlap.loops or assembly.overlap.unknown:
        yield f"  overlap      {assembly.overlap.text}"


def data(found: Conformance, assembly: Assembly | None) -> dict[str, Any]:
    """The same for `--json`."""
    order = None
    if assembly is not None:
        order = {
            "same": assembly.same,
            "moved": [one.text for one in assembly.moved],
            "added": [one.text for one in assembly.added],
            "beside_products": assembly.overlap.data,
        }
    return {
        "cubin_order": order,
        "holds": found.holds,
        "seconds": round(found.seconds, 3),
        "roles": [
            {"name": r.name, "steps": r.steps, "instructions": r.instructions, "cases": r.cases}
            for r in found.roles
        ],
        "findings": [
            {
                "role": f.role,
                "step": f.step,
                "instruction": f.instruction,
                "line": f.line,
                "message": f.message,
            }
            for f in found.findings
        ],
    }
