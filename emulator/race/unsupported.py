"""Which instructions of a module the emulator does not know, without executing any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.emulator.instructions.table import Environment
from schedgen.emulator.launched import Lines
from schedgen.emulator.machine.program import Program
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.tree import Kernel, Module
from schedgen.emulator.race.places import Place


@dataclass(frozen=True)
class Unsupported:
    """An instruction that cannot be executed, at its first place in a kernel.

    Attributes:
        kernel: its name.
        instruction: opcode and modifiers.
        place: where it stands.
        times: how many there are in the kernel.
        why: what supporting it needs.
    """

    kernel: str
    instruction: str
    place: Place
    times: int
    why: str


def unsupported(module: Module) -> tuple[Unsupported, ...]:
    """Return what of a module's kernels the emulator cannot execute, in the order of the text."""
    return tuple(one for kernel in module.kernels.values() for one in _of(module, kernel))


def _of(module: Module, kernel: Kernel) -> Iterator[Unsupported]:
    every = (*kernel.variables, *module.variables)
    environment = Environment(
        kernel,
        module.target,
        Switches(),
        _Somewhere(),
        frozenset(one.name for one in every if one.space == "shared"),
        frozenset(one.name for one in every if one.space == "param"),
    )
    lines = Lines(module)
    counts: dict[tuple[str, str], list[int]] = {}
    for instruction, error in Program(environment).problems():
        why = str(error).partition(": ")[2] or str(error)
        counts.setdefault((instruction.name, why), []).append(instruction.line)
    for (name, why), at in counts.items():
        yield Unsupported(kernel.name, name, Place.at(lines, at[0]), len(at), why)


class _Somewhere(dict[str, int]):
    """An address for every variable: which one it is makes no difference to what is known."""

    def __missing__(self, name: str) -> int:
        return 0
