"""What goes wrong in calls of kernels, in the caller's words."""

from __future__ import annotations

from schedgen.errors import SchedgenError


class KernelError(SchedgenError):
    """Base class of all errors of `schedgen.kernels`."""


class _ArgumentError(KernelError):
    """An argument that a kernel cannot take.

    Attributes:
        argument: its name.
        got: what is wrong with it.
        allowed: what would be right.
        fix: what to do about it.
    """

    def __init__(self, argument: str, got: str, allowed: str, fix: str) -> None:
        super().__init__(argument, got, allowed, fix)
        self.argument, self.got, self.allowed, self.fix = argument, got, allowed, fix

    def __str__(self) -> str:
        return f"{self.argument}: {self.got}; allowed: {self.allowed}; fix: {self.fix}"


class ArgumentValueError(_ArgumentError, ValueError):
    """A tensor of a shape, layout or device, or a number, that a kernel cannot take."""


class ArgumentTypeError(_ArgumentError, TypeError):
    """A tensor of a data type that a kernel cannot take."""


class DeviceError(KernelError, RuntimeError):
    """No kernel runs on this device, or the toolchain that it needs is not installed."""


class LaunchError(KernelError, RuntimeError):
    """The CUDA driver refused to load or launch a kernel."""


class GradientError(KernelError, RuntimeError):
    """A backward pass reached a kernel that has none."""
