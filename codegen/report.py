"""What a compiled kernel takes of a GPU, and whether that is acceptable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from schedgen.codegen.compiling import Built, compile_file
from schedgen.codegen.cubin import budgets_that_spill, products_and_wait_groups, read_resources
from schedgen.codegen.facts import Facts, read_facts
from schedgen.codegen.fenced import Unfenced, unfenced

MOST_SHARED_BYTES = 232448
"""Shared memory that a block can have (CUDA C++ Programming Guide, compute capability 9 and 10)."""
MOST_TENSOR_COLUMNS = 512
SMS = {"sm_90a": 132, "sm_100a": 148}
"""SMs of the H200 and the B200, for which `compile_report` compiles."""

_BUDGET = re.compile(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Report:
    """A compiled file.

    Attributes:
        facts: what the file says about itself.
        built: what the compiler wrote.
        registers: of each thread when the kernel begins.
        budgets: registers of a thread after warpgroups exchanged them, as in the PTX, ascending.
        local_bytes: local memory of a thread, which registers are spilled to.
        serialized: whether the assembler has each product of Hopper wait for the one before, which
            halves their rate. It does so where registers are scarce, or where it cannot tell that
            accumulators are left alone until products are complete (ptxas: C7510, C7518, C7520).
        unfenced: accesses to registers of Hopper's products that no ``wgmma.fence`` orders.
        spilling: of ``budgets``, those under which registers are spilled; 0: of ``registers``.
    """

    facts: Facts
    built: Built
    registers: int
    budgets: tuple[int, ...]
    local_bytes: int
    serialized: bool = False
    unfenced: tuple[Unfenced, ...] = ()
    spilling: frozenset[int] = frozenset()

    @property
    def narrow_spills(self) -> bool:
        """Whether registers are spilled, but only under the budget of roles of single warps, which
        other roles may have, too.
        """
        narrow = [role.registers for role in self.facts.roles if role.warps < 4]
        budget = max(24, -(-max(narrow, default=0) // 8) * 8)
        return self.spilling == frozenset({budget})

    @property
    def _entry_registers(self) -> int:
        """What each thread can have as long as all have the same."""
        warps = sum(role.warps for role in self.facts.roles)
        return min(255, 65536 // (128 * -(-warps // 4))) // 8 * 8

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the kernel is not acceptable; empty if it is."""
        return tuple(text for _, text in self.problems_by_kind)

    @property
    def problems_by_kind(self) -> tuple[tuple[str, str], ...]:
        """The same with what kind each is: spills, serialized, unfenced, memory, registers."""
        facts, found = self.facts, list[tuple[str, str]]()
        if self.local_bytes:
            text = f"registers are spilled to {self.local_bytes} bytes of local memory"
            found.append(("spills", text))
        if self.serialized:
            text = (
                "products (wgmma) are serialized, each waits for the one before; fix: "
                "'schedgen emit --compile' leaves more registers"
            )
            found.append(("serialized", text))
        if self.unfenced:
            first, count = self.unfenced[0], len(self.unfenced)
            text = (
                f"{first} with no {first.missing} between them, as {count} products do; fix: "
                f"{first.fix}"
            )
            found.append(("unfenced", text))
        if facts.shared_bytes > MOST_SHARED_BYTES:
            text = f"shared memory: {facts.shared_bytes} bytes, a block has {MOST_SHARED_BYTES}"
            found.append(("memory", text))
        if facts.tensor_columns > MOST_TENSOR_COLUMNS:
            text = f"tensor memory: {facts.tensor_columns} columns, there are {MOST_TENSOR_COLUMNS}"
            found.append(("memory", text))
        given = max(role.registers for role in facts.roles)
        allowed = max(self.budgets, default=self._entry_registers)
        if given > allowed:
            text = f"registers: a role was given {given}, its code may use {allowed}"
            found.append(("registers", text))
        return tuple(found)


def compile_report(path: Path, folder: Path) -> Report:
    """Compiles the generated file ``path`` into ``folder``, without a GPU.

    Raises EmitError if it is not a generated file, CompileError if it does not compile.
    """
    facts = read_facts(path)
    built = compile_file(path, folder, sms=SMS.get(facts.target, 132))
    resources = read_resources(built.cubin)
    ptx = built.ptx.read_text("utf-8")
    budgets = tuple(sorted({int(text) for text in _BUDGET.findall(ptx)}))
    hopper = facts.target == "sm_90a"
    return Report(
        facts,
        built,
        resources.registers,
        budgets,
        resources.local_bytes,
        serialized=hopper and _serialized(ptx, built.cubin),
        unfenced=unfenced(ptx) if hopper else (),
        spilling=budgets_that_spill(built.cubin) if resources.local_bytes else frozenset(),
    )


def _serialized(ptx: str, cubin: Path) -> bool:
    written = ptx.count("wgmma.mma_async"), ptx.count("wgmma.wait_group")
    return waits_more(written, products_and_wait_groups(cubin))


def waits_more(written: tuple[int, int], found: tuple[int, int]) -> bool:
    """Whether there are products that wait beside those written to; each has products and waits.

    Loops may be unrolled, so that shares are compared. As written there is one wait for all steps
    of a product or fewer, and serialized there are as many waits as products; a share beyond the
    middle is taken to be that. Where every step is waited for as written, that cannot be told.
    """
    if not written[0] or not found[0] or written[1] >= written[0]:
        return False
    return found[1] / found[0] > (1 + written[1] / written[0]) / 2
