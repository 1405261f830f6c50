"""What differs between architectures, as far as the emission of roles and kernels has to know."""

from __future__ import annotations

from collections.abc import Mapping

from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code, Fence
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.supported import Products
from schedgen.codegen.threads import Threads
from schedgen.kernel import Operation
from schedgen.program.model import Commit, FenceKind, RoleProgram, Step, WaitGroup

KEPT = {"sm_90a": 32 << 20, "sm_100a": 80 << 20}
"""Bytes of L2 that operands which many tiles read may take, 5/8 of it: the rest is for what passes.
On an H200, attention over 16384 keys took 5 % less time when tiles of one head followed each other
than when tiles of all 16 heads did, whose keys and values do not fit (files edited by hand).
"""


class Architecture:
    """One program's kernel on one architecture.

    Attributes:
        imports: import statements of the generated file.
        library: definitions that the generated file may use.
        fences: statements for the fences of the program.
        products: what its instruction multiplies.
        threads: operations of threads.
        loosened: whether a wait was written that does not hold back what comes before it
            (`schedgen.codegen.style`).
    """

    imports: str
    library: str
    fences: Mapping[FenceKind, Code]
    products: Products
    threads: Threads
    loosened: bool = False

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    # -- a role --------------------------------------------------------------------------------

    def declare(self, source: Source, role: RoleProgram) -> None:
        """Operands of the role's products."""
        raise NotImplementedError

    def begin_tile(self, source: Source, role: RoleProgram) -> None:
        """After registers have their initial values, before the fences that a tile begins with."""

    def fence(self, source: Source, role: RoleProgram, step: Step, kind: FenceKind) -> None:
        """A fence of the program, which is ``step`` of a role."""
        source.put(Fence(kind, self.fences[kind]))

    def product(
        self, source: Source, operation: Operation, at: Iteration | None, *, runs: bool
    ) -> None:
        """Issues a product in an iteration, or what keeps count of those that do not run."""
        raise NotImplementedError

    def wait_group(self, source: Source, role: RoleProgram, step: Step, action: WaitGroup) -> None:
        """Waits for a product."""
        raise NotImplementedError

    def commit(self, source: Source, role: RoleProgram, action: Commit, at: Code) -> None:
        """One arrival at the barrier ``at`` when the products issued so far are complete."""
        raise NotImplementedError

    def finish(self, source: Source) -> None:
        """Waits for everything in the tensor queue, once, when a role leaves."""
        raise EmitError(f"there is no tensor queue on {self.plan.program.arch}")

    # -- the kernel ----------------------------------------------------------------------------

    def words(self) -> int:
        """64-bit words of shared memory that it needs after the barriers."""
        return 0

    def declare_words(self, source: Source) -> dict[str, str]:
        """Writes pointers to them; returns their names and types."""
        del source
        return {}

    def shared_memory(self, source: Source) -> None:
        """After the pointer ``shared`` to its start."""

    def initialize(self, source: Source, arrivals: int) -> None:
        """Makes the barrier of `finish`, by the thread that initializes barriers."""
        raise EmitError(f"there is no tensor queue on {self.plan.program.arch}")

    def allocate(self, source: Source, columns: int) -> None:
        """Allocates tensor memory, by one warp."""
        raise EmitError(f"there is no tensor memory on {self.plan.program.arch}")

    def free(self, source: Source, columns: int) -> None:
        """Gives it back, by one warp."""
        raise EmitError(f"there is no tensor memory on {self.plan.program.arch}")
