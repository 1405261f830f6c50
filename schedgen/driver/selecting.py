"""Which kernel of a spec is taken: of the best schedule that the compiler accepts, written in the
way in which the machine code keeps most of it.

`schedgen emit`, `schedgen emulate` and `python -m schedgen.kernels.regenerate` all select by this
rule, so that what is checked is what is written. Only some shipped kernels for Blackwell begin with
more registers than the machine model says (`schedgen.kernels.budgets`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from schedgen.codegen.binding import bound
from schedgen.codegen.errors import EmitError
from schedgen.codegen.style import PLAIN, Style
from schedgen.driver.attempts import Attempt, acceptable, best, compiled
from schedgen.driver.emitting import Emission, emission, restyled, written
from schedgen.driver.refusing import refusal
from schedgen.driver.variations import (
    HASTY,
    STEP,
    Variation,
    hastened,
    otherwise,
    sharing,
    with_registers,
)
from schedgen.errors import SchedgenError
from schedgen.extents import uneven
from schedgen.program.operations import Engine

if TYPE_CHECKING:
    from schedgen.machine import Machine
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store

ROUNDS, MOST_NARROW = 4, 3 * STEP
"""Schedules that are tried before a kernel that spills is given up, and registers that single warps
get beside those of the machine model where they alone spill."""
CACHED = 1024
"""Instructions of 16 bytes: with more in loops with products, warps may wait for them. On an H200
kernels of attention with 1262 in two loops and 1738 in three did for 2 and 4 % of their time
(docs/adr/0019), one with 701 in one loop for 1 %."""
IN_TIME = 32
"""An iteration that takes no more than one of so many cycles longer than the II is in time."""

Progress = Callable[[str], None]


def selected(
    name: str,
    target: str | None,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    compiled: bool = True,
    conform: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    pace: Sequence[str] = (),
    style: Style | None = None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """The kernel of ``name``, a spec or the file of a schedule, and all attempts at it, one of
    which is chosen.

    A schedule is taken as it is: it is verified and its program proven, but nothing is solved.
    With ``compiled`` the compiler has to accept the kernel; without, the best schedule is taken and
    there are no attempts. With ``conform`` what was compiled has to be its program. ``target`` is a
    machine model, by default the first of the spec; ``pace`` as of `written`. ``style`` is how it
    is written, in all attempts.

    Raises:
        SchedgenError: the input is wrong.
        What `compiled_emission` raises.
    """
    from schedgen.driver.restoring import is_schedule, read_solution
    from schedgen.machine_file import read_machine
    from schedgen.spec.reader import read_spec

    if is_schedule(name):
        if settings:
            raise SchedgenError(
                f"{name}: a schedule fixes all parameters; fix: leave --set {next(iter(settings))} "
                "away, or give the spec"
            )
        solution, chosen = read_solution(name, target)
        emitted = written(solution, chosen, progress, events=events, methods=methods, pace=pace)
        if not compiled:
            return restyled(emitted, style or PLAIN, events=events), ()
        return accepted(
            emitted, settings=chosen, progress=progress,
            events=events, conform=conform, methods=methods, store=store, pace=pace, style=style,
        )  # fmt: skip
    spec = read_spec(name)
    machine = read_machine(target or spec.file.targets[0])
    if not compiled:
        first = emission(
            spec, machine, settings, progress,
            events=events, methods=methods, store=store, pace=pace,
        )  # fmt: skip
        return restyled(first, style or PLAIN, events=events), ()
    return compiled_emission(
        spec, machine, settings, progress,
        events=events, conform=conform, methods=methods, store=store, pace=pace, style=style,
    )  # fmt: skip


def compiled_emission(
    spec: Spec,
    machine: Machine,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    *,
    events: bool = False,
    first: Emission | None = None,
    conform: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    latencies: str = "high",
    pace: Sequence[str] = (),
    style: Style | None = None,
    first_level: bool = True,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """An emission that compiles within its registers, and all attempts at it; ``first`` is what
    `emission` gives for these arguments, if that is known.

    A schedule whose kernel is not `acceptable` is replaced by the best one that leaves `STEP` more
    registers of each thread beside tiles, or half of `STEP` where that is all there are; `ROUNDS`
    schedules are tried. Where single warps alone spill, these get `STEP` more first. One that is,
    and whose machine code has beside products what was planned, is taken. If the assembler moved
    that, the same schedule is written in the ways of `otherwise`, up to one that keeps it; where
    loops are long, equal roles share instructions (`sharing`). Where iterations take longer than
    the schedule by their machine code, waits are written in another way (`HASTY`). `best`
    says which of all attempts is taken; if nobody asked for a ``style``, masks may be left out of
    turns that need none, and where nothing is acceptable the assembler works at its first level,
    unless ``first_level`` is false. What ``store`` has is neither solved nor compiled again. With
    ``conform`` the PTX of what is acceptable is compared with its program.

    Raises:
        EmitError: none of them is acceptable; or what was compiled is not the program.
        CompileError: it does not compile.
        What `emission` raises, for the first schedule.
    """
    from schedgen.driver.found import Infeasible
    from schedgen.proof.prove import Refuted

    trials = _Trials(
        settings, progress, events, conform, methods, store, tuple(pace), style is None
    )
    scarce, narrow, rounds = "", 0, deque(number * STEP for number in range(ROUNDS))
    while rounds:
        more = rounds.popleft()
        try:
            emitted = first if not (more or narrow) else None
            emitted = emitted or emission(
                spec, with_registers(machine, more, narrow), settings, progress,
                events=events, methods=methods, store=store, latencies=latencies, pace=pace,
            )  # fmt: skip
        except (Infeasible, Refuted) as error:  # or more registers than a block is launched with
            if not trials.made:
                raise
            scarce = f"; with {more} more registers per thread there is no schedule: {error}"
            rounds = deque([] if more % STEP else [more - STEP // 2])
            continue
        emitted = restyled(emitted, style or PLAIN, events=events)
        made = trials.add(emitted, Variation(more, narrow, style=emitted.style)).report
        if acceptable(made):
            break
        if made.narrow_spills and narrow < MOST_NARROW:
            narrow += STEP
            rounds.appendleft(more)
    return trials.selection(scarce, first_level=first_level)


def accepted(
    emitted: Emission,
    *,
    settings: Mapping[str, str],
    progress: Progress | None = None,
    events: bool = False,
    conform: bool = False,
    methods: tuple[str, ...] | None = None,
    store: Store | None = None,
    pace: Sequence[str] = (),
    style: Style | None = None,
) -> tuple[Emission, tuple[Attempt, ...]]:
    """The same for a schedule that is given: it may be written in other ways, and is not replaced.

    Raises EmitError if it is not `acceptable` in any of them, or, with ``conform``, not its
    program.
    """
    trials = _Trials(
        settings, progress, events, conform, methods, store, tuple(pace), style is None
    )
    emitted = restyled(emitted, style or PLAIN, events=events)
    trials.add(emitted, Variation(style=emitted.style))
    return trials.selection(
        "; fix: give the spec instead of this schedule, then one that leaves more registers is "
        "looked for"
    )


@dataclass
class _Trials:
    """Attempts at a kernel, with what they were made of."""

    settings: Mapping[str, str]
    progress: Progress | None
    events: bool
    conform: bool
    methods: tuple[str, ...] | None
    store: Store | None
    pace: tuple[str, ...]
    free: bool
    """Whether nobody asked for a way to write it."""
    made: list[tuple[Emission, Attempt]] = field(default_factory=list[tuple[Emission, Attempt]])

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for _, attempt in self.made]

    def add(self, emitted: Emission, variation: Variation) -> Attempt:
        """One more. Raises CompileError."""
        if self.progress is not None:
            self.progress("compiling")
        self.made.append((emitted, compiled(emitted, variation, self.store, conform=self.conform)))
        return self.made[-1][1]

    def selection(
        self, scarce: str, *, first_level: bool = True
    ) -> tuple[Emission, tuple[Attempt, ...]]:
        """The best of what was made and of other ways to write it; ``scarce``: why there are no
        more schedules, or what to do about it. Raises EmitError.
        """
        emitted, attempt = self.made[-1]
        _require_program(attempt)
        if not acceptable(attempt.report):
            emitted, attempt = self.made[0]
        if not (acceptable(attempt.report) and attempt.keeps):
            self._vary(emitted, attempt.variation)
        self._share()
        self._hasten()
        winner = best(self.attempts)
        if winner is None and self.free and first_level:
            winner = self._at_first_level()
        if winner is None:
            raise EmitError(refusal(self.attempts, self.made[0][0].proven.program, scarce))
        winner, attempts = self._peel(winner), self.attempts
        attempts[winner] = replace(attempts[winner], chosen=True)
        return self.made[winner][0], tuple(attempts)

    def _vary(self, emitted: Emission, variation: Variation) -> None:
        """Tries other ways until one keeps what is planned; none twice."""
        seen = {made.plain for made, _ in self.made}
        for other in otherwise(variation):
            again = self._again(emitted, other)
            if again is None or again.plain in seen:
                continue
            seen.add(again.plain)
            attempt = self.add(again, other)
            if attempt.usable and attempt.keeps and best(self.attempts) == len(self.made) - 1:
                return

    def _share(self) -> None:
        """Tries equal roles in the same instructions where those of loops are many."""
        winner = best(self.attempts)
        if winner is None:
            return
        emitted, attempt = self.made[winner]
        if attempt.overlap is not None and attempt.overlap.instructions > CACHED:
            other = sharing(attempt.variation)
            again = self._again(emitted, other)
            if again is not None and again.plain != emitted.plain:
                self.add(again, other)

    def _hasten(self) -> None:
        """Writes the best attempt in the ways of `hastened`, one after the other, if iterations
        take longer than the schedule by its machine code; what takes less is kept. Only where there
        are products in loops: of others it says too little (docs/conform.md).
        """
        winner = best(self.attempts)
        if winner is None or not self.free:
            return
        for word in HASTY:
            emitted, attempt = self.made[winner]
            if attempt.cycles is None or not (attempt.overlap and attempt.overlap.loops):
                return
            if attempt.cycles * IN_TIME <= emitted.proven.program.ii_cycles * (IN_TIME + 1):
                return
            other = hastened(attempt.variation, word)
            again = self._again(emitted, other)
            if again is not None and again.plain != emitted.plain:
                self.add(again, other)
                winner = best(self.attempts)
                assert winner is not None

    def _at_first_level(self) -> int | None:
        """What is taken of all schedules if the assembler moves less around, which takes fewer
        registers and sometimes longer; the first one that suffices, None if none does.
        """
        planned = [one for one in self.made if not (one[1].variation.early or one[0].style.words)]
        for emitted, attempt in planned:
            other = replace(attempt.variation, style=replace(PLAIN, o1=True))
            again = self._again(emitted, other)
            if again is not None and self.add(again, other).usable:
                return len(self.made) - 1
        return None

    def _peel(self, winner: int) -> int:
        """Which attempt is taken instead of the best one: the same without masks in the turns that
        need none, where output tiles differ in their iterations, or an array says which blocks are
        full, and warpgroups that multiply mask as well. On an H200 that was 2 to 4 % faster with
        causal masks, and the same where only the last iteration masks (docs/adr/0022).
        """
        emitted, attempt = self.made[winner]
        kernel = emitted.solution.problem.kernel
        full = kernel.walk is not None and bool(kernel.walk.full)
        differ = full or (bool(kernel.tile_range) and uneven(bound(kernel)))
        operations = emitted.proven.program.operations if differ else ()
        if not (self.free and any(operation.engine is Engine.WGMMA for operation in operations)):
            return winner
        other = replace(attempt.variation, style=replace(attempt.variation.style, peeled=True))
        again = self._again(emitted, other)
        if again is None or again.plain == emitted.plain:
            return winner
        found = self.add(again, other)
        return len(self.made) - 1 if found.usable and found.keeps >= attempt.keeps else winner

    def _again(self, emitted: Emission, variation: Variation) -> Emission | None:
        """What ``emitted`` is in another way; None if there is no proven program of that."""
        from schedgen.proof.prove import Refuted
        from schedgen.synchronize.build import ProgramError

        try:
            if variation.early:
                made = written(
                    emitted.solution, self.settings, self.progress,
                    events=self.events, methods=self.methods, pace=self.pace, early=True,
                )  # fmt: skip
                return restyled(made, variation.style, events=self.events)
            return restyled(emitted, variation.style, events=self.events)
        except (ProgramError, Refuted, EmitError):
            return None


def _require_program(attempt: Attempt) -> None:
    if attempt.differences:
        found = "\n  ".join(attempt.differences[:5])
        raise EmitError(
            "the compiler made a kernel that is not its program, or that cannot be compared with "
            f"it:\n  {found}\n  fix: report it; with --no-conform it is written as it is"
        )
