"""What capturing a launch raises."""

from schedgen.errors import SchedgenError


class LaunchError(SchedgenError):
    """A call of a compiled function that cannot be captured, or a launch that CUDA would refuse."""
