"""What the emitter cannot do."""

from __future__ import annotations

from schedgen.errors import SchedgenError


class EmitError(SchedgenError):
    """A program that no emitter knows how to write for its architecture."""

    status = 1
