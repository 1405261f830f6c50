"""Products on Hopper: wgmma of one warpgroup, 64 rows at a time."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragments import ROWS, Fragments
from schedgen.codegen.plan import DTYPES, Part, Plan, View, number
from schedgen.codegen.source import Source
from schedgen.kernel import DTYPE_BITS, Kind, Operation, Space
from schedgen.program.model import Drain, Engine, RoleProgram, Run, Step

_K_BYTES = 32
"""Bytes of a row that one instruction multiplies."""


class Products:
    """The products of one role."""

    def __init__(self, plan: Plan, fragments: Fragments) -> None:
        self.plan, self.fragments = plan, fragments

    def declare(self, source: Source, role: str) -> None:
        """``mma_X``, and ``a_X``, ``b_X``, ``d_X``: the operands as the instruction wants them."""
        for operation in self.plan.runs[role]:
            if operation.kind is Kind.MMA:
                self._declare(source, operation)

    def _name(self, operation: Operation) -> str:
        return self.plan.names.of("operation", operation.name)

    def _declare(self, source: Source, operation: Operation) -> None:
        name = self._name(operation)
        a, b, d = (self.plan.part(operation, operand) for operand in "abd")
        columns = b.rows if operation.transpose_b else b.columns
        if a.rows != ROWS or d.rows != ROWS or columns != d.columns:
            raise EmitError(f"{operation.name}: wgmma multiplies {ROWS} rows, not {a.rows}")
        if d.region.space is not Space.REGISTERS or d.region.dtype != "f32":
            raise EmitError(f"{operation.name}: wgmma accumulates in float32 registers")
        major = "K" if operation.transpose_b else "MN"
        in_registers = a.region.space is Space.REGISTERS
        source.add(
            f"mma_{name} = sm90_utils.make_trivial_tiled_mma(",
            f"    {DTYPES[a.region.dtype]}, {DTYPES[b.region.dtype]}, "
            f"warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.{major},",
            f"    Float32, (1, 1, 1), ({ROWS}, {columns}), "
            f"warpgroup.OperandSource.{'RMEM' if in_registers else 'SMEM'},",
            ")",
        )
        if in_registers:
            steps = self._steps(operation)
            registers = f"{self.fragments.name(a.region)}.iterator"
            offset = self.fragments.offset(a)
            layout = f"((2, 2, 2), 1, {steps}), stride=((1, 2, 4), 0, 8)"
            source.add(
                f"a_{name} = cute.make_tensor({registers} + {offset}, cute.make_layout({layout}))"
            )
        else:
            source.add(
                f"a_{name} = mma_{name}.make_fragment_A("
                f"mma_{name}.get_slice(0).partition_A({self._matrix(a)}))"
            )
        tile = self._matrix(b, transposed=not operation.transpose_b)
        source.add(
            f"b_{name} = mma_{name}.make_fragment_B(mma_{name}.get_slice(0).partition_B({tile}))"
        )
        registers = f"{self.fragments.name(d.region)}.iterator + {self.fragments.offset(d)}"
        layout = f"((2, 2, {columns // 8}), 1, 1)"
        source.add(f"d_{name} = cute.make_tensor({registers}, cute.make_layout({layout}))")

    def _matrix(self, part: Part, *, transposed: bool = False) -> str:
        """A part of a view as (rows, columns, slots), or with rows and columns exchanged."""
        view: View = self.plan.views[part.region.name]
        text = view.name
        if (part.rows, part.columns) != (view.rows, view.columns):
            if part.row0 % part.rows or part.column0 % part.columns:
                raise EmitError(f"part of '{part.region.name}' begins between tiles of its size")
            at = f"({part.row0 // part.rows}, {part.column0 // part.columns}, 0)"
            text = f"cute.local_tile({text}, ({part.rows}, {part.columns}, {view.slots}), {at})"
        return f"transposed({text})" if transposed else text

    def _steps(self, operation: Operation) -> int:
        a = self.plan.part(operation, "a")
        return a.columns * DTYPE_BITS[a.region.dtype] // 8 // _K_BYTES

    def run(self, source: Source, operation: Operation, c: str) -> None:
        """All steps along k; the group is committed by `commit`."""
        name, steps = self._name(operation), self._steps(operation)
        a, b = (self._slot(operation, operand, c) for operand in "ab")
        with source.block(f"for k_step in cutlass.range_constexpr({steps}):"):
            clear = "True" if operation.accumulate else "k_step != 0"
            source.add(f"mma_{name}.set(warpgroup.Field.ACCUMULATE, {clear})")
            left = f"a_{name}[(None, None, k_step{a})]"
            right = f"b_{name}[(None, None, k_step{b})]"
            source.add(f"cute.gemm(mma_{name}, d_{name}, {left}, {right}, d_{name})")

    def _slot(self, operation: Operation, operand: str, c: str) -> str:
        access = self.plan.access(operation, operand, write=False)
        if self.plan.program.store[access.store].space is not Space.SMEM:
            return ""
        slots = self.plan.slots(access)
        return f", slot({number(access.version, slots, c)}, {slots})" if slots > 1 else ", 0"


def pending(plan: Plan, role: RoleProgram, drain: Step) -> int:
    """How many later groups may be unfinished when a drain is over.

    Each operation of an engine is a group, and in turns in which it does not run an empty one is
    committed in its place, so that the number is the same in all turns. A drain outside of the loop
    of what ran in it waits for everything.
    """
    assert isinstance(drain.action, Drain)
    target = drain.action.operation
    engine = plan.program.operation[target].engine
    section = next(s for s in (role.before, role.loop, role.after) if drain in s)
    groups = [place for place, step in enumerate(section) if _issues(plan, step, engine)]
    mine = [p for p in groups if _operation(section[p]) == target]
    if not mine:
        return 0
    place, at = mine[0], section.index(drain)
    if section is not role.loop:
        return sum(1 for p in groups if place < p < at)
    turns = drain.shift + drain.action.lag - section[place].shift
    return (
        turns * len(groups)
        - sum(1 for p in groups if p <= place)
        + sum(1 for p in groups if p < at)
    )


def _operation(step: Step) -> str:
    return step.action.operation if isinstance(step.action, Run) else ""


def _issues(plan: Plan, step: Step, engine: Engine) -> bool:
    name = _operation(step)
    return bool(name) and plan.program.operation[name].engine is engine
