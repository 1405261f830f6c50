"""A role as a function of the generated file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from schedgen.codegen import ir
from schedgen.codegen.errors import EmitError
from schedgen.codegen.events import Silent
from schedgen.codegen.facts import COUNTER
from schedgen.codegen.following import Following
from schedgen.codegen.formulas import library_functions, scalar
from schedgen.codegen.frame import Frame
from schedgen.codegen.ir import Code, Name, called, code
from schedgen.codegen.merging import Body
from schedgen.codegen.peeling import full_until, masks, whole_turns
from schedgen.codegen.pending import pending
from schedgen.codegen.rolling import rolled
from schedgen.codegen.running import Carried, Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.style import BLOCK, PLAIN, Style
from schedgen.codegen.taking_turns import Turns
from schedgen.codegen.terms import terms_of
from schedgen.codegen.tiles import TEAM, Tiles
from schedgen.codegen.transfers import Transfers
from schedgen.codegen.turns import TURN, Peeled, emit_loop
from schedgen.kernel import Kind, Operation
from schedgen.program.added import is_added
from schedgen.program.claims import DRAW, TELL, is_claim
from schedgen.program.following import is_following
from schedgen.program.model import Arrive, Commit, RoleProgram, Run, Step, Wait, WaitGroup
from schedgen.program.operations import Engine
from schedgen.program.taking_turns import is_turn
from schedgen.roles import RoleKind

RING_POINTER = "tile_numbers"
"""The variable that says where the numbers of tiles are that were told."""


class Role:
    """One role of a kernel."""

    def __init__(
        self,
        frame: Frame,
        transfers: Transfers,
        tiles: Tiles,
        events: Silent,
        role: RoleProgram,
        style: Style = PLAIN,
    ) -> None:
        self.frame, self.transfers, self.tiles = frame, transfers, tiles
        self.events, self.role, self.style = events, role, style
        self.architecture, self.plan = frame.architecture, frame.plan
        self.barriers, self.turns = frame.barriers, Turns(frame.plan, tiles)
        self.following = Following(frame.plan)

    @property
    def name(self) -> str:
        return self.plan.names.of("role", self.role.name)

    @property
    def threads(self) -> bool:
        """Whether its threads do arithmetic, and not only issue work."""
        return self.role.kind is RoleKind.WARPGROUP

    def body(self, scope: Mapping[str, str]) -> Body:
        """What it does.

        Its arguments are the names of ``scope``, variables of the kernel with their types, that it
        uses.
        """
        source = Source()
        self._body(source)
        used = ir.names(source.nodes)
        if self.threads:
            used -= set(self.tiles.handed_over)  # it finds them itself
        scope = {**scope, **({TEAM: "Int32"} if self.role.teams > 1 else {})}
        arguments = {name: kind for name, kind in scope.items() if name in used}
        operations = tuple(operation.name for operation in self.plan.runs[self.role.name])
        terms = rolled(terms_of(source.nodes), arguments)
        role = self.role
        return Body(self.name, role.warps, operations, arguments, terms, role.teams)

    def _body(self, source: Source) -> None:
        if self.threads:
            source.add("thread = cute.arch.thread_idx()[0] % 128")
            self.architecture.threads.registers.declare(source, self.role.name)
        self.architecture.declare(source, self.role)
        self.transfers.partition(source, self.plan.runs[self.role.name])
        self.events.begin(source, self.role)
        self.tiles.begin(source, self.role.teams)
        body = Source()
        self.transfers.partition(body, self.plan.runs[self.role.name], ragged=True)
        self._tile(body)
        self.tiles.loop(source, body.nodes, ahead=not self.threads, teams=self.role.teams)
        self.frame.leave(source, self.role)

    def _tile(self, source: Source) -> None:
        if self.threads:
            self.architecture.threads.registers.initialize(source, self.role.name)
            self.architecture.threads.open(source, self.plan.runs[self.role.name])
        self.frame.open(source, self.role)
        self.turns.begin(source, self.role)
        self.events.begin_tile(source, self.role)
        for step in self.role.before:
            self._step(source, step, None, True)
        self.events.end_section(source, self.role, "before")
        peeled = self._peeled() if self.style.peeled else None
        emit_loop(source, self.role, self._step, self._state, self._end_turn, peeled)
        for step in self.role.after:
            self._step(source, step, None, True)
        self.events.end_section(source, self.role, "after")

    def _peeled(self) -> Peeled | None:
        """Turns without masks, if there are any."""
        turns = whole_turns(self.plan, self.role)
        if turns is None:
            return None
        partly = full_until(self.plan, self.role, turns)
        return Peeled(turns, self._step_without_masks, *self._ends, partly)

    def _state(self, state: Carried, name: str) -> str:
        """A variable for a slot or phase that the loop carries along."""
        return self.plan.names.of("state", f"{name} {state}", base=name)

    @property
    def _ends(self) -> tuple[Name, Name]:
        """Variables for the turns in which masks keep everything."""
        names = self.plan.names
        return Name(names.of("turn", "whole first")), Name(names.of("turn", "whole end"))

    def _end_turn(self, source: Source) -> None:
        self.events.end_section(source, self.role, "loop")

    def _engine(self, operation: Operation) -> Engine:
        return self.plan.program.operation[operation.name].engine

    def _step(self, source: Source, step: Step, at: Iteration | None, runs: bool) -> None:
        """Writes a step and its events."""
        if runs:
            self.events.before(source, step)
        self._action(source, step, at, runs)
        if runs:
            self.events.after(source, step)

    def _step_without_masks(
        self, source: Source, step: Step, at: Iteration | None, runs: bool
    ) -> None:
        """The same where masks keep everything; their events stay."""
        name = step.action.operation if isinstance(step.action, Run) else ""
        if not (runs and name and not is_added(name) and masks(self.plan.operation(name))):
            self._step(source, step, at, runs)
            return
        self.events.before(source, step)
        source.put(ir.Issue(name, "everything is kept", ()))
        self.events.after(source, step)

    def _action(self, source: Source, step: Step, at: Iteration | None, runs: bool) -> None:
        """Writes a step, or the empty group of an operation that does not run in this turn."""
        action = step.action
        if isinstance(action, Run) and is_claim(action.operation):
            self._claim(source, action.operation)
        elif isinstance(action, Run) and is_following(action.operation):
            source.comment(step.why)
            with source.issue(action.operation, ""):
                self.following.write(source, action.operation)
        elif isinstance(action, Run) and is_turn(action.operation):
            if runs:
                self._turn(source, step, action.operation, at)
        elif isinstance(action, Run):
            self._run(source, step, action, at, runs)
            if self.style.blocks and at is not None and at.base == TURN:
                self._begin_block(source, step)
        elif not runs:
            return
        elif isinstance(action, Wait):
            if step.why:
                source.comment(step.why)
            if not self.barriers.meet(source, self.role, step):
                self.barriers.wait(source, action, at)
        elif isinstance(action, Arrive) and self.barriers.meet(source, self.role, step):
            return
        elif isinstance(action, Arrive):
            self.barriers.arrive(source, self.role, action, at, self._expect_tx(step, action))
        elif isinstance(action, WaitGroup):
            source.comment(f"{action.operation} is complete")
            self._wait_group(source, step, action)
        elif isinstance(action, Commit):
            place = self.barriers.at(action.barrier, action.number, at)
            self.architecture.commit(source, self.role, action, place)
        elif action.kind in self.architecture.fences:
            self.architecture.fence(source, self.role, step, action.kind)
        else:
            arch = self.plan.program.arch
            raise EmitError(f"{self.role.name}: no emitter for {action.kind} on {arch}")

    def _wait_group(self, source: Source, step: Step, action: WaitGroup) -> None:
        if self.plan.program.operation[action.operation].engine is Engine.COPY_OUT:
            count = pending(self.plan, self.role, step)
            source.put(ir.WaitGroup("bulk", count))
        else:
            self.architecture.wait_group(source, self.role, step, action)

    def _run(
        self,
        source: Source,
        step: Step,
        action: Run,
        at: Iteration | None,
        runs: bool,
    ) -> None:
        operation = self.plan.operation(action.operation)
        engine = self._engine(operation)
        if runs and operation.kind is Kind.LAND:
            with source.issue(operation.name, operation.label):
                source.put(ir.WaitGroup("threads", pending(self.plan, self.role, step)))
        elif runs:
            with source.issue(operation.name, operation.label):
                self._issue(source, operation, action, at)
        elif engine in (Engine.WGMMA, Engine.TENSOR):
            self.architecture.product(source, operation, at, runs=False)
        if engine is Engine.COPY_OUT:
            source.put(ir.CommitGroup("bulk"))
        if operation.kind is Kind.GATHER:
            source.put(ir.CommitGroup("threads"))

    def _claim(self, source: Source, name: str) -> None:
        """Writes what a role does to come to its next tile."""
        operation = self.plan.program.operation[name]
        with source.issue(name.partition(":")[0], ""):
            if name == DRAW:
                source.add(code("ticket = {}", called("draw", Name(COUNTER.name), Name("tiles"))))
                return
            (access,) = operation.accesses
            at = code("{} + {}", Name(RING_POINTER), self.plan.stage(access, None))
            if name == TELL:
                source.add(called("tell", at, code("cute.arch.grid_dim()[0] + ticket")))
            else:
                source.add(code("{} = {}", Name("tile"), called("taken", at)))

    def _turn(self, source: Source, step: Step, name: str, at: Iteration | None) -> None:
        """Writes what a role does to add after the tile before."""
        source.comment(step.why)
        with source.issue(name.partition(":")[0], ""):
            self.turns.take(source, name, at)

    def _begin_block(self, source: Source, step: Step) -> None:
        """Behind a product of Hopper, if what threads compute comes next."""
        at = next(n for n, one in enumerate(self.role.loop) if one is step)
        behind = (one.action for one in self.role.loop[at:])
        runs = (action for action in behind if isinstance(action, Run | WaitGroup))
        engines = [
            self.plan.program.operation[action.operation].engine
            if isinstance(action, Run)
            else None
            for action, _ in zip(runs, range(2), strict=False)
        ]
        if engines == [Engine.WGMMA, Engine.THREADS]:
            source.add(called(BLOCK, TURN))

    def _issue(
        self, source: Source, operation: Operation, action: Run, at: Iteration | None
    ) -> None:
        engine = self._engine(operation)
        if engine is Engine.COPY_IN:
            assert action.barrier is not None
            assert action.number is not None
            barrier = self.barriers.at(action.barrier, action.number, at)
            access = self.plan.access(operation, "to", write=True)
            with self._conditionally(source, operation):
                self.transfers.copy(source, operation, access, at, barrier)
        elif engine is Engine.COPY_OUT:
            access = self.plan.access(operation, "from", write=False)
            with self._conditionally(source, operation):
                self.transfers.copy(source, operation, access, at, None)
        elif engine in (Engine.WGMMA, Engine.TENSOR):
            self.architecture.product(source, operation, at, runs=True)
        else:
            if not self.threads:
                raise EmitError(
                    f"{operation.name}: {self.role.warps} warps cannot compute it",
                    operation,
                    rule="warps-of-role",
                    fix="do not pin it to the role of a load, store or product",
                )
            self.architecture.threads.call(source, self.role, operation, at)

    def _conditionally(self, source: Source, operation: Operation) -> AbstractContextManager[None]:
        """Lines of a copy: inside of its condition, if it has one."""
        if operation.when is None:
            return nullcontext()
        source.uses(*library_functions(operation.when))
        return source.guarded([self._condition(operation)])

    def _condition(self, operation: Operation) -> Code:
        """Of a store: over coordinates of the tile; of a load: over scalars."""
        assert operation.when is not None
        if self._engine(operation) is Engine.COPY_OUT:
            return self.tiles.condition_of(operation.when)
        return scalar(operation.when)

    def _expect_tx(self, step: Step, action: Arrive) -> Code | None:
        """Bytes that an arrival expects, if that depends: none for a load that is left out."""
        if not action.bytes:
            return None
        sections = (self.role.before, self.role.loop, self.role.after)
        # arrivals for two loads may be equal, if these share a barrier and are as large
        section, at = next((s, n) for s in sections for n, one in enumerate(s) if one is step)
        mine = action.barrier, action.number, action.bytes
        for later in section[at + 1 :]:
            run = later.action
            if isinstance(run, Run) and (run.barrier, run.number, run.bytes) == mine:
                operation = self.plan.operation(run.operation)
                if operation.when is None:
                    return None
                return code(f"{action.bytes} if {{}} else 0", self._condition(operation))
        return None
