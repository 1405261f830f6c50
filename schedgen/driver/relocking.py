"""Locks brought up to date without a solver: their decisions stay, what comes of them is new.

For changes of emission, and of how programs are written down. A program that is not the one in its
lock is proven again, by all methods. A change of a spec or of a machine model needs the solver,
unless the program stays what it was, but for output tiles that count themselves.
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.driver.lock_file import Lock, Locked, LockedKernel, LockedSchedule, LockError
from schedgen.driver.locked import digest, program_of


def relocked(lock: Lock) -> tuple[Lock, dict[str, str]]:
    """``lock`` with the digests of today's programs and texts, and the texts by file name.

    Raises:
        LockError: the decisions are no schedule of the kernel any more, or the spec or the machine
            model is another one and so is the program: it has to be solved again.
        Refuted: a program that is new is not proven.
    """
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    before = lock.spec_sha256
    shas = (read_spec(lock.spec).source.sha256, read_machine(lock.target).sha256)
    same = lock.is_of(*shas)
    lock = replace(lock, spec_sha256=shas[0], machine_sha256=shas[1])
    texts: dict[str, str] = {}
    schedules: list[LockedSchedule] = []
    for schedule in lock.schedules:
        kernels: list[LockedKernel] = []
        for kernel in schedule.kernels:
            one = Locked(lock, schedule, kernel)
            found, texts[one.name] = _again(one, before, same)
            kernels.append(found)
        schedules.append(replace(schedule, kernels=tuple(kernels)))
    return replace(lock, schedules=tuple(schedules)), texts


def _again(one: Locked, before: str, same: bool) -> tuple[LockedKernel, str]:
    """The kernel with its digests of today, and its text before it is formatted; ``before`` is the
    SHA-256 of the spec that its lock was made with, which a program says, too.
    """
    from schedgen.codegen.emit import emit
    from schedgen.codegen.style import Style
    from schedgen.driver.emitting import LINTERS
    from schedgen.program.digest import program_digest
    from schedgen.program.following import of_kernel as uncounted
    from schedgen.proof.prove import prove, proven_before

    program, kernel = program_of(one, checked=False)
    found = program_digest(program)
    locked = one.kernel.program
    if program_digest(replace(program, spec_sha256=before)) == locked:
        proven = proven_before(program, found)
    elif same or program_digest(replace(uncounted(program), spec_sha256=before)) == locked:
        proven = prove(program)
    else:
        raise LockError(
            f"the program of {one.name} is another one, since its spec or machine model is; "
            "fix: solve it again, without --emit"
        )
    plain = LINTERS + emit(proven, kernel, style=Style.of(one.kernel.style))
    return replace(one.kernel, program=found, text=digest(plain)), plain
