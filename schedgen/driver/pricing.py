"""What an iteration of a compiled kernel takes, as far as its machine code can be priced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.driver.emitting import Emission

SHARE = 0.9
"""Of what synchronizes in each role, at least so much has to be found in program and machine code,
so that cycles are those of this kernel; `schedgen cycles` prints it."""


def prices(emitted: Emission) -> list[tuple[str, str, str]]:
    """What `cycles_of` depends on beside the kernel, for what is kept of it."""
    constants = emitted.solution.problem.machine.constants
    return [(one.name, str(one.low), str(one.high)) for one in constants]


def cycles_of(report: Report, emitted: Emission) -> float | None:
    """Cycles of an iteration by machine code (`schedgen.cycles`), with what the machine model says
    of it; None if nothing is known: another architecture, no disassembler, a model without prices
    of instructions, or code that is not recognized.
    """
    from schedgen.cycles.predict import ARCH, cycles
    from schedgen.execution.issuing import issued
    from schedgen.machine_constants import middles

    program, problem = emitted.proven.program, emitted.solution.problem
    if program.arch != ARCH:
        return None
    machine = middles(problem.machine)
    try:
        program = issued(program, problem.kernel, machine)
        found = cycles(program, report.built.cubin, machine)
    except SchedgenError:
        return None
    return found.iteration if found.share >= SHARE else None
