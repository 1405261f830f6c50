"""From an instruction to the function that executes it: the table that all families fill.

A family registers one builder per opcode::

    @builds("add", "sub")
    def _add(instruction: Instruction, decoder: Decoder, environment: Environment) -> Step:
        a = decoder.read(instruction.operands[1], "u32", instruction)
        …
        write = decoder.write(instruction.operands[0], instruction)
        return lambda warp: write(warp, a(warp) + b(warp))

The key is the beginning of the dotted name, and the longest that fits wins: ``cp.async.bulk``
goes before ``cp.async``. A builder need not look at the guard: a step is called with `warp.active`
narrowed to the lanes whose guard holds, and not at all when there are none. Instructions with
``.aligned`` or ``.sync`` are called when the lanes they need have met.

A builder that meets a modifier that it does not know raises `lanes.error`; `unsupported` is for
that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schedgen.emulator.machine.lanes import Decoder, EmulationError, error
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.ptx.tree import Instruction, Kernel


@dataclass(frozen=True)
class Environment:
    """What a builder knows of the kernel and its launch. ``target`` is as ``sm_100a``.

    ``symbols`` has the addresses of variables and parameters: an offset in its window for
    ``.shared`` and ``.local`` variables (a run-time address is that plus `Warp.shared_base`), a
    host address for all others.
    """

    kernel: Kernel
    target: str
    switches: Switches
    symbols: dict[str, int]
    shared: frozenset[str] = frozenset()
    """Names of the ``.shared`` variables."""
    scratch: frozenset[str] = frozenset()
    """Names of the ``.param`` variables in the body, which calls take; they are local memory."""

    @property
    def architecture(self) -> int:
        """90 or 100."""
        return int("".join(c for c in self.target if c.isdigit()))

    def label(self, name: str, where: Instruction) -> int:
        """The index in the kernel's body of what follows a label."""
        if name not in self.kernel.labels:
            raise error(where, f"there is no label {name}")
        return self.kernel.labels[name]


Execute = Callable[[Warp], None]
"""A step; one that asks no more of a warp than `lanes.WarpState` has fits too."""

Builder = Callable[[Instruction, Decoder, Environment], Execute | Control]

FAMILIES = (
    "control",
    "calls",
    "barriers",
    "mbarriers",
    "mbarrier_waits",
    "fences",
    "memory",
    "atomics",
    "matrices",
    "windows",
    "copies",
    "remote_stores",
    "tma",
    "tma_bulk",
    "tma_launch",
    "tma_replace",
    "wgmma",
    "tcgen05",
    "tcgen05_load",
    "tcgen05_copy",
    "tcgen05_mma",
    "mma_sync",
    "integer",
    "integer_bits",
    "integer_carry",
    "logic",
    "floating",
    "floating_approximate",
    "floating_select",
    "packed",
    "convert",
    "compare",
    "move",
    "warp_level",
)
"""Modules of this package that register builders; a new family adds its name."""

_builders: dict[str, Builder] = {}
_deepest = 0


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Registers the builder of all instructions whose dotted name begins with one of these."""

    def register(builder: Builder) -> Builder:
        global _deepest  # noqa: PLW0603 - the table is a module's
        for name in names:
            if name in _builders:
                raise AssertionError(f"{name} has two builders")
            _builders[name] = builder
            _deepest = max(_deepest, name.count(".") + 1)
        return builder

    return register


def load() -> None:
    """Imports all families."""
    for family in FAMILIES:
        importlib.import_module(f"schedgen.emulator.instructions.{family}")


def build(
    instruction: Instruction, decoder: Decoder, environment: Environment
) -> Execute | Control:
    """The step of one instruction, its guard not considered.

    Raises:
        EmulationError: nobody builds it, or not with these modifiers and operands.
    """
    parts = (instruction.opcode, *instruction.modifiers)
    for length in range(min(len(parts), _deepest), 0, -1):
        builder = _builders.get(".".join(parts[:length]))
        if builder is None:
            continue
        try:
            return builder(instruction, decoder, environment)
        except (IndexError, KeyError, ValueError) as cause:
            raise error(instruction, f"operands or modifiers not understood: {cause!r}") from cause
    raise error(
        instruction,
        "this instruction is not supported; supporting it needs a builder for "
        f"{instruction.opcode} in schedgen.emulator.instructions",
    )


def unsupported(instruction: Instruction, modifiers: Iterable[str]) -> EmulationError:
    """The error about modifiers that a builder does not know."""
    return error(instruction, f"not supported with {', '.join('.' + m for m in modifiers)}")
