"""Changes of one step: left out, elsewhere, for another number, at another barrier, less often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from schedgen.benchmarks.mutants.sites import Change, Maker, Site, sites
from schedgen.ordering.steps import describe
from schedgen.program.model import (
    EVERY,
    FIRST,
    LAST,
    MEETINGS,
    Action,
    Arrive,
    Barrier,
    Commit,
    Fence,
    FenceKind,
    Guard,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Engine
from schedgen.synchronize.pacing import unpaced

Signals = Arrive | Commit


def without(*kinds: type[Action]) -> Maker:
    """Leaves out one step of these kinds."""

    def make(program: Program) -> Iterator[Change]:
        for site in sites(program, *kinds):
            yield Change(f"without {site.name}", site.without(), site)

    return make


def without_fence(*kinds: FenceKind) -> Maker:
    """Leaves out one fence of these kinds."""

    def make(program: Program) -> Iterator[Change]:
        for site in sites(program, Fence):
            if isinstance(site.action, Fence) and site.action.kind in kinds:
                yield Change(f"without {site.name}", site.without(), site)

    return make


def without_meeting(program: Program) -> Iterator[Change]:
    """Leaves out a meeting of a role's warps, of several roles', or of the threads of each, with
    its barrier.
    """
    for barrier in program.barriers:
        if barrier.kind in MEETINGS:
            roles = tuple(_without_barrier(role, barrier.name) for role in program.roles)
            barriers = tuple(other for other in program.barriers if other != barrier)
            changed = replace(program, roles=roles, barriers=barriers)
            yield Change(f"without {barrier.name}", changed)


def narrow_meeting(program: Program) -> Iterator[Change]:
    """Each warp meets alone, where all warps of a role have to."""
    for barrier in program.barriers:
        if barrier.kind == "role":
            alone = replace(barrier, kind="warp")
            barriers = tuple(alone if other == barrier else other for other in program.barriers)
            yield Change(f"each warp alone: {barrier.name}", replace(program, barriers=barriers))


def lonely_meeting(program: Program) -> Iterator[Change]:
    """The warps of one role meet alone, and those of the others without them, where all have to."""
    for barrier in program.barriers:
        for role in program.roles if barrier.kind == "roles" else ():
            threads = sum(
                step.action.count
                for step in role.steps
                if isinstance(step.action, Arrive) and step.action.barrier == barrier.name
            )
            if threads:
                alone = replace(barrier, name=f"{role.name} alone", kind="role", arrivals=threads)
                others = replace(barrier, arrivals=barrier.arrivals - threads)
                roles = (_at(r, barrier, alone) if r is role else r for r in program.roles)
                barriers = (b if b != barrier else others for b in program.barriers)
                changed = replace(program, roles=tuple(roles), barriers=(*barriers, alone))
                yield Change(f"{role.name} alone: {barrier.name}", changed)


def without_pace(program: Program) -> Iterator[Change]:
    """Leaves all orders of pace out, which no other order may rest on."""
    if program.paced:
        yield Change(f"without the order on {', '.join(program.paced)}", unpaced(program))


def _at(role: RoleProgram, barrier: Barrier, other: Barrier) -> RoleProgram:
    """``role`` with its steps at ``barrier`` at another one."""

    def moved(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(
            replace(step, action=replace(step.action, barrier=other.name))
            if isinstance(step.action, Arrive | Wait) and step.action.barrier == barrier.name
            else step
            for step in steps
        )

    return replace(role, before=moved(role.before), loop=moved(role.loop), after=moved(role.after))


def _without_barrier(role: RoleProgram, name: str) -> RoleProgram:
    def kept(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(s for s in steps if getattr(s.action, "barrier", None) != name)

    return replace(role, before=kept(role.before), loop=kept(role.loop), after=kept(role.after))


# -- elsewhere ---------------------------------------------------------------------------------


def late_wait(program: Program) -> Iterator[Change]:
    """A wait behind the next step that is no wait."""
    for site in sites(program, Wait):
        other = site.next(lambda step: not isinstance(step.action, Wait))
        if other is not None:
            yield _behind(site, other)


def wait_behind_use(program: Program) -> Iterator[Change]:
    """A wait behind the next operation of its iteration, which may be what it is there for."""
    for site in sites(program, Wait):
        other = site.next(lambda step, site=site: _runs(step) and step.shift == site.step.shift)
        if other is not None:
            yield _behind(site, other)


def hoisted_wait(program: Program) -> Iterator[Change]:
    """A wait as the first step of its section: what it waits for may need what it now delays."""
    for site in sites(program, Wait):
        if site.place > 0:
            yield _ahead(site, 0)


def early_signal(program: Program) -> Iterator[Change]:
    """An arrival or commit before the step that it follows."""
    for site in sites(program, Arrive, Commit):
        if site.place > 0:
            yield _ahead(site, site.place - 1)


def signal_before_use(program: Program) -> Iterator[Change]:
    """An arrival or commit before the last operation of its iteration."""
    for site in sites(program, Arrive, Commit):
        other = site.last(lambda step, site=site: _runs(step) and step.shift == site.step.shift)
        if other is not None:
            yield _ahead(site, other)


def late_signal(program: Program) -> Iterator[Change]:
    """An arrival or commit behind the next wait or wait_group: two roles may wait for each
    other.
    """
    for site in sites(program, Arrive, Commit):
        other = site.next(lambda step: isinstance(step.action, Wait | WaitGroup))
        if other is not None:
            yield _behind(site, other)


def fence_behind_signal(program: Program) -> Iterator[Change]:
    """A fence behind the arrival or commit that it belongs before."""
    for site in sites(program, Fence):
        other = site.next(lambda step: isinstance(step.action, Signals))
        if other is not None and not _before_use(site):
            yield _behind(site, other)


def fence_before_wait(program: Program) -> Iterator[Change]:
    """A fence that belongs behind a wait before it."""
    for site in sites(program, Fence):
        other = site.last(lambda step: isinstance(step.action, Wait))
        if other is not None and _before_use(site):
            yield _ahead(site, other)


def late_wait_group(program: Program) -> Iterator[Change]:
    """A wait_group behind the arrival that says that it is over."""
    for site in sites(program, WaitGroup):
        other = site.next(lambda step: isinstance(step.action, Signals))
        if other is not None:
            yield _behind(site, other)


def overtaken_wait_group(program: Program) -> Iterator[Change]:
    """A wait_group of the loop behind the next product of the warpgroup, in the next turn if that
    is the first one there: that product may need registers of the one that is waited for.
    """

    def product(step: Step) -> bool:
        action = step.action
        return isinstance(action, Run) and program.operation[action.operation].engine is _PRODUCTS

    for site in sites(program, WaitGroup):
        if site.section != "loop":
            continue
        other = site.next(product)
        if other is not None:
            yield _behind(site, other)
            continue
        first = next((place for place, step in enumerate(site.steps) if product(step)), None)
        if first is not None:
            kept = (*site.steps[: site.place], *site.steps[site.place + 1 :])
            later = replace(site.step, shift=site.step.shift + 1)
            steps = (*kept[: first + 1], later, *kept[first + 1 :])
            what = f"{site.name} behind the next {describe(site.steps[first])}"
            yield Change(what, site.with_steps(steps), site)


_PRODUCTS = Engine.WGMMA


def _behind(site: Site, other: int) -> Change:
    what = f"{site.name} behind {describe(site.steps[other])}"
    return Change(what, site.behind(other), site)


def _ahead(site: Site, other: int) -> Change:
    what = f"{site.name} before {describe(site.steps[other])}"
    return Change(what, site.ahead_of(other), site)


def _runs(step: Step) -> bool:
    return isinstance(step.action, Run)


def _before_use(site: Site) -> bool:
    """Whether a fence is one that stands before the operation that needs it."""
    kinds = (FenceKind.TMEM_AFTER, FenceKind.REGISTERS)
    return isinstance(site.action, Fence) and site.action.kind in kinds


# -- another number or barrier -----------------------------------------------------------------


def flipped_phase(program: Program) -> Iterator[Change]:
    """A wait for the parity of the phase before or after."""
    for site in sites(program, Wait):
        assert isinstance(site.action, Wait)
        slots = program.barrier[site.action.barrier].slots
        for by in (-slots, slots):
            yield _renumbered(site, by)


def wrong_number(program: Program) -> Iterator[Change]:
    """A wait for the number before or after."""
    for site in sites(program, Wait):
        yield from (_renumbered(site, by) for by in (-1, 1))


def wrong_signal(program: Program) -> Iterator[Change]:
    """An arrival, commit or copy for the number before or after."""
    for site in sites(program, Arrive, Commit, Run):
        if not isinstance(site.action, Run) or site.action.number is not None:
            yield from (_renumbered(site, by) for by in (-1, 1))


def extra_wait(program: Program) -> Iterator[Change]:
    """Another wait, for the number that is next in turn for the same step."""
    for site in sites(program, Wait):
        action = site.action
        assert isinstance(action, Wait)
        more = replace(action, number=action.number.moved(action.number.scale))
        program = site.instead(site.step, replace(site.step, action=more))
        yield Change(f"{site.name}, then {describe(Step(more))}", program, site)


def _renumbered(site: Site, by: int) -> Change:
    action = site.action
    assert isinstance(action, Wait | Arrive | Commit | Run)
    assert action.number is not None
    other = replace(action, number=action.number.moved(by))
    return Change(f"{site.name}, number {by:+}", site.does(other), site)


def wrong_barrier(program: Program) -> Iterator[Change]:
    """A wait, arrival, commit or copy at the next barrier of the same shape."""
    for site in sites(program, Wait, Arrive, Commit, Run):
        action = site.action
        assert not isinstance(action, WaitGroup | Fence)
        if action.barrier is not None:
            other = _neighbour(program, action.barrier)
            if other is not None:
                changed = site.does(replace(action, barrier=other.name))
                yield Change(f"{site.name}, at {other.name}", changed, site)


def _neighbour(program: Program, name: str) -> Barrier | None:
    mine = program.barrier[name]
    place = program.barriers.index(mine)
    others = (*program.barriers[place + 1 :], *program.barriers[:place])
    shape = (mine.kind, mine.slots, mine.arrivals, mine.bytes)
    alike = (o for o in others if (o.kind, o.slots, o.arrivals, o.bytes) == shape)
    return next(alike, None)


# -- more or less often ------------------------------------------------------------------------


def wrong_guard(program: Program) -> Iterator[Change]:
    """A step of the loop in other iterations than before."""
    for site in sites(program, Wait, Arrive, Commit, WaitGroup, Fence):
        if site.section == "loop":
            for guard, what in _guards(site.step.guard):
                step = replace(site.step, guard=guard)
                yield Change(f"{site.name}, {what}", site.instead(step), site)


def _guards(old: Guard) -> Iterator[tuple[Guard, str]]:
    if old.kind is When.EVERY:
        yield FIRST, "in the first iteration only"
        yield LAST, "in the last iteration only"
        yield replace(old, low=old.low + 1), "not in the first iteration"
        yield replace(old, high=old.high + 1), "not in the last iteration"
        if old.low:
            yield replace(old, low=old.low - 1), "in one more iteration at the start"
        if old.high:
            yield replace(old, high=old.high - 1), "in one more iteration at the end"
        return
    yield EVERY, "in every iteration"
    yield replace(old, low=old.low + 1), "not in tiles that are too short"
    yield replace(old, kind=When.LAST if old.kind is When.FIRST else When.FIRST), "at the other end"


def wrong_wait_group(program: Program) -> Iterator[Change]:
    """A wait_group that leaves one group more pending."""
    for site in sites(program, WaitGroup):
        action = site.action
        assert isinstance(action, WaitGroup)
        if site.section == "loop":
            other = replace(action, lag=action.lag + 1)
            yield Change(f"{site.name}, one iteration less", site.does(other), site)
        engine = program.operation[action.operation].engine
        same = site.last(_issues_before(program, engine, site, action.operation))
        before = None if same is None else site.steps[same].action
        if isinstance(before, Run):
            other = replace(action, operation=before.operation)
            yield Change(f"{site.name}, but for {before.operation}", site.does(other), site)


def _issues_before(
    program: Program, engine: Engine, site: Site, operation: str
) -> Callable[[Step], bool]:
    """Whether a step issues to the engine before ``operation`` is issued."""
    issued = site.last(lambda s: isinstance(s.action, Run) and s.action.operation == operation)
    ahead = set(map(id, site.steps[: issued or 0]))

    def issues(step: Step) -> bool:
        action = step.action
        runs = isinstance(action, Run) and program.operation[action.operation].engine is engine
        return runs and id(step) in ahead

    return issues
