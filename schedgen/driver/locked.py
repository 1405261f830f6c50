"""Kernels from locks: what was decided is read, checked and emitted; nothing is solved or proven.

The lock names the program that was proven and the text that came of it. Both are made again, and
are those, or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from schedgen.codegen.facts import file_name
from schedgen.driver.lock_file import (
    Lock,
    Locked,
    LockedBuffer,
    LockedKernel,
    LockedRole,
    LockedSchedule,
    LockError,
)
from schedgen.errors import SchedgenError

if TYPE_CHECKING:
    from schedgen.driver.emitting import Emission
    from schedgen.kernel import Kernel
    from schedgen.machine import Machine
    from schedgen.program.model import Program
    from schedgen.schedule import Schedule
    from schedgen.solver.problem import Problem
    from schedgen.spec.reader import Spec

_AGAIN = "fix: python -m schedgen.kernels.regenerate"


@dataclass(frozen=True, slots=True)
class Origin:
    """What kernels of a lock are made of that is not shipped, and what to do if it does not fit."""

    spec: Spec
    machine: Machine
    fix: str


def decided(emitted: Emission, settings: Mapping[str, str]) -> LockedSchedule:
    """What ``emitted``, the kernel with ``settings``, was made from."""
    from schedgen.program.digest import program_digest
    from schedgen.synchronize.recorded import lines

    schedule, program = emitted.solution.schedule, emitted.proven.program
    kernel = LockedKernel(
        dict(settings), program_digest(program), digest(emitted.plain), emitted.style.words
    )
    choices = emitted.solution.problem.kernel.choices
    return LockedSchedule(
        kernels=(kernel,),
        choices=dict(choices),
        latencies=schedule.latencies,
        ii_cycles=schedule.ii_cycles,
        lower_bound_cycles=schedule.lower_bound_cycles,
        certificate=schedule.certificate.kind,
        proven_optimal=schedule.proven_optimal,
        tile_cycles=schedule.tile.period_cycles,
        start={op.id: op.start for op in schedule.ops},
        roles={r.name: LockedRole(r.registers, " ".join(r.operations)) for r in schedule.roles},
        buffers={
            b.name: LockedBuffer(b.depth, b.address, b.alias, b.skew, b.lag)
            for b in schedule.buffers
        },
        late=emitted.synchronized.late,
        synchronization=tuple(lines(emitted.synchronized.made)),
    )


def lock_of(kernels: Iterable[tuple[Emission, Mapping[str, str]]]) -> Lock:
    """The lock of kernels of one spec and target; equal schedules are one."""
    made = [
        (decided(emitted, settings), emitted.solution.schedule) for emitted, settings in kernels
    ]
    _, schedule = made[-1]
    return Lock(
        schedule.kernel,
        schedule.spec_sha256,
        schedule.target,
        schedule.arch,
        schedule.machine_sha256,
        merged(one for one, _ in made),
    )


def merged(schedules: Iterable[LockedSchedule]) -> tuple[LockedSchedule, ...]:
    """Equal schedules as one, of the kernels of all of them."""
    found: dict[str, LockedSchedule] = {}
    for one in schedules:
        key = repr(replace(one, kernels=()))
        before = found[key].kernels if key in found else ()
        found[key] = replace(one, kernels=(*before, *one.kernels))
    return tuple(found.values())


def apart(lock: Lock) -> dict[str, LockedSchedule]:
    """The schedules of its kernels one by one, by the names of their files."""
    return {
        file_name(lock.spec, lock.arch, kernel.settings): replace(schedule, kernels=(kernel,))
        for schedule in lock.schedules
        for kernel in schedule.kernels
    }


def digest(plain: str) -> str:
    """SHA-256 of a text before it is formatted."""
    return sha256(plain.encode()).hexdigest()


def program_of(
    one: Locked, *, checked: bool = True, origin: Origin | None = None
) -> tuple[Program, Kernel]:
    """The proven program of a kernel, and its kernel; of a shipped one, if no ``origin`` is given.

    Raises LockError: the spec, the machine model or this version's rules are not those that the
    lock was made with. Unless it is ``checked``, another program than the one that was proven may
    come of them.
    """
    from schedgen.program.digest import program_digest
    from schedgen.synchronize.build import ProgramError
    from schedgen.synchronize.recorded import synchronization
    from schedgen.synchronize.synthesize import resynchronized

    again = _AGAIN if origin is None else f"fix: {origin.fix}"
    problem = _problem(one, origin)
    try:
        schedule = _schedule(one, problem)
        made = synchronization(one.schedule.synchronization)
        program = resynchronized(
            problem.kernel, schedule, problem.machine, made, late=one.schedule.late
        )
    except (ValueError, KeyError, ProgramError) as error:
        raise LockError(f"the lock of {one.name} is no schedule of it: {error}; {again}") from None
    if checked and program_digest(program) != one.kernel.program:
        raise LockError(f"the program of {one.name} is not the one in its lock; {again}")
    return program, problem.kernel


def text_of(one: Locked, origin: Origin | None = None) -> str:
    """The text of the file of a kernel; of a shipped one, if no ``origin`` is given.

    Raises LockError: it would not be the text that was proven and compiled.
    """
    from schedgen.codegen.emit import emit
    from schedgen.codegen.style import Style
    from schedgen.driver.emitting import LINTERS, formatted
    from schedgen.proof.prove import proven_before

    program, kernel = program_of(one, origin=origin)
    proven = proven_before(program, one.kernel.program)
    plain = LINTERS + emit(proven, kernel, style=Style.of(one.kernel.style))
    if digest(plain) != one.kernel.text:
        again = _AGAIN if origin is None else f"fix: {origin.fix}"
        raise LockError(f"{one.name} would have another text than its lock says; {again}")
    return formatted(plain)


def _problem(one: Locked, origin: Origin | None) -> Problem:
    """What the schedule solves. Raises LockError if the spec or the machine is another one now."""
    from schedgen.dependence import derive
    from schedgen.driver.binding import kernels_of
    from schedgen.machine_file import read_machine
    from schedgen.solver.problem import build_problem
    from schedgen.spec.reader import read_spec

    lock = one.lock
    again = _AGAIN if origin is None else f"fix: {origin.fix}"
    try:
        if origin is None:
            spec, machine = read_spec(lock.spec), read_machine(lock.target)
        else:
            spec, machine = origin.spec, origin.machine
        _same("spec", lock.spec, spec.source.sha256, lock.spec_sha256, again)
        _same("machine model", lock.target, machine.sha256, lock.machine_sha256, again)
        settings = {**one.kernel.settings, **one.schedule.choices}
        kernel = kernels_of(spec, machine, settings)[0]
        return build_problem(kernel, machine, derive(kernel), one.schedule.latencies)
    except LockError:
        raise
    except SchedgenError as error:
        raise LockError(f"the lock of {one.name} does not fit: {error}; {again}") from None


def _same(what: str, name: str, found: str, wanted: str, again: str) -> None:
    if found != wanted:
        raise LockError(f"{what} '{name}' is not the one that its lock was made with; {again}")


def _schedule(one: Locked, problem: Problem) -> Schedule:
    """The schedule in full; what follows from decisions is worked out."""
    from schedgen.schedule import (
        Certificate,
        Schedule,
        ScheduledBuffer,
        ScheduledOperation,
        ScheduledRole,
        TileLoop,
    )
    from schedgen.solver.restore import completed

    kernel, given = problem.kernel, one.schedule
    owner = {name: role for role, r in given.roles.items() for name in r.operations.split()}
    outline = Schedule(
        kernel=kernel.name,
        target=one.lock.target,
        arch=one.lock.arch,
        schedgen="",
        spec=kernel.spec_file,
        spec_sha256=kernel.spec_sha256,
        machine_sha256=one.lock.machine_sha256,
        latencies=given.latencies,
        parameters=dict(kernel.parameters),
        choices=given.choices,
        ii_cycles=given.ii_cycles,
        lower_bound_cycles=given.lower_bound_cycles,
        proven_optimal=given.proven_optimal,
        certificate=Certificate(given.certificate, "as of the lock"),
        max_cycle_ratio_cycles=0.0,
        cycle_ratios={},
        critical_cycle=(),
        stages=0,
        length_cycles=0,
        objectives=(),
        ops=tuple(
            ScheduledOperation(
                o.name, o.kind.value, o.phase.value, "", owner[o.name], given.start[o.name],
                0, 0, 0, 0, 0,
            )
            for o in kernel.operations if not o.boundary
        ),
        units=(),
        edges=(),
        roles=tuple(
            ScheduledRole(name, 0, role.registers, tuple(role.operations.split()))
            for name, role in given.roles.items()
        ),
        buffers=tuple(
            ScheduledBuffer(
                r.name, r.space.value, r.slot_bytes, b.depth, b.address, b.alias, b.skew, r.ring,
                b.lag,
            )
            for r in kernel.regions for b in (given.buffers[r.name],)
        ),
        tile=TileLoop(kernel.trips, given.tile_cycles, kernel.trips * given.ii_cycles, ()),
    )  # fmt: skip
    return completed(problem, outline)
