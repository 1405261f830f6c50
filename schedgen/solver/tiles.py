"""The tile loop: what runs before and after the main loop, and how far one output tile overlaps the
next.

Every role runs the same program per tile: its operations before the main loop, its part of the main
loop, its operations after it. That order is fixed, so the period of a tile is a maximum cycle ratio
and needs no search. The main loop keeps the shape that the modulo scheduler gave it. What is
decided here: the depth of storage that advances per tile (accumulators, epilogue stages) and which
role takes vector work that no main-loop role is bound to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from schedgen.bounds import Constraint, Cycle, critical_cycle
from schedgen.kernel import Kernel, Kind, Operation, Phase
from schedgen.reasons import Reason, ReasonKind
from schedgen.solver.decisions import Decisions, role_span
from schedgen.solver.problem import Problem
from schedgen.solver.storage import Memory, memory_use

MAIN = "main loop"

TILE_LOADS = "tile load"
"""The role of loads around the main loop that are not issued by the one that loads in it."""


@dataclass(frozen=True)
class TileSchedule:
    """One output tile: ``period`` cycles between tiles, start times relative to the start of the
    main loop.
    """

    period: int
    trips: int
    start: Mapping[str, int]
    role: Mapping[str, str]
    depth: Mapping[str, int]
    ring_depth: Mapping[str, int]
    cycle: Cycle | None


@dataclass(frozen=True)
class _Tile:
    """The tile-level constraint graph for one assignment of roles and depths."""

    problem: Problem
    decisions: Decisions
    role: Mapping[str, str]
    depth: Mapping[str, int]
    ring_depth: Mapping[str, int]

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel

    @property
    def span(self) -> int:
        """Cycles from the first iteration of the main loop to its last one."""
        return (self.kernel.trips - 1) * self.decisions.ii

    def constraints(self) -> list[Constraint]:
        period = self.kernel.trips * self.decisions.ii
        found = [Constraint(MAIN, MAIN, period, 1, Reason(ReasonKind.ITERATIONS))]
        found.extend(self._flows())
        found.extend(self._reuse())
        found.extend(self._program_order())
        return found

    # An instance of an operation at tile level: its node and the cycles from that node to its
    # start.
    def first(self, name: str) -> tuple[str, int]:
        in_loop = self.kernel.operation[name].phase is Phase.BODY
        return (MAIN, self.decisions.start[name]) if in_loop else (name, 0)

    def last(self, name: str) -> tuple[str, int]:
        in_loop = self.kernel.operation[name].phase is Phase.BODY
        return (MAIN, self.span + self.decisions.start[name]) if in_loop else (name, 0)

    def edge(self, src: str, dst: str, delay: int, distance: int, reason: Reason) -> Constraint:
        """The last instance of ``src`` in a tile, ``delay``, then the first one of ``dst``
        ``distance`` tiles later.
        """
        (a, from_a), (b, from_b) = self.last(src), self.first(dst)
        cost = self.problem.costs[src]
        handoff = cost.handoff if self.role[src] != self.role[dst] else 0
        return Constraint(a, b, from_a + delay + handoff - from_b, distance, reason)

    def _flows(self) -> Iterator[Constraint]:
        """Values that cross the border of the main loop, or stay outside of it."""
        writer: dict[str, str] = {}
        for operation in self._operations():
            for read in operation.reads:
                source = writer.get(read.piece)
                outside = operation.phase is not Phase.BODY
                if source is not None and (
                    outside or self.kernel.operation[source].phase is not Phase.BODY
                ):
                    region = self.kernel.piece[read.piece].region
                    flow = Reason(ReasonKind.FLOW, (region,))
                    yield self.edge(source, operation.name, self.problem.latency(source), 0, flow)
            for piece in operation.writes:
                writer[piece] = operation.name

    def _reuse(self) -> Iterator[Constraint]:
        """Storage that advances per tile is written again ``depth`` tiles later."""
        ring_of = {region: ring for ring in self.kernel.rings for region in ring.regions}
        for region in self.kernel.regions:
            if not region.per_tile:
                continue
            ring = ring_of.get(region.name)
            if ring is None:
                follower, distance = region.name, self.depth[region.name]
                reused = region.name
            else:
                place = ring.regions.index(region.name) + self.ring_depth[ring.name]
                follower = ring.regions[place % len(ring.regions)]
                distance, reused = place // len(ring.regions), ring.name
            refills = self._first_writers(follower)
            for users in self._users(region.name):
                for refill in refills:
                    yield from self._overwrite(users, refill, distance, reused)

    def _pieces(self, region: str) -> list[str]:
        return [piece.name for piece in self.kernel.pieces if piece.region == region]

    def _first_writers(self, region: str) -> list[str]:
        """The operations that begin to fill ``region``, one for each of its pieces."""
        first: dict[str, str] = {}
        for operation in self._operations():
            for piece in operation.writes:
                first.setdefault(piece, operation.name)
        return list(dict.fromkeys(first[p] for p in self._pieces(region) if p in first))

    def _users(self, region: str) -> Iterator[list[str]]:
        """Who reads each piece of ``region``, or who writes it if nobody reads it."""
        for piece in self._pieces(region):
            operations = self._operations()
            readers = [o.name for o in operations if piece in {r.piece for r in o.reads}]
            writers = [o.name for o in operations if piece in o.writes]
            if writers:
                yield readers or writers

    def _overwrite(
        self, users: list[str], writer: str, distance: int, reused: str
    ) -> Iterator[Constraint]:
        for user in users:
            same_loop = user != writer and {self.last(user)[0], self.first(writer)[0]} == {MAIN}
            if user != writer and not same_loop:
                release = self.problem.costs[user].release.at(self.problem.end)
                reason = Reason(ReasonKind.ANTI, (reused,))
                yield self.edge(user, writer, release, distance, reason)

    def _program_order(self) -> Iterator[Constraint]:
        """Within a role one operation is issued after the other, tile after tile."""
        roles: dict[str, list[tuple[str, int, int]]] = {}
        loops: dict[str, tuple[int, int]] = {}
        for name in self.problem.body:
            lead, tail = role_span(self.problem, self.decisions, name)
            begin, end = self.decisions.start[name] - lead, self.decisions.start[name] + tail
            low, high = loops.get(self.role[name], (begin, end))
            loops[self.role[name]] = min(low, begin), max(high, end)
        for phase in (Phase.BEFORE, Phase.BODY, Phase.AFTER):
            if phase is Phase.BODY:
                for role, (begin, end) in loops.items():
                    roles.setdefault(role, []).append((MAIN, begin, self.span + end))
                continue
            for operation in self.kernel.operations:
                if operation.phase is phase and not operation.boundary:
                    hold = self.problem.hold(operation.name)
                    roles.setdefault(self.role[operation.name], []).append(
                        (operation.name, 0, hold)
                    )
        for role, items in roles.items():
            for number, (name, _, end) in enumerate(items):
                after, begin, _ = items[(number + 1) % len(items)]
                wraps = number + 1 == len(items)
                if not (name == after == MAIN):
                    order = Reason(ReasonKind.PROGRAM_ORDER, (role,))
                    yield Constraint(name, after, end - begin, int(wraps), order)

    def _operations(self) -> list[Operation]:
        return [o for o in self.kernel.operations if not o.boundary]


def schedule_tiles(problem: Problem, decisions: Decisions) -> TileSchedule | None:
    """The tile loop around the main loop ``decisions``: roles, depths and start times of everything
    outside; None if no role has the registers for that.
    """
    best: TileSchedule | None = None
    for role in _role_candidates(problem, decisions):
        if _shortage(problem, decisions, role):
            continue
        candidate = _deepen(problem, decisions, role)
        key = (candidate.period, len(set(role.values())))
        if best is None or key < (best.period, len(set(best.role.values()))):
            best = candidate
    return best


def _role_candidates(problem: Problem, decisions: Decisions) -> list[dict[str, str]]:
    """Ways to assign operations outside the main loop to roles; main-loop groups keep theirs.

    Stores have a role of their own: it waits for a store to finish reading shared memory, which a
    loading role must not do. Loads join the role that loads in the main loop or have their own,
    vector work that is bound to no role joins one or has its own: all of these are tried.
    """
    fixed: dict[str, str] = {}
    loads: list[str] = []
    free: list[str] = []
    loading = next(
        (decisions.role[problem.group_of[n].name] for n in problem.body if problem.costs[n].loaded),
        None,
    )
    for operation in (o for o in problem.kernel.operations if not o.boundary):
        name, group = operation.name, problem.group_of[operation.name]
        if group.name in decisions.role:
            fixed[name] = decisions.role[group.name]
        elif group.pinned is not None or group.role_class.per_unit:
            fixed[name] = group.name
        elif operation.kind is Kind.LOAD:
            loads.append(name)
        elif operation.kind is Kind.STORE:
            fixed[name] = "store"
        else:
            free.append(name)
    loaders = dict.fromkeys([loading or "load", TILE_LOADS] if loads else [""])
    hosts = dict.fromkeys([""])
    if free:
        same_class = [
            g for g in problem.body_groups if g.role_class == problem.group_of[free[0]].role_class
        ]
        hosts = dict.fromkeys([*(decisions.role[g.name] for g in same_class), free[0]])
    return [
        {**fixed, **dict.fromkeys(loads, loader), **dict.fromkeys(free, host)}
        for loader in loaders
        for host in hosts
    ]


def shortage(problem: Problem, decisions: Decisions) -> str:
    """Why no way to assign operations outside of the main loop to roles has the registers."""
    return next(_shortage(problem, decisions, r) for r in _role_candidates(problem, decisions))


def _shortage(problem: Problem, decisions: Decisions, role: Mapping[str, str]) -> str:
    """What roles need more registers for than there are (`schedgen.proof.counts`), '' if nothing.

    ``role`` maps all operations, those outside of the main loop as well.
    """
    from schedgen.solver.registers import role_registers

    machine, needs = problem.machine, role_registers(problem, role, decisions.depth)
    wide = {
        name: registers
        for name, registers in needs.items()
        if any(
            owner == name and not machine.role[problem.costs[o].role].issues_ahead
            for o, owner in role.items()
        )
    }
    for name, registers in wide.items():
        if registers > machine.max_registers:
            return (
                f"what role '{name}' holds at one time, inside and outside of the main loop, takes "
                f"{registers} registers of each thread, and a thread has {machine.max_registers}"
            )
    total = sum(wide.values()) + max((n for r, n in needs.items() if r not in wide), default=0)
    if total > machine.registers_per_thread_sum:
        return (
            f"the roles {', '.join(wide)} take {total} registers per thread together, and there "
            f"are {machine.registers_per_thread_sum}"
        )
    return ""


def _deepen(problem: Problem, decisions: Decisions, role: Mapping[str, str]) -> TileSchedule:
    """Starts with the shallowest storage and adds a slot wherever reuse of storage limits the
    period.
    """
    kernel = problem.kernel
    depth: dict[str, int] = dict(decisions.depth)
    rings: dict[str, int] = {
        ring.name: ring.depth.low
        for ring in kernel.rings
        if kernel.region[ring.regions[0]].per_tile
    }
    current = _evaluate(problem, decisions, role, depth, rings)
    while True:
        improved = False
        for name in _reused(current.cycle):
            deeper = _one_more(problem, decisions, name, depth, rings)
            if deeper is None:
                continue
            trial = _evaluate(problem, decisions, role, deeper[0], deeper[1])
            if trial.period < current.period or (
                trial.period == current.period and _many(kernel, name)
            ):
                depth, rings = dict(deeper[0]), dict(deeper[1])
                improved, current = True, trial
                break
        if not improved:
            return _shallowest(problem, decisions, current)


def _many(kernel: Kernel, name: str) -> bool:
    """Whether several slots may be needed before the period drops: rings with more fills per tile
    than slots.
    """
    return any(ring.name == name and len(ring.regions) > 1 for ring in kernel.rings)


def _shallowest(problem: Problem, decisions: Decisions, tiles: TileSchedule) -> TileSchedule:
    """Takes slots back that the period does not need."""
    for name, ring in problem.kernel.ring.items():
        while name in tiles.ring_depth and tiles.ring_depth[name] > ring.depth.low:
            fewer = {**tiles.ring_depth, name: tiles.ring_depth[name] - 1}
            trial = _evaluate(problem, decisions, tiles.role, tiles.depth, fewer)
            if trial.period > tiles.period:
                break
            tiles = trial
    return tiles


def _reused(cycle: Cycle | None) -> list[str]:
    """Regions and rings whose reuse is on ``cycle``."""
    reasons = [c.reason for c in cycle.constraints] if cycle is not None else []
    return [r.subjects[0] for r in reasons if r is not None and r.kind is ReasonKind.ANTI]


def _one_more(
    problem: Problem,
    decisions: Decisions,
    name: str,
    depth: Mapping[str, int],
    rings: Mapping[str, int],
) -> tuple[dict[str, int], dict[str, int]] | None:
    """One more slot for a region or ring, None if it has all it may or the memory is full."""
    kernel = problem.kernel
    if name in rings:
        if rings[name] >= kernel.ring[name].depth.high:
            return None
        deeper = dict(depth), {**rings, name: rings[name] + 1}
    elif name in kernel.region and depth[name] < kernel.region[name].depth.high:
        deeper = {**depth, name: depth[name] + 1}, dict(rings)
    else:
        return None
    use = memory_use(kernel, problem.graph, replace(decisions, depth=deeper[0]), deeper[1])
    room = Memory(problem.machine.smem_bytes, problem.machine.tmem_columns)
    return deeper if use.smem <= room.smem and use.tmem <= room.tmem else None


def _evaluate(
    problem: Problem,
    decisions: Decisions,
    role: Mapping[str, str],
    depth: Mapping[str, int],
    rings: Mapping[str, int],
) -> TileSchedule:
    constraints = _Tile(problem, decisions, role, depth, rings).constraints()
    cycle = critical_cycle(constraints)
    period = cycle.bound if cycle is not None else 1
    start = dict.fromkeys([MAIN, *(o.name for o in problem.kernel.outer if not o.boundary)], 0)
    for _ in range(len(start) + 1):
        for c in constraints:
            start[c.dst] = max(start[c.dst], start[c.src] + c.delay - period * c.distance)
    origin = start[MAIN]
    return TileSchedule(
        period,
        problem.kernel.trips,
        {n: t - origin for n, t in start.items()},
        dict(role),
        dict(depth),
        dict(rings),
        cycle,
    )
