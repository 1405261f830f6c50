"""Kinds of operations, a module each: what a spec says of one, what fits together, how much work
that is, what it computes.

A new kind is a module here and a word in `schedgen.kernel.Kind`; a module of `codegen/kinds` if
threads execute it; its meaning for the reference, which shares no code with this one
(`schedgen.reference.evaluate`); a rule in the machine models. CONTRIBUTING.md has an example.
"""

from schedgen.operations.base import Condition, OperationBase
from schedgen.operations.copy import Copy
from schedgen.operations.gather import Gather
from schedgen.operations.kinds import KINDS, Operation
from schedgen.operations.land import Land
from schedgen.operations.load import Load
from schedgen.operations.map import Map
from schedgen.operations.mask import Mask
from schedgen.operations.mma import Mma
from schedgen.operations.reduce import Reduce
from schedgen.operations.scan import Scan
from schedgen.operations.store import Store

__all__ = [
    "KINDS",
    "Condition",
    "Copy",
    "Gather",
    "Land",
    "Load",
    "Map",
    "Mask",
    "Mma",
    "Operation",
    "OperationBase",
    "Reduce",
    "Scan",
    "Store",
]
