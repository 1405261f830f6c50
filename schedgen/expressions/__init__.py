"""One small expression language for spec files, parsed and never ``eval``ed.

It serves two purposes with one grammar:

1. exact arithmetic over parameters, ``ceil(seq_k / tile_n)``: ``parse`` then ``evaluate``;
2. element-wise formulas over tiles, ``rS*scale - m*scale``: ``parse``, ``check_formula``, then
   ``count_operations`` for what the formula costs on each execution pipe.

``name@1`` is the value that a buffer had one loop iteration earlier. Every mistake is an
``ExpressionError`` that says which characters are wrong and, where it can, what to write instead.
"""

from schedgen.expressions.arithmetic import Value, Values, evaluate, evaluate_int
from schedgen.expressions.arrays import Array, evaluate_arrays
from schedgen.expressions.counters import counters
from schedgen.expressions.counting import OperationCounts, count_operations
from schedgen.expressions.derivatives import derivative
from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.folding import common, fold, of_this_iteration, replaced
from schedgen.expressions.formulas import check_condition, check_formula
from schedgen.expressions.functions import ELEMENTWISE, Function
from schedgen.expressions.influence import without_influence
from schedgen.expressions.nodes import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Text,
    Unary,
    references,
)
from schedgen.expressions.parsing import MAX_DEPTH, MAX_LENGTH, parse
from schedgen.expressions.rendering import render

__all__ = [
    "ELEMENTWISE",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "Array",
    "Binary",
    "Boolean",
    "Call",
    "Compare",
    "Expression",
    "ExpressionError",
    "Function",
    "Logical",
    "Name",
    "Number",
    "OperationCounts",
    "Text",
    "Unary",
    "Value",
    "Values",
    "check_condition",
    "check_formula",
    "common",
    "count_operations",
    "counters",
    "derivative",
    "evaluate",
    "evaluate_arrays",
    "evaluate_int",
    "fold",
    "of_this_iteration",
    "parse",
    "references",
    "render",
    "replaced",
    "without_influence",
]
