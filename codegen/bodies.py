"""Operations of threads as functions of the generated file.

An operation becomes a function of its operands: arrays of registers, tiles in shared memory,
columns of tensor memory. Instances that differ only in what they are called with share it.
"""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.ir import Node
from schedgen.codegen.kinds import WRITERS
from schedgen.codegen.kinds.body import Body
from schedgen.codegen.operands import Operand
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import lines_of
from schedgen.expressions import render
from schedgen.kernel import Operation


class OperationFunction:
    """The function of one operation; arguments as of `schedgen.codegen.kinds.body.Body`."""

    def __init__(
        self, plan: Plan, fragment: Fragment, operation: Operation, span: int, initial: set[str]
    ) -> None:
        self.operation = operation
        self._body = body = Body(plan, fragment, operation, span, initial)
        self.operands, self.columns = body.operands, body.columns
        writer = WRITERS.get(operation.kind)
        if writer is None:
            raise EmitError(f"{operation.name}: {operation.kind} is no operation of threads")
        where = "" if operation.when is None else f" where {render(operation.when)}"
        text = writer.text(body, operation) + where
        body.source.add(f'"""{text}."""' if len(text) < 88 else f'"""{text[:85]}..."""')
        writer.write(body, operation)

    @property
    def uses(self) -> set[str]:
        """Parameters beside operands: ``thread``, ``row_0``, scalars, extents."""
        return self._body.elements.uses

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self._body.source.nodes

    @property
    def lines(self) -> tuple[str, ...]:
        """Its lines as they stand in the function."""
        return tuple(lines_of(self.nodes, 1))

    @property
    def parameters(self) -> list[Operand]:
        """Operands, each part once."""
        return list({operand.parameter: operand for operand in self.operands.values()}.values())
