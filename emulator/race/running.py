"""A program with the stand-in for a GPU around it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Copied, Launch
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.diversion import set_environment
from schedgen.emulator.launch.targets import target
from schedgen.emulator.launched import module_of, parameters_of_each
from schedgen.emulator.machine.launch import LIMIT, STALL
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.tree import Module
from schedgen.emulator.race.banks import Banks
from schedgen.emulator.race.programs import Ended, Program, run
from schedgen.emulator.race.schedules import Kept
from schedgen.emulator.race.session import Limit, Session
from schedgen.emulator.race.shrinking import Budget
from schedgen.emulator.race.unsupported import Unsupported, unsupported

_CACHES = ("QUACK_CACHE_ENABLED", "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED")
"""Variables that switch off what libraries keep of compiled kernels: object files, which have no
PTX to execute. Objects that a GPU's programs left there are neither used nor changed."""


@dataclass(frozen=True)
class Options:
    """How launches are executed and checked.

    Attributes:
        arch: ``sm_90a`` or ``sm_100a``.
        schedule: ``adversarial`` or ``random``, or ``round-robin`` alone.
        seeds: how many adversarial or random schedules there are before the last one, which is
            round-robin.
        sms: streaming multiprocessors that programs are told of.
        instructions, stall, seconds: what a launch may take (`emulation.device`).
        limit: what the program may have.
        known: fingerprints of findings that are no news.
        demoted: ids of rules of which breaches are warnings.
        jobs: processes that execute schedules of a launch at the same time.
        pictures: whether findings have timelines.
        shrink: seconds in which simple schedules are looked for that show findings.
        replay: schedules under which launches are executed instead.
        banks: whether bank conflicts are counted, for which each launch is executed again.
    """

    arch: str
    schedule: str = "adversarial"
    seeds: int = 3
    sms: int = 4
    switches: Switches = field(default_factory=Switches)
    instructions: int = LIMIT
    stall: float = STALL
    seconds: float | None = None
    limit: Limit = field(default_factory=Limit)
    known: Collection[str] = frozenset()
    demoted: Collection[str] = frozenset()
    jobs: int = 1
    pictures: bool = False
    shrink: float = 30.0
    replay: Collection[Kept] | None = None
    banks: bool = False


def session_of(options: Options, progress: Callable[[str], None] | None = None) -> Session:
    """A session that executes launches as `options` say."""
    orders: dict[str, Callable[[int], Policy]] = {"random": Seeded}
    emulator = Emulator(RoundRobin(), "report", options.switches, options.instructions)
    emulator.stall, emulator.seconds = options.stall, options.seconds
    emulator.demoted = frozenset(options.demoted)
    emulator.jobs = options.jobs
    emulator.schedules = 0 if options.schedule == "round-robin" else options.seeds
    emulator.order = orders.get(options.schedule, Adversarial)
    emulator.starves = options.schedule == "adversarial" and options.replay is None
    session = Session(
        emulator, options.limit, options.known, pictures=options.pictures, progress=progress
    )
    session.budget, session.replay = Budget(options.shrink), options.replay
    if options.banks:
        session.banks = emulator.after = Banks()
    return session


def listed(program: Program, options: Options) -> tuple[tuple[Unsupported, ...], int, Ended]:
    """Runs a program without executing what it launches: what of its kernels is not supported, how
    many kernels there are, and how it ended, which may be badly for want of results."""
    known: dict[tuple[str, str], tuple[Unsupported, ...]] = {}

    def note(launch: Launch) -> None:
        key = launch.kernel, launch.ptx
        if key not in known:
            module = module_of(launch.ptx)
            known[key] = tuple(one for one in unsupported(module) if one.kernel == launch.kernel)

    with _gpu(options, note):
        ended = run(program)
    return tuple(one for found in known.values() for one in found), len(known), ended


def captured(program: Program, options: Options) -> tuple[tuple[tuple[str, Module], ...], Ended]:
    """Runs a program without executing what it launches: its kernels, each with its module, in the
    order of their first launches, and how it ended, which may be badly for want of results."""
    known: dict[tuple[str, str], Module] = {}

    def note(launch: Launch) -> None:
        known.setdefault((launch.kernel, launch.ptx), module_of(launch.ptx))

    with _gpu(options, note):
        ended = run(program)
    return tuple((kernel, module) for (kernel, _), module in known.items()), ended


def checked(
    program: Program, options: Options, progress: Callable[[str], None] | None = None
) -> tuple[Session, Ended]:
    """Runs a program: what ran on the GPU that is not there, and how it ended.

    Raises:
        LaunchError: there is no such architecture, or CuTe DSL is not installed.
        ProgramError: what is to be run is not there.
    """
    from schedgen.emulator.standin.tensors import MEMORY  # imports torch

    session = session_of(options, progress)
    session.released = MEMORY.released
    with _gpu(options, session.run):
        return session, run(program)


@contextmanager
def _gpu(options: Options, launched: Callable[[Launch], None]) -> Generator[None]:
    """The stand-in, whose launches come to `launched`."""
    from schedgen.emulator.standin.graphs import capturing  # imports torch
    from schedgen.emulator.standin.tensors import MEMORY
    from schedgen.emulator.standin.torch_standin import stand_in

    def take(launch: Launch) -> None:
        """Executes a launch, or keeps it for replays of the CUDA graph that is being captured."""
        graph = capturing()
        if graph is None:
            launched(launch)
            return
        kept = replace(launch, parameters=Copied(parameters_of_each(launch)))
        graph.add(lambda: launched(replace(kept, allocations=MEMORY.allocations())))

    with ExitStack() as stack:
        for name in _CACHES:
            set_environment(stack, name, "0")
        stack.enter_context(stand_in(target(options.arch, options.sms)))
        stack.enter_context(
            device(options.arch, run=take, sms=options.sms, memory=MEMORY.allocations)
        )
        yield
