"""Element-wise formulas."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Literal

from pydantic import Field

from schedgen.kernel import Operation, Work
from schedgen.layouts import DTYPE_BITS
from schedgen.operations.base import Condition, OperationBase
from schedgen.operations.contexts import Alignment, Draft, Execution, Path, Shapes
from schedgen.operations.fields import Arithmetic, Formula, Identifier

# FMA slots of one exp2 by range reduction and a polynomial of degree 3
# (NVIDIA/cudnn-frontend pull request 1178).
POLYNOMIAL_SLOTS = Fraction(149, 20)


class Map(OperationBase):
    """Element-wise formulas; a later output may use an earlier one.

    Values are f32 and are cast to the data type of the output.
    """

    CONDITION: ClassVar[Condition] = Condition.ELEMENTS
    KEYS: ClassVar[str] = "`to`: buffer -> formula, `polynomial`"
    MEANING: ClassVar[str] = (
        "element-wise formulas, evaluated in f32 and cast to the data type of the output. Outputs "
        "are computed in order; a later formula may use an earlier output, as it is stored. "
        "`polynomial`: share of its MUFU instructions, meant for exponentials, that is computed by "
        "a polynomial on FMA units (7.45 FMA slots each)"
    )

    kind: Literal["map"]
    to: dict[Identifier, Formula] = Field(
        min_length=1,
        description="buffers that are written, by formula",
        examples=[{"sD": "alpha * acc + beta * sC"}],
    )
    polynomial: Arithmetic = Field(
        0, description="share of exp2 computed as a polynomial on FMA units", examples=["3/16"]
    )

    def note(self, draft: Draft, path: Path) -> str | None:
        for name, text in self.to.items():
            draft.output(name, text, (*path, "to", name))

    def attributes(self) -> dict[str, Any]:
        return {"polynomial": self.polynomial}

    def fits(self, shapes: Shapes) -> bool:
        return all(shapes.formula_fits(name, name, (*shapes.path, "to", name)) for name in self.to)

    def work(self, shapes: Shapes) -> Work | None:
        work = Work()
        for name in self.to:
            (rows, columns), counts = shapes.shape(name), shapes.counts(name)
            lanes = rows * columns
            if shapes.is_vector(name) or lanes == 1:
                work = replace(work, row_steps=work.row_steps + counts.row_steps)
            else:
                narrow = DTYPE_BITS[shapes.dtype(name)] < 32
                work = replace(
                    work,
                    fma=work.fma + counts.tile_fma * lanes,
                    alu=work.alu + counts.tile_alu * lanes,
                    mufu=work.mufu + counts.tile_mufu * lanes,
                    converts=work.converts + (lanes if narrow else 0),
                )
            work = replace(work, rows=max(work.rows, rows), columns=max(work.columns, columns))
        share = self._share(shapes)
        if share is None:
            return None
        emulated = ceil(work.mufu * share)
        slots = ceil(emulated * POLYNOMIAL_SLOTS)
        work = replace(work, fma=work.fma + slots, mufu=work.mufu - emulated)
        return shapes.traffic(shapes.widened(work))

    def _share(self, shapes: Shapes) -> Fraction | None:
        """The share of exp2 that FMA units compute, or None after reporting that it is wrong."""
        share: Fraction | None = shapes.share(self.polynomial, "polynomial")
        if share and not shapes.exponentials():
            message = "there is no exp2 in the formulas that a polynomial could compute"
            shapes.fail("polynomial-without-exp2", message, "polynomial", "remove it")
            return None
        return share

    @staticmethod
    def align(alignment: Alignment, operation: Operation) -> None:
        found = alignment.formulas(operation)
        alignment.computed[operation.name] = found.rows, found.columns

    @staticmethod
    def compute(execution: Execution) -> None:
        for name, formula in execution.operation.formulas:
            execution.make(name, execution.formula(formula))

    @staticmethod
    def outputs(operation: Operation) -> tuple[str, ...]:
        return tuple(name for name, _ in operation.formulas)
