"""A kernel's PTX beside its program: role by role, tile by tile, for all trip counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from schedgen.codegen.binding import bound
from schedgen.codegen.plan import Plan
from schedgen.codegen.small_tiles import together
from schedgen.conform.alike import for_all_threads
from schedgen.conform.cases import Case, cases
from schedgen.conform.claimed import check_drawn, check_taken, check_told, next_tile
from schedgen.conform.closed import Closed
from schedgen.conform.compare import Comparison
from schedgen.conform.computed import computed, with_computed
from schedgen.conform.expected import Expected, Frame, tile
from schedgen.conform.flow import Flow
from schedgen.conform.footprints import WORD, Footprints
from schedgen.conform.frame import Surroundings
from schedgen.conform.induction import ALONE, Team, Written, reduced, settled
from schedgen.conform.numbers import ends, numbers_of, output_tile, without_least, without_more
from schedgen.conform.parts import in_order, stops
from schedgen.conform.refusal import Refusal
from schedgen.conform.registers import SHARED
from schedgen.conform.skeleton import Branch, Exit, Items, Loop, outer_loops
from schedgen.conform.taking import Mismatch
from schedgen.conform.terms import Term, Terms
from schedgen.conform.trace import Event, Numbers, Trace
from schedgen.conform.turns import check_turn
from schedgen.conform.values import SHARED_ALIGNMENT, Value, along, exact
from schedgen.conform.walk import Walk
from schedgen.emulator.ptx.tree import Instruction, Module
from schedgen.kernel import Kernel
from schedgen.program.claims import take
from schedgen.program.model import Program, RoleProgram


@dataclass(frozen=True, slots=True)
class Finding:
    """Where kernel and program differ, or what cannot be decided; ``step`` is empty then.

    ``line``: of the PTX, 0 if no instruction is to blame.
    """

    role: str
    step: str
    instruction: str
    line: int
    message: str

    @property
    def text(self) -> str:
        """One line."""
        where = f"line {self.line}: {self.instruction}: " if self.line else ""
        step = f"{self.step}: " if self.step else ""
        return f"{self.role}: {step}{where}{self.message}"


@dataclass(frozen=True, slots=True)
class RoleResult:
    """How much of a role was compared: steps with the instructions that they are."""

    name: str
    steps: int
    instructions: int
    cases: int


@dataclass(frozen=True, slots=True)
class Conformance:
    """The result: no findings if the kernel is what its program says."""

    findings: tuple[Finding, ...]
    roles: tuple[RoleResult, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        return not self.findings


def conform(module: Module, program: Program, kernel: Kernel) -> Conformance:
    """Compares the only kernel of ``module`` with ``program``, made from ``kernel``."""
    begin = perf_counter()
    check = Check(module, program, kernel)
    findings, roles = check.run()
    return Conformance(tuple(findings), tuple(roles), perf_counter() - begin)


@dataclass(frozen=True, slots=True)
class _Role:
    """Warps of the kernel that do the same: a role, one of its teams, or none."""

    name: str
    program: RoleProgram | None
    first: int
    warps: int
    team: Team = ALONE


@dataclass(frozen=True, slots=True)
class _Parts:
    """The skeleton of a role around its loop over tiles; ``without``: all of it if it has none."""

    before: Items
    tiles: Loop | None
    after: Items
    without: Items


class Check:
    """One kernel."""

    def __init__(self, module: Module, program: Program, kernel: Kernel) -> None:
        self.module, self.program = module, program
        self.plan = Plan(program, bound(kernel))
        self.footprints, self.surroundings = Footprints(self.plan), Surroundings(self.plan)
        self.terms = Terms()
        self.count: tuple[str, Term] | None = None
        self.condition: tuple[str, Term] | None = None
        self.tiles: Term | None = None

    def run(self) -> tuple[list[Finding], list[RoleResult]]:
        findings: list[Finding] = []
        results: list[RoleResult] = []
        if len(self.module.kernels) != 1:
            message = f"there are {len(self.module.kernels)} kernels, not one"
            return [Finding("kernel", "", "", 0, message)], []
        (kernel,) = self.module.kernels.values()
        try:
            self.flow = Flow(kernel)
            self._threads()
        except Refusal as error:
            return [_finding("kernel", error)], []
        for role in self._roles():
            try:
                results.append(self._role(role))
            except Refusal as error:
                findings.append(_finding(role.name, error))
        return findings, results

    def _threads(self) -> None:
        """Whether there are as many threads as the program has warps."""
        directives = self.flow.kernel.directives
        threads = directives.get("reqntid") or directives.get("maxntid")
        wanted = (32 * self.plan.warps, 1, 1)
        if threads is None or (*threads, 1, 1)[:3] != wanted:
            raise Refusal(f"a block has {threads} threads, the program {wanted}")

    def _roles(self) -> list[_Role]:
        first = self.plan.first_warp
        found = [one for role in self.program.roles for one in _teams(role, first[role.name])]
        # Roles with loops come first: they know how many iterations a tile has.
        found.sort(key=lambda role: not (role.program and role.program.loop))
        used = sum(role.warps for role in found)
        idle = range(used, self.plan.warps)
        return found + [_Role(f"warp {warp}, without a role", None, warp, 1) for warp in idle]

    @property
    def _reads_global(self) -> bool:
        """Whether threads read tensors in global memory: elements, sizes, blocks, lists of rows."""
        lists = any(argument.index for argument in self.plan.kernel.arguments)
        return bool(self.plan.elements or self.plan.ragged or self.plan.kernel.walk or lists)

    # -- one role ------------------------------------------------------------------------------

    def _role(self, role: _Role) -> RoleResult:
        walk = Walk(
            self.flow,
            self.terms,
            32 * role.first,
            32 * role.warps,
            elements=self._reads_global,
            claims=self.plan.claims,
        )
        items = settled(walk.skeleton(), self.terms, walk.threads)
        items = reduced(items, self.terms, role.team)
        if role.program is not None and self.plan.sparse:
            items = with_computed(items, partial(self._computed, role))
        closed = Closed(items, self._rings(), self.terms)
        parts = self._split(items, role.team)
        tiles = parts.tiles
        if tiles is not None and role.program is None:
            raise Refusal("it has no role but works on tiles", tiles.instruction)
        numbers = Numbers(None, (), ())
        if tiles is not None:
            numbers = self._numbers(role, closed, tiles)
        trace = Trace(self.terms, closed, numbers, self._given(role))
        mapped: dict[str, set[int]] = {}
        frames = self.surroundings
        begins = frames.before(role.program, role.first, role.warps)
        ends = frames.after(role.program, role.first, role.warps)
        around = [(parts.without, [*begins, *ends])]
        if tiles is not None:
            around += [(parts.before, begins), (parts.after, ends)]
        for part, wanted in around:
            events = trace.events(part, None)
            self._compare(role, None, events, wanted, mapped)
        count = 0
        if role.program is not None:
            if tiles is None:
                raise Refusal("there is no loop over tiles")
            apart = together(self.plan.kernel)
            for case in cases(self.program, role.program, role.team.number, apart):
                wanted = [*frames.tile(role.program), *tile(role.program, case)]
                for divided in stops(case, max(1, len(numbers.parts))):
                    events = trace.events(_body(tiles), case, divided)
                    self._compare(role, case, events, wanted, mapped)
                count += 1
            if self.plan.claims:
                self._taken(role, tiles, mapped)
        lines = {line for found in mapped.values() for line in found}
        return RoleResult(role.name, len(mapped), len(lines), count)

    def _taken(self, role: _Role, tiles: Loop, mapped: dict[str, set[int]]) -> None:
        """The role goes on with the tile that it takes."""
        operation = f"'{take(role.name)}'"
        lines = {line for step, found in mapped.items() if operation in step for line in found}
        check_taken(tiles, lines, self.flow.kernel.body)

    def _computed(self, role: _Role, tiles: Loop) -> Loop:
        """The loop over tiles for those that are computed, which roles have to agree on."""
        loop, condition = computed(tiles, self.terms)
        known = Written(self.terms, output_tile(tiles, self.terms)).term(condition)
        if self.condition is None:
            self.condition = role.name, known
        elif self.condition[1] is not known:
            raise Refusal(f"it computes other tiles than '{self.condition[0]}'", tiles.instruction)
        return loop

    def _compare(
        self,
        role: _Role,
        case: Case | None,
        events: list[Event],
        wanted: Sequence[Expected | Frame],
        mapped: dict[str, set[int]],
    ) -> None:
        one = Comparison(self.footprints, role.program, case, events, (role.first, role.warps))
        one.compare(wanted)
        for event in one.drawn:
            check_drawn(event, self.tiles, self.terms)
        for begin, end in one.turns:
            check_turn(begin, end, self.terms)
        for event in one.told:
            check_told(event, self.terms)
        for step, instruction in one.mapped:
            mapped.setdefault(step, set()).add(instruction.line)

    def _rings(self) -> set[int]:
        rings = {barrier.slots for barrier in self.program.barriers}
        return rings | {allocation.slots for allocation in self.program.allocations}

    def _given(self, role: _Role) -> dict[Term, Value]:
        """Symbols that have values everywhere."""
        thread = 32 * role.first + np.arange(32 * role.warps)
        zero = exact(0).array
        word = WORD * (self.plan.words + 1)
        return {
            self.terms.symbol("%tid.x"): along("thread", thread),
            self.terms.symbol("%laneid"): along("thread", thread % 32),
            self.terms.symbol(SHARED): Value(zero, 0, SHARED_ALIGNMENT),
            self.terms.make("word", word): Value(zero, 0, 0, 1),
        }

    def _split(self, items: Items, team: Team) -> _Parts:
        """What comes before the loop over tiles, it, what comes after it, and what comes if there
        are no tiles.
        """
        for number, item in enumerate(items):
            if not outer_loops((item,)):
                continue
            if not isinstance(item, Branch):
                raise Refusal("the loop over tiles runs even if there are none", item.instruction)
            arm, other = (item.yes, item.no) if outer_loops(item.yes) else (item.no, item.yes)
            at = next((n for n, one in enumerate(arm) if isinstance(one, Loop)), None)
            if at is None or len(outer_loops((*arm, *other))) > 1:
                raise Refusal("there is more than the loop over tiles", item.instruction)
            loop = arm[at]
            assert isinstance(loop, Loop)
            self._guarded(item, loop, team, enters=arm is item.yes)
            before, rest = items[:number], items[number + 1 :]
            return _Parts(
                (*before, *arm[:at]), loop, (*arm[at + 1 :], *rest), before + other + rest
            )
        return _Parts(items, None, (), items)

    def _guarded(self, guard: Branch, loop: Loop, team: Team, *, enters: bool) -> None:
        """Whether the loop runs for all output tiles of a block, up to the number of tiles."""
        terms, names = self.terms, output_tile(loop, self.terms, team)
        ends = [one for one in loop.body if isinstance(one, Exit)]
        tiles = {(loop.carried[name].entry, loop.carried[name].update) for name in names}
        if self.plan.claims and len(ends) == 1:  # which need not be in a register all the time
            tiles.add((terms.symbol("%ctaid.x"), next_tile(ends[0])))
        if len(tiles) != 1 or len(ends) != 1 or loop.body[-1] is not ends[0]:
            raise Refusal("the loop over tiles is not understood", loop.instruction)
        ((entry, update),) = tiles
        first = guard.condition if enters else terms.negation(guard.condition)
        last = terms.negation(ends[0].condition)
        begins = _bound(terms, first, entry)
        if begins is None or begins is not _bound(terms, last, update):
            # Blocks that change places ask it of a number that they find from the tile's.
            again = Written(terms, {entry: update}).term(first)
            begins = first if again is last and again is not first else None
        if begins is None:
            raise Refusal("the loop over tiles ends elsewhere than it begins", loop.instruction)
        if not for_all_threads(begins):
            raise Refusal("threads may disagree about how many tiles there are", loop.instruction)
        if self.tiles is None:
            self.tiles = begins
        if self.tiles is not begins:
            raise Refusal("roles disagree about how many tiles there are", loop.instruction)

    def _numbers(self, role: _Role, closed: Closed, tiles: Loop) -> Numbers:
        assert role.program is not None
        loops = outer_loops(tiles.body)
        if loops and not role.program.loop:
            raise Refusal("there are loops that the program has not", loops[-1].instruction)
        here = output_tile(tiles, self.terms, role.team)
        if not loops:
            if role.program.loop and self.count is None:
                raise Refusal("there is no loop over iterations", tiles.instruction)
            back = {name: symbol for symbol, name in here.items()}
            count = Written(self.terms, back).term(self.count[1]) if self.count else None
            return numbers_of(self.terms, tiles, count, team=role.team)
        found = ends(closed, loops)
        if not in_order(self.terms, found, role.program.shifts):
            raise Refusal("its loops may not be one behind the other", loops[-1].instruction)
        data = bool(self.plan.ragged)  # of sizes that may be 0, for which there is one iteration
        count = without_more(found[-1], self.terms) if data else found[-1]
        if self.plan.kernel.split and not data:  # what is left of a share is one at least
            count = without_least(count, 1)
        known = Written(self.terms, here).term(count)
        if self.count is None:
            self.count = role.name, known
        elif self.count[1] is not known:
            if not data:
                count, known = without_least(count), without_least(known)
            if known is not self.count[1]:
                raise Refusal(
                    f"it has another number of iterations than '{self.count[0]}'",
                    loops[-1].instruction,
                )
        for loop, end in zip(loops[1:], found, strict=False):
            closed.begins[loop.number] = end
        parts = [*zip(loops, (*found[:-1], count), strict=True)]
        return numbers_of(self.terms, tiles, count, parts, role.team)


def _teams(role: RoleProgram, first: int) -> list[_Role]:
    """A role, or each of its teams."""
    if role.teams == 1:
        return [_Role(role.name, role, first, role.warps)]
    return [
        _Role(
            f"{role.name}, team {n}", role, first + n * role.warps, role.warps, Team(n, role.teams)
        )
        for n in range(role.teams)
    ]


def _bound(terms: Terms, condition: Term, tile_term: Term) -> Term | None:
    """What ``tile_term`` is compared with, if the condition is that it is less."""
    sign = 1
    if condition.op == "not" and condition.parts[0].op == "le":  # a - b > 0, where b - a < 0
        (condition,), sign = condition.parts, -1
    elif condition.op != "lt":
        return None
    (difference,) = condition.parts
    return terms.sum(((tile_term, 1), (difference, -sign)))


def _body(tiles: Loop) -> Items:
    return tuple(item for item in tiles.body if not isinstance(item, Exit))


def _finding(role: str, error: Refusal) -> Finding:
    one: Instruction | None = error.instruction
    step = error.step if isinstance(error, Mismatch) else ""
    return Finding(role, step, one.name if one else "", one.line if one else 0, error.message)
