"""What iterations of compiled kernels take by their machine code (`schedgen.cycles`), many at once.

Used by `predicted.py`: kernels are compiled without a GPU, and their roles execute what the
assembler wrote. That takes some seconds of a processor for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from tempfile import TemporaryDirectory

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.shipped import of_lock, program_of_lock, shipped_experiments
from schedgen.codegen.report import compile_report
from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing, disassembled
from schedgen.cycles.predict import cycles
from schedgen.driver.emitting import emission
from schedgen.errors import SchedgenError
from schedgen.execution.issuing import issued
from schedgen.kernel import Kernel
from schedgen.machine import Machine
from schedgen.machine_constants import middles
from schedgen.program.model import Program
from schedgen.synchronize.synthesize import synthesize

Task = tuple[str, str, str, Program, Kernel]
"""An experiment's name, the name and text of its file, its program and kernel."""


def listing(name: str, machine: Machine) -> Listing:
    """A shipped kernel as the assembler of this machine writes it."""
    tool = disassembler()
    if tool is None:
        raise SystemExit("there is no nvdisasm; fix: pip install nvidia-cuda-nvdisasm")
    (one,) = shipped_experiments(machine.name, [name])
    file, text, _ = of_lock(one, machine)
    with TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text, encoding="utf-8")
        cubin = compile_report(path, Path(folder)).built.cubin
        return Listing(disassembled(tool, cubin, encodings=True))


def same_code(opcodes: Sequence[str], code: Listing) -> None:
    """Ends the command unless what was sampled is ``code``, by the names of instructions."""
    if list(opcodes) != [one.opcode for one in code.body]:
        raise SystemExit(
            "what was sampled was compiled by another assembler; fix: install the "
            "nvidia-cutlass-dsl-libs package that the GPU's machine has, and no other"
        )


def shipped(experiments: Iterable[Experiment], machine: Machine) -> Iterator[Task]:
    """Kernels as they are shipped."""
    for one in experiments:
        name, text, _ = of_lock(one, machine)
        yield one.name, name, text, *program_of_lock(one, machine)


def emitted(experiments: Iterable[Experiment], before: Machine, machine: Machine) -> Iterator[Task]:
    """Kernels that are scheduled for the model ``before``, with what ``machine`` says of copies."""
    for one in experiments:
        made = emission(one.read(), before, one.settings, pace=one.pace)
        kernel, schedule = made.solution.problem.kernel, made.solution.schedule
        program = synthesize(kernel, schedule, middles(machine), one.pace)
        yield one.name, made.name, made.text, program, kernel


def iterations(tasks: Iterable[Task], machine: Machine) -> dict[str, float]:
    """Cycles of an iteration by machine code, by name; kernels that are not compiled are left out,
    with a line that says why.
    """
    found: dict[str, float] = {}
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_iteration, task, machine) for task in tasks]
        for number, job in enumerate(jobs):
            name, result = job.result()
            if isinstance(result, str):
                print(f"{name}: {result}", file=sys.stderr)
            else:
                found[name] = result
            if number % 20 == 19:
                print(f"{number + 1} of {len(jobs)} kernels", file=sys.stderr, flush=True)
    return found


def _iteration(task: Task, machine: Machine) -> tuple[str, float | str]:
    name, file, text, program, kernel = task
    exact = middles(machine)
    with TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text, encoding="utf-8")
        try:
            cubin = compile_report(path, Path(folder)).built.cubin
            return name, cycles(issued(program, kernel, exact), cubin, exact).iteration
        except SchedgenError as error:
            return name, str(error)
