"""Runs captured launches: parse the PTX once, execute it, check the order of accesses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from schedgen.emulator.awaited import starving
from schedgen.emulator.contents import OTHER, UNUSED, Contents, independent
from schedgen.emulator.launch.capture import Allocation, Launch
from schedgen.emulator.launched import (
    Lines,
    decoded_of,
    kernel_of,
    module_of,
    parameters_of,
    triggers,
)
from schedgen.emulator.machine.heap import settled_heap
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.launch import LIMIT, STALL, Statistics, execute
from schedgen.emulator.machine.machine import POISON
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.switches import EarlyStart, Switches, Uninitialized
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Flaw
from schedgen.emulator.order.footprint import Footprint, Ranges
from schedgen.emulator.order.grid import cluster_of, warps_per_cta
from schedgen.emulator.processes import Pending
from schedgen.emulator.ptx.tree import Kernel, Module
from schedgen.emulator.race.coverage import Coverage
from schedgen.emulator.reports import Aborted, Execution, Report, execution_of, shown_by

if TYPE_CHECKING:
    from schedgen.emulator.launch.device import Device

Tracked = TypeVar("Tracked", bound=Checker)
Races = Literal["raise", "report", "first", "off"]
"""What becomes of findings: an error after the launch, a report, an error as soon as there is one
(for those who only want to know whether there is), or nobody looks for them."""


class RaceError(EmulationError):
    """A kernel ran to its end, but its accesses are not ordered; the text has all findings."""


@dataclass
class Emulator:
    """Executes launches one after the other.

    Attributes:
        policy: who goes next; a new one for each launch is best, see `device`.
        races: what becomes of findings.
        limit, stall, seconds: what a launch may take, see `machine.scheduler.Bounds`.
        rewrite: applied to every module before it runs; for mutants.
        decoded: shared by emulators of one launch and of mutants of its kernel.
        module: the PTX of all launches, parsed; by default it is parsed when it is met.
        registers: per thread at launch, as ``ptxas -v`` says; None: ``.maxnreg``, or what fits.
        followed: addresses of words by which launches follow the one in front of them (L1).
        reports: one for each launch that came to its end.
    """

    policy: Policy = field(default_factory=RoundRobin)
    races: Races = "raise"
    switches: Switches = field(default_factory=Switches)
    limit: int = LIMIT
    rewrite: Callable[[Module], Module] | None = None
    decoded: Decoded | None = None
    module: Module | None = None
    stall: float = STALL
    seconds: float | None = None
    registers: int | None = None
    followed: Ranges | None = None
    reports: list[Report] = field(default_factory=list[Report])
    demoted: frozenset[str] = frozenset()
    """Ids of rules of which breaches are warnings."""
    schedules: int = 0
    """Schedules under which each launch is executed before `policy`."""
    coverage: Coverage = field(default_factory=Coverage)
    """Which synchronization of all launches was executed; nothing is noted of rewritten modules."""
    jobs: int = 1
    """Processes that execute schedules at the same time."""
    order: Callable[[int], Policy] = Adversarial
    """Makes these schedules from their seeds, which are 0 and up."""
    starves: bool = False
    """Whether one more is behind them, `awaited.starved`, where a kernel has waits for it."""
    after: Callable[[Emulator, Launch], None] | None = None
    """Is told of each launch that came to its end, and may look at it `again`."""
    _starved: Callable[[], Policy] | None = None
    """Makes that schedule of the last launch."""
    _triggered: bool = False
    """Whether the last launch let the next one begin before its own end."""
    _before: Contents | None = None
    """Memory before the last launch."""
    _earlier: tuple[bool, Footprint | None] = (False, None)
    """`_triggered` and `_running` before the last launch."""
    _running: Footprint | None = None
    """What launches that may still run when the next one begins did to global memory."""

    @settled_heap()
    def run(self, launch: Launch) -> None:
        """Executes a launch.

        Raises:
            PtxError: the PTX cannot be read.
            EmulationError: the kernel does something undefined, is deadlocked or does not end.
            RaceError: its accesses are not ordered, and ``races`` is ``"raise"``.
        """
        module, kernel = self._parsed(launch)
        before = Contents(launch.allocations) if self.schedules or self._judges else None
        self._before, self._earlier = before, (self._triggered, self._running)
        decoded = self.decoded or decoded_of(launch, module, kernel, self.switches)
        begin = perf_counter()
        waits = decoded.of(kernel)[0].unrepeated if self.starves and self.schedules else ()
        self._starved = starving(self.again, launch, kernel, waits) if waits else None

        def under(number: int) -> Execution:
            parts = launch, module, kernel, self.schedule(number), before, decoded
            checker, done = self._checked(number, *parts)
            assert before is not None
            before.restore()
            return execution_of(checker, done)

        others = Pending(under, self.count, self.jobs)
        try:
            if others.failed:
                raise EmulationError("ended under another schedule")
            parts = launch, module, kernel, self.policy, before, decoded
            last, statistics = self._checked(self.count, *parts)
        finally:
            earlier = [one.value for one in others.end()]
        self._leave_behind(launch, kernel, last, statistics)
        seconds = perf_counter() - begin
        every = [*earlier, execution_of(last, statistics)]
        if self.after is not None:
            self.after(self, launch)
        self._report(launch, self._joined(launch, every, last), statistics, seconds, every)

    def again(
        self, launch: Launch, policy: Policy, make: Callable[..., Tracked], decoded: Decoded
    ) -> Tracked:
        """Executes the last launch again, from the same contents of memory, which is left as it is.

        Args:
            policy: the schedule; one that `schedule` returns brings what it brought before.
            make: makes a race checker, of the arguments of `Checker`, or something like one.
            decoded: a new one, which may listen.

        Raises:
            EmulationError, and what `make`'s result raises, ends it, too.
        """
        module, kernel = self._parsed(launch)
        after = Contents(launch.allocations)
        checker = self._checker(launch, make)
        if self._before is not None:
            self._before.restore()
        try:
            self._execute(launch, module, kernel, policy, checker, decoded)
            checker.close()
        finally:
            after.restore()
        return checker

    @property
    def count(self) -> int:
        """Schedules under which the last launch was executed before `policy`."""
        return self.schedules + (self._starved is not None)

    def schedule(self, number: int) -> Policy:
        """A schedule of `Report.shown`."""
        if number < self.schedules:
            return self.order(number)
        return self._starved() if self._starved and number < self.count else self.policy

    def _parsed(self, launch: Launch) -> tuple[Module, Kernel]:
        module = self.module or module_of(launch.ptx)
        if self.rewrite is not None:
            module = self.rewrite(module)
        return module, kernel_of(module, launch)

    def _checked(
        self,
        number: int,
        launch: Launch,
        module: Module,
        kernel: Kernel,
        policy: Policy,
        before: Contents | None,
        decoded: Decoded,
    ) -> tuple[Checker | None, Statistics]:
        """One execution; its race checker, if there is one."""
        checker = None if self.races == "off" else self._checker(launch, self._new_checker)
        try:
            statistics = self._execute(launch, module, kernel, policy, checker, decoded)
            if checker is not None:
                checker.close()
        except EmulationError as error:
            text = str(error) if policy is self.policy else f"{error}\n  under {policy}"
            found = f"\n{checker.report()}" if checker is not None and checker.errors else ""
            raised = type(error)(f"{text}{found}")
            groups = () if checker is None else checker.groups
            inits = {} if checker is None else checker.inits
            raised.aborted = Aborted(text, groups, inits, number)
            raise raised from error
        if checker is not None and before is not None and self._judges and checker.reads_unwritten:
            parts = launch, module, kernel, RoundRobin(), None, decoded
            if independent(before, launch.allocations, lambda: self._execute(*parts, poison=OTHER)):
                checker.demote(Flaw.UNINITIALIZED, UNUSED)
        return checker, statistics

    def _execute(
        self,
        launch: Launch,
        module: Module,
        kernel: Kernel,
        policy: Policy,
        checker: Checker | None,
        decoded: Decoded,
        poison: int = POISON,
    ) -> Statistics:
        memory = HostMemory()
        for one in launch.allocations:
            memory.register(one.start, one.size, one.name, released=one.released, slack=one.slack)
        return execute(
            kernel,
            grid=launch.grid,
            block=launch.block,
            cluster=None if launch.cluster == (1, 1, 1) else launch.cluster,
            shared_bytes=launch.shared_bytes,
            parameters=parameters_of(kernel, launch),
            memory=memory,
            target=module.target,
            variables=module.variables,
            policy=policy,
            tracker=checker,
            switches=self.switches,
            limit=self.limit,
            stall=self.stall,
            seconds=self.seconds,
            registers=self.registers,
            decoded=decoded,
            poison=poison,
            tolerated=self._tolerates,
        )

    def _tolerates(self, rule: str) -> bool:
        """Whether a breach of a rule is a finding, where execution survives it."""
        return self.races == "report" or rule in self.demoted

    @property
    def _judges(self) -> bool:
        """Whether reads of what nobody wrote are judged by executing a launch again (S28)."""
        judged = self.races in ("raise", "report")
        return judged and self.switches.uninitialized is Uninitialized.USED

    def _leave_behind(
        self, launch: Launch, kernel: Kernel, checker: Checker | None, statistics: Statistics
    ) -> None:
        """Notes what the next launch may find still running. A launch that began early itself may
        let the next one begin before the one in front of it has ended."""
        earlier = self._running if launch.programmatic else None
        self._triggered = triggers(kernel, statistics)
        self._running = None
        if self._triggered and checker is not None:
            self._running = checker.footprint()
            if earlier is not None:
                self._running |= earlier

    def _checker(self, launch: Launch, make: Callable[..., Tracked]) -> Tracked:
        quote = Lines(self.module or module_of(launch.ptx))
        (triggered, running), early = self._earlier, self.switches.early_start is EarlyStart.ANY
        return make(
            warps_per_cta(launch.block),
            cluster_of(launch.grid, launch.cluster),
            switches=self.switches,
            uninitialized=self.switches.uninitialized.verdict,
            describe=quote.describe,
            source=quote.source,
            stop=self.races == "first",
            demoted=self.demoted,
            dependent=launch.programmatic and (triggered or early),
            before=None if early else running,
            followed=self.followed,
        )

    def _new_checker(self, *arguments: Any, **options: Any) -> Checker:
        """Subclasses make one that sees more, or less."""
        return Checker(*arguments, **options)

    def _joined(
        self, launch: Launch, every: Sequence[Execution], last: Checker | None
    ) -> Checker | None:
        """What was found under all schedules, in their order."""
        if last is None or len(every) == 1:
            return last
        checker = self._checker(launch, self._new_checker)
        for found in (one.findings for one in every if one.findings is not None):
            checker.join_findings(found)
        return checker

    def _report(
        self,
        launch: Launch,
        checker: Checker | None,
        statistics: Statistics,
        seconds: float,
        every: Sequence[Execution],
    ) -> None:
        findings = None if checker is None else checker.findings
        text = checker.report() if checker is not None and findings else ""
        groups = () if checker is None else checker.groups
        about = launch.kernel, launch.grid, launch.block, statistics
        executed = frozenset[int]().union(*(one.executed for one in every))
        blocked = frozenset[int]().union(*(one.blocked for one in every))
        inits = {key: line for one in every for key, line in one.inits.items()}
        more = executed, blocked, shown_by(every), inits
        self.reports.append(Report(*about, findings, text, seconds, groups, *more))
        if self.rewrite is None:
            lines = Lines(self.module or module_of(launch.ptx))
            self.coverage.note(launch.kernel, launch.ptx, lines, executed, blocked)
        if self.races == "raise" and checker is not None and checker.errors:
            raise RaceError(text)


@dataclass
class EmulatedDevice:
    """What `device` yields: the GPU that is not there, and what ran on it."""

    device: Device
    emulator: Emulator

    @property
    def reports(self) -> list[Report]:
        """One for each launch that came to its end."""
        return self.emulator.reports

    @property
    def coverage(self) -> Coverage:
        """Which waits, arrives and fences of all launches were executed."""
        return self.emulator.coverage

    def register(self, tensor: object, name: str = "registered tensor") -> None:
        """Lets kernels access a tensor that is no argument; see `Device.register`."""
        self.device.register(tensor, name)


@contextmanager
def device(
    name: str = "sm_100a",
    *,
    policy: Policy | None = None,
    races: Races = "raise",
    switches: Switches | None = None,
    limit: int = LIMIT,
    stall: float = STALL,
    seconds: float | None = None,
    registers: int | None = None,
    sms: int = 4,
    schedules: int = 0,
    demoted: Collection[str] = (),
    memory: Callable[[], tuple[Allocation, ...]] | None = None,
) -> Generator[EmulatedDevice]:
    """Execute what compiled CuTe DSL functions launch on CPU tensors, in this context.

        with device("sm_90a") as gpu:
            compiled = cute.compile(function, a, b)
            compiled(a, b)

    Args:
        name: ``sm_90a`` or ``sm_100a``.
        policy: the order of warps and asynchronous operations; round-robin by default.
        races: whether findings of the race checker are an error after the launch, are only
            reported, or nobody looks for them.
        switches: readings of the ISA where it leaves room.
        limit: warp instructions after which a kernel is taken to loop forever.
        stall: seconds of processor time without an arrival, an asynchronous operation or the end of
            a warp after which it is, too.
        seconds: by the clock, for a whole launch; None: any.
        registers: per thread at launch, for setmaxnreg; None: ``.maxnreg``, or what fits.
        sms: streaming multiprocessors that host code is told of.
        schedules: adversarial schedules, with the seeds from 0 on, under which each launch is
            executed before ``policy``, from the same contents of memory; findings are joined.
        demoted: ids of rules, as findings print them, of which breaches are warnings.
        memory: gives all that kernels may access; by default that is what arguments of calls have.

    Raises:
        LaunchError: there is no such device, or another one is in use.
    """
    from schedgen.emulator.launch.device import device as capture  # imports torch and the DSL

    emulator = Emulator(policy or RoundRobin(), races, switches or Switches(), limit)
    emulator.stall, emulator.seconds, emulator.registers = stall, seconds, registers
    emulator.schedules, emulator.demoted = schedules, frozenset(demoted)
    with capture(name, run=emulator.run, sms=sms, memory=memory) as opened:
        yield EmulatedDevice(opened, emulator)
