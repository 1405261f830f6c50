"""The program of a generated file, derived again from what the file says that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedgen.codegen.facts import Facts
from schedgen.errors import SchedgenError
from schedgen.program.digest import program_digest

if TYPE_CHECKING:
    from schedgen.driver.found import Solution
    from schedgen.kernel import Kernel
    from schedgen.machine import Machine
    from schedgen.program.model import Program
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store


class Underivable(SchedgenError):
    """A generated file whose program is not known."""


class UnknownSpec(Underivable):
    """A generated file of a spec that is not shipped, and that nobody named."""


def derived(
    facts: Facts,
    target: str | None,
    path: str,
    spec_file: str | None = None,
    *,
    store: Store | None = None,
) -> tuple[Program, Kernel]:
    """Program and kernel of the file ``path``, whose facts are ``facts``; ``target`` is a machine
    model, by default the one that the file names; ``spec_file`` the spec, by default the shipped
    one of that name. What ``store`` has is not solved again.

    Solving is deterministic, so that the same spec, settings and machine give the same program; the
    file has its digest. As when it was emitted, schedules are tried that leave more registers, and
    other places of waits.

    Raises:
        UnknownSpec: there is no shipped spec of that name, and none is given.
        Underivable: the file does not say what it was made from, or that gives another program.
        SchedgenError: the spec or the machine is not there, or has no schedule.
    """
    from schedgen.driver.restoring import remember
    from schedgen.driver.selecting import ROUNDS
    from schedgen.driver.variations import STEP, with_registers
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec, shipped_specs

    again = "write it again with 'schedgen emit'"
    if not facts.program_sha256:
        raise Underivable(f"{path}: there is no PROGRAM_SHA256 in it; {again}")
    if spec_file is None and facts.kernel not in shipped_specs():
        raise UnknownSpec(f"'{facts.kernel}' is no shipped spec; give its file with --spec")
    if spec_file is None and (known := _locked(facts)) is not None:
        return known
    spec = read_spec(spec_file or facts.kernel)
    machine = read_machine(target or facts.machine)
    whole = [number * STEP for number in range(ROUNDS)]
    halves = [more - STEP // 2 for more in whole[1:]]
    machines = [with_registers(machine, more) for more in (*whole, *halves)]
    for solution in _solutions(facts, spec, machines, store):
        program = _program(solution, facts)
        if program is not None:
            if store is not None:
                remember(store, facts.program_sha256, solution.schedule)
            return program, solution.problem.kernel
    raise Underivable(
        f"{path}: '{facts.kernel}' with its settings has another program today than this file was "
        f"emitted from (PROGRAM_SHA256 {facts.program_sha256[:16]}...); {again}"
    )


def _program(solution: Solution, facts: Facts) -> Program | None:
    """The program of ``solution`` with the SHA-256 of ``facts``, wherever it waits for products;
    None if it has no such program.
    """
    from schedgen.synchronize.build import ProgramError
    from schedgen.synchronize.synthesize import synchronized

    problem = solution.problem
    for early in (False, True):
        try:
            found = synchronized(
                problem.kernel, solution.schedule, problem.machine, facts.pace, early=early
            )
        except ProgramError:
            return None
        if program_digest(found.program) == facts.program_sha256:
            return found.program
    return None


def _locked(facts: Facts) -> tuple[Program, Kernel] | None:
    """What a shipped kernel was made from, if that still holds."""
    from schedgen.driver.lock_file import LockError, every
    from schedgen.driver.locked import program_of

    for one in every():
        if one.kernel.program == facts.program_sha256 and one.lock.spec == facts.kernel:
            try:
                return program_of(one)
            except LockError:
                return None
    return None


def _solutions(
    facts: Facts, spec: Spec, machines: list[Machine], store: Store | None
) -> Iterator[Solution]:
    """Solutions that the program may be of: the one that is kept, then those that are found."""
    from schedgen.driver.found import Infeasible
    from schedgen.driver.restoring import remembered, solved

    for machine in machines if store is not None else ():
        assert store is not None
        kept = remembered(store, facts.program_sha256, spec, machine)
        if kept is not None:
            yield kept
    for machine in machines:
        try:
            yield solved(spec, machine, dict(facts.settings), store=store)
        except Infeasible:
            continue
