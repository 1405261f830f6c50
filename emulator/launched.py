"""What a launch says of its kernel: the parsed PTX, its lines, its parameters."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from schedgen.emulator.instructions.table import load
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.stacks import callers_of
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.launch import Statistics
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel, Location, Module


@dataclass
class Lines:
    """Quotes lines of PTX, with where in the CuTe DSL source they come from."""

    module: Module

    @cached_property
    def _known(self) -> dict[int, str]:
        module = self.module
        found: dict[int, str] = {}
        for kernel in module.kernels.values():
            for instruction in kernel.body:
                where = instruction.location
                text = module.lines[instruction.line - 1].strip()
                found[instruction.line] = f"{text}  [{where.file}:{where.line}]" if where else text
        return found

    @cached_property
    def _sources(self) -> dict[int, Hashable]:
        return {
            instruction.line: instruction.location or instruction.line
            for kernel in self.module.kernels.values()
            for instruction in kernel.body
        }

    def location(self, line: int) -> Location | None:
        """The place in the source of a line of PTX that has an instruction, if PTX says it."""
        found = self._sources.get(line)
        return found if isinstance(found, Location) else None

    def stack(self, line: int) -> tuple[Location, ...]:
        """The place in the source of a line of PTX, and the calls that it was inlined through,
        outwards to the kernel; as much of it as PTX or the capture says."""
        found: list[Location] = []
        at = self.location(line)
        while at is not None and at not in found:  # recursion has no end here
            found.append(at)
            at = at.caller
        return (*found, *callers_of(found[0])) if len(found) == 1 else tuple(found)

    def text(self, line: int) -> str:
        """A line of PTX without indentation."""
        return self.module.lines[line - 1].strip() if 1 <= line <= len(self.module.lines) else ""

    def source(self, line: int) -> Hashable:
        """Equal for lines of PTX that come from one line of the CuTe DSL source."""
        return self._sources.get(line, line)

    def describe(self, line: int) -> str:
        """The text of a line, and the place in the CuTe DSL source that it comes from."""
        return self._known.get(line, "")


@lru_cache(maxsize=16)
def module_of(ptx: str) -> Module:
    """The parsed text, as long as few others were parsed since."""
    return parse(ptx)


@lru_cache(maxsize=16)
def _decoded(ptx: str, kernel: str, switches: Switches) -> Decoded:
    return Decoded()


def decoded_of(launch: Launch, module: Module, kernel: Kernel, switches: Switches) -> Decoded:
    """What earlier launches of a kernel have decoded, as long as few others were since; none of
    it counts as executed yet."""
    load()
    if module is not module_of(launch.ptx):  # a mutant
        return Decoded()
    decoded = _decoded(launch.ptx, kernel.name, switches)
    decoded.held.clear()
    return decoded


def kernel_of(module: Module, launch: Launch) -> Kernel:
    """The kernel that is launched.

    Raises:
        EmulationError: it is for another architecture, or not in the module.
    """
    if module.target != launch.target.name:
        raise EmulationError(
            f"the PTX is for {module.target}, the device is {launch.target.name}; "
            "compile inside of device(...), which sets the architecture"
        )
    kernel = module.kernels.get(launch.kernel)
    if kernel is None:
        names = ", ".join(module.kernels) or "none"
        raise EmulationError(f"the PTX has no kernel '{launch.kernel}'; it has {names}")
    return kernel


def triggers(kernel: Kernel, statistics: Statistics) -> bool:
    """Whether a launch executed ``griddepcontrol.launch_dependents``."""
    return any(
        one.opcode == "griddepcontrol"
        and one.modifiers == ("launch_dependents",)
        and one.line in statistics.lines
        for one in kernel.body
    )


def parameters_of(kernel: Kernel, launch: Launch) -> bytes:
    """The parameter space: each parameter at its offset."""
    size = max((p.offset + p.size for p in kernel.parameters), default=0)
    image = bytearray(size)
    for index, parameter in enumerate(kernel.parameters):
        end = parameter.offset + parameter.size
        image[parameter.offset : end] = launch.parameter(index, parameter.size)
    return bytes(image)


def parameters_of_each(launch: Launch) -> list[bytes]:
    """The parameters of a launch, in order."""
    declared = kernel_of(module_of(launch.ptx), launch).parameters
    return [launch.parameter(index, one.size) for index, one in enumerate(declared)]
