"""A role as a function of the generated file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from schedgen.codegen.architecture import Architecture
from schedgen.codegen.errors import EmitError
from schedgen.codegen.events import Silent
from schedgen.codegen.formulas import code
from schedgen.codegen.pending import pending
from schedgen.codegen.source import Source
from schedgen.codegen.steps import Barriers
from schedgen.codegen.tiles import Tiles
from schedgen.codegen.transfers import Transfers
from schedgen.codegen.turns import emit_loop
from schedgen.kernel import Operation
from schedgen.program.model import (
    Arrive,
    Commit,
    Drain,
    Engine,
    RoleProgram,
    Run,
    Step,
    Wait,
)


class Role:
    """One role of a kernel."""

    def __init__(
        self,
        architecture: Architecture,
        transfers: Transfers,
        tiles: Tiles,
        events: Silent,
        role: RoleProgram,
    ) -> None:
        self.architecture, self.transfers, self.tiles = architecture, transfers, tiles
        self.events, self.role = events, role
        self.plan = architecture.plan
        self.barriers = Barriers(self.plan)

    @property
    def name(self) -> str:
        return self.plan.names.of("role", self.role.name)

    @property
    def threads(self) -> bool:
        """Whether its threads do arithmetic, and not only issue work."""
        return self.role.warps == 4

    def emit(self, source: Source, scope: Mapping[str, str]) -> list[str]:
        """The function; returns names of its arguments.

        These are the names of ``scope``, variables of the kernel with their types, that it uses.
        """
        body = Source(1)
        self._body(body)
        used = body.words()
        if self.threads:
            used -= set(self.tiles.handed_over)  # it finds them itself
        arguments = [name for name in scope if name in used]
        warps = f"{self.role.warps} warp{'s' if self.role.warps > 1 else ''}"
        operations = " ".join(o.name for o in self.plan.runs[self.role.name])
        source.add("@cute.jit")
        source.call(f"def {self.name}", [f"{name}: {scope[name]}" for name in arguments], end=":")
        source.add(f'    """{warps}: {operations}."""')
        source.add(*body.lines)
        return arguments

    def _body(self, source: Source) -> None:
        if self.threads:
            source.add("thread = cute.arch.thread_idx()[0] % 128")
            self.architecture.threads.registers.declare(source, self.role.name)
        self.architecture.declare(source, self.role)
        for operation in self.plan.runs[self.role.name]:
            if operation.name in self.transfers.maps:
                self.transfers.partition(source, operation)
        self.events.begin(source, self.role)
        self.tiles.begin(source)
        body = Source(2)
        self._tile(body)
        source.lines += self.tiles.loop(body, ahead=not self.threads).lines
        if any(self._engine(o) is Engine.COPY_OUT for o in self.plan.runs[self.role.name]):
            source.comment("shared memory has to live until everything is read")
            source.add("cute.arch.cp_async_bulk_wait_group(0, read=True)")
        self.architecture.end_role(source, self.role)

    def _tile(self, source: Source) -> None:
        if self.threads:
            self.architecture.threads.registers.initialize(source, self.role.name)
            self.architecture.begin_tile(source, self.role)
        self.events.begin_tile(source, self.role)
        for step in self.role.before:
            self._step(source, step, "", "", True)
        self.events.end_section(source, self.role, "before")
        end_turn = partial(self.events.end_section, source, self.role, "loop")
        emit_loop(source, self.role, self._step, end_turn)
        for step in self.role.after:
            self._step(source, step, "", "", True)
        self.events.end_section(source, self.role, "after")

    def _engine(self, operation: Operation) -> Engine:
        return self.plan.program.operation[operation.name].engine

    def _step(self, source: Source, step: Step, i: str, c: str, runs: bool) -> None:
        """Writes a step and its events."""
        if runs:
            self.events.before(source, step)
        self._action(source, step, i, c, runs)
        if runs:
            self.events.after(source, step)

    def _action(self, source: Source, step: Step, i: str, c: str, runs: bool) -> None:
        """Writes a step, or the empty group of an operation that does not run in this turn."""
        action = step.action
        if isinstance(action, Run):
            self._run(source, self.plan.operation(action.operation), action, i, c, runs)
        elif not runs:
            return
        elif isinstance(action, Wait):
            if step.why:
                source.comment(step.why)
            if not self.barriers.meet(source, self.role, step):
                self.barriers.wait(source, action, c)
        elif isinstance(action, Arrive) and self.barriers.meet(source, self.role, step):
            return
        elif isinstance(action, Arrive):
            self.barriers.arrive(source, self.role, action, c, self._announced(step, action))
        elif isinstance(action, Drain):
            source.comment(f"{action.operation} is complete")
            self._drain(source, step, action)
        elif isinstance(action, Commit):
            at = self.barriers.at(action.barrier, action.number, c)
            self.architecture.commit(source, self.role, action, at)
        elif action.kind in self.architecture.fences:
            self.architecture.fence(source, self.role, step, action.kind)
        else:
            arch = self.plan.program.arch
            raise EmitError(f"{self.role.name}: no emitter for {action.kind} on {arch}")

    def _drain(self, source: Source, step: Step, action: Drain) -> None:
        if self.plan.program.operation[action.operation].engine is Engine.COPY_OUT:
            count = pending(self.plan, self.role, step)
            source.add(f"cute.arch.cp_async_bulk_wait_group({count}, read=True)")
        else:
            self.architecture.drain(source, self.role, step, action)

    def _run(
        self, source: Source, operation: Operation, action: Run, i: str, c: str, runs: bool
    ) -> None:
        engine = self._engine(operation)
        if runs:
            source.comment(operation.name + (f": {operation.label}" if operation.label else ""))
        if engine is Engine.COPY_IN and runs:
            assert action.barrier is not None
            assert action.number is not None
            barrier = self.barriers.at(action.barrier, action.number, c)
            access = self.plan.access(operation, "to", write=True)
            with self._conditionally(source, operation):
                self.transfers.copy(source, operation, access, i, c, barrier)
        elif engine is Engine.COPY_OUT:
            if runs:
                access = self.plan.access(operation, "from", write=False)
                with self._conditionally(source, operation):
                    self.transfers.copy(source, operation, access, i, c, "")
            source.add("cute.arch.cp_async_bulk_commit_group()")
        elif engine in (Engine.WGMMA, Engine.TENSOR):
            self.architecture.product(source, operation, i, c, runs=runs)
        elif runs:
            if not self.threads:
                raise EmitError(f"{operation.name}: {self.role.warps} warps cannot compute it")
            self.architecture.threads.call(source, self.role, operation, i, c)

    def _conditionally(self, source: Source, operation: Operation) -> AbstractContextManager[None]:
        """Lines of a copy: inside of its condition, if it has one."""
        if operation.when is None:
            return nullcontext()
        return source.block(f"if {self._condition(operation)}:")

    def _condition(self, operation: Operation) -> str:
        """Of a store: over coordinates of the tile; of a load: over scalars."""
        assert operation.when is not None
        if self._engine(operation) is Engine.COPY_OUT:
            return self.tiles.condition_of(operation.when)
        return code(operation.when, lambda name: name.name)

    def _announced(self, step: Step, action: Arrive) -> str:
        """Bytes that an arrival announces, if that depends: none for a load that is left out."""
        if not action.bytes:
            return ""
        sections = (self.role.before, self.role.loop, self.role.after)
        # arrivals for two loads may be equal, if these share a barrier and are as large
        section, at = next((s, n) for s in sections for n, one in enumerate(s) if one is step)
        mine = action.barrier, action.number, action.bytes
        for later in section[at + 1 :]:
            run = later.action
            if isinstance(run, Run) and (run.barrier, run.number, run.bytes) == mine:
                operation = self.plan.operation(run.operation)
                if operation.when is None:
                    return ""
                return f"{action.bytes} if {self._condition(operation)} else 0"
        return ""
