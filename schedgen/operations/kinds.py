"""All kinds of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field

from schedgen.kernel import Kind
from schedgen.operations.base import OperationBase
from schedgen.operations.copy import Copy
from schedgen.operations.gather import Gather
from schedgen.operations.land import Land
from schedgen.operations.load import Load
from schedgen.operations.map import Map
from schedgen.operations.mask import Mask
from schedgen.operations.mma import Mma
from schedgen.operations.reduce import Reduce
from schedgen.operations.scan import Scan
from schedgen.operations.store import Store

Operation: TypeAlias = Annotated[
    Load | Gather | Land | Store | Mma | Reduce | Scan | Map | Copy | Mask,
    Field(discriminator="kind"),
]
"""An entry of a spec file's operations."""

KINDS: Mapping[Kind, type[OperationBase]] = {
    Kind.LOAD: Load,
    Kind.GATHER: Gather,
    Kind.LAND: Land,
    Kind.STORE: Store,
    Kind.MMA: Mma,
    Kind.REDUCE: Reduce,
    Kind.SCAN: Scan,
    Kind.MAP: Map,
    Kind.COPY: Copy,
    Kind.MASK: Mask,
}
"""In the order of the documentation."""
