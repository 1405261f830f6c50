"""What layouts raise."""

from schedgen.errors import SchedgenError


class LayoutError(SchedgenError):
    """A descriptor, box or shape that the ISA does not allow; says what is wrong and what is right.

    Whoever executes an instruction adds its line.
    """
