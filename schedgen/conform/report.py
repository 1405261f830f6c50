"""The comparison of a compiled file with its program, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedgen.conform.check import Conformance
    from schedgen.kernel import Kernel
    from schedgen.program.model import Program


def compared(ptx: Path, program: Program, kernel: Kernel) -> Conformance:
    """Compares a PTX file with the program that its kernel was emitted from.

    Raises PtxError if it is no PTX.
    """
    from schedgen.conform.check import conform
    from schedgen.emulator.ptx.parse import parse

    return conform(parse(ptx.read_text("utf-8"), str(ptx)), program, kernel)


def lines(found: Conformance) -> Iterator[str]:
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


def data(found: Conformance) -> dict[str, Any]:
    """The same for `--json`."""
    return {
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
