"""Executes one launch of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from schedgen.emulator.instructions.table import Environment
from schedgen.emulator.machine.addresses import RESERVED
from schedgen.emulator.machine.heap import settled_heap
from schedgen.emulator.machine.images import Images
from schedgen.emulator.machine.lanes import LANES, EmulationError
from schedgen.emulator.machine.machine import POISON, Machine, Shape, Triple
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.machine.policies import Policy, RoundRobin
from schedgen.emulator.machine.program import Decoded, Program
from schedgen.emulator.machine.residency import Grid
from schedgen.emulator.machine.scheduler import Bounds, Scheduler
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.order.tracker import Tracker
from schedgen.emulator.ptx.tree import Kernel, Variable

LIMIT = 50_000_000
"""Warp instructions after which a kernel is taken to loop forever."""
STALL = 30.0
"""Seconds of processor time without progress (`Bounds`) after which it is, too."""
PROCESSORS = 148
"""Streaming multiprocessors of a B200, each of which holds one CTA here."""
SHARED_LIMIT = 227 * 1024
"""Bytes of shared memory that a CTA may have on sm_90 and sm_100, the system's part aside."""
_REGISTERS = 64 * 1024


@dataclass(frozen=True)
class Statistics:
    """What a launch did.

    ``instructions`` counts warp instructions, ``lines`` those per PTX line, ``operations``
    asynchronous operations; ``warnings`` are deviations from the ISA that were tolerated.
    ``executed`` are the PTX lines of synchronization that lanes executed, ``blocked`` those of
    instructions that some warp had to wait in.
    """

    instructions: int
    operations: int
    clusters: int
    warnings: tuple[str, ...] = ()
    lines: Mapping[int, int] = field(default_factory=dict[int, int])
    executed: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()


def execute(
    kernel: Kernel,
    *,
    grid: Triple,
    block: Triple,
    parameters: bytes,
    memory: HostMemory,
    cluster: Triple | None = None,
    shared_bytes: int = 0,
    target: str = "sm_100a",
    variables: tuple[Variable, ...] = (),
    policy: Policy | None = None,
    tracker: Tracker | None = None,
    switches: Switches | None = None,
    limit: int = LIMIT,
    stall: float = STALL,
    seconds: float | None = None,
    processors: int = PROCESSORS,
    registers: int | None = None,
    decoded: Decoded | None = None,
    poison: int = POISON,
    tolerated: Callable[[str], bool] | None = None,
) -> Statistics:
    """Runs all CTAs of a grid to their end.

    Args:
        kernel: what to run.
        grid: CTAs per dimension.
        block: threads per dimension.
        parameters: the parameter space, each parameter at its offset.
        memory: host memory that the kernel may access.
        cluster: CTAs per cluster and dimension; None: the kernel's ``.reqnctapercluster``, or
            none.
        shared_bytes: dynamic shared memory.
        target: architecture, as ``sm_90a``.
        variables: of the module: constants, global and shared variables.
        policy: who goes next; round-robin by default.
        tracker: race checker; None: no race detection, and nothing is spent on it.
        switches: readings of the ISA.
        limit, stall, seconds: what the launch may take (`Bounds`).
        processors: CTAs that may be resident at a time.
        registers: per thread at launch, for setmaxnreg; None: ``.maxnreg``, or what fits.
        decoded: shared with other launches of the kernel and of its mutants, one at a time.
        poison: the byte that shared and tensor memory hold at the start.
        tolerated: of the id of a rule: whether a breach is a finding where execution survives it.

    Raises:
        EmulationError: the launch is not possible, or the kernel does something undefined, is
            deadlocked, or is taken to loop forever.
    """
    threads = math.prod(block)
    shape = cluster or _declared_cluster(kernel)
    _check_launch(kernel, grid, block, shape, len(parameters))
    own = {variable.name for variable in kernel.variables}
    every = (*kernel.variables, *(v for v in variables if v.name not in own))
    layout = _Layout(every, shared_bytes)
    decoded = decoded or Decoded()
    keep = Images(memory, kernel, every, parameters, decoded.images)
    switches = switches or Switches()
    registers_each, known = _registers(kernel, threads, registers)
    symbols = {**layout.symbols, **keep.symbols}
    shared = frozenset(v.name for v in every if v.space == "shared")
    policy = policy or RoundRobin()
    machine = Machine(
        Shape(
            grid=grid,
            block=block,
            cluster=shape or (1, 1, 1),
            explicit_cluster=shape is not None,
            shared=layout.shared,
            dynamic=shared_bytes,
            local=layout.local,
            registers=registers_each,
            known_registers=known,
        ),
        memory=memory,
        policy=policy,
        tracker=tracker,
        switches=switches,
        processors=processors,
        poison=poison,
        tolerated=tolerated,
    )
    scratch = frozenset(v.name for v in every if v.space == "param")
    environment = Environment(kernel, target, switches, symbols, shared, scratch)
    program = Program(environment, decoded, policy.stops)
    running = Grid(machine, program)
    try:
        # Infinities and NaN are ordinary values of a kernel.
        with np.errstate(all="ignore"), settled_heap():
            Scheduler(running, policy, Bounds(limit, stall, seconds)).run()
    finally:
        keep.release()
        machine.release()
    lines, executed = program.executed()
    return Statistics(
        machine.executed,
        machine.operations.executed,
        running.started,
        tuple(machine.warnings),
        lines,
        executed,
        frozenset(machine.blocked),
    )


class _Layout:
    """Where ``.shared`` and ``.local`` variables lie in their windows.

    Static shared variables come first, then the dynamic part, at which all ``extern`` arrays
    begin. As in hardware, the first 1024 bytes belong to the system.
    """

    def __init__(self, variables: tuple[Variable, ...], dynamic: int) -> None:
        self.symbols: dict[str, int] = {}
        at = RESERVED
        extern = [v for v in variables if v.space == "shared" and v.size == 0]
        for variable in variables:
            if variable.space == "shared" and variable.size:
                at = _up(at, variable.align)
                self.symbols[variable.name] = at
                at += variable.size
        at = _up(at, max((v.align for v in extern), default=16))
        for variable in extern:
            self.symbols[variable.name] = at
        self.shared = at + dynamic
        if self.shared - RESERVED > SHARED_LIMIT:
            raise EmulationError(
                f"the kernel needs {self.shared - RESERVED} bytes of shared memory ({dynamic} of "
                f"them dynamic); a CTA may have {SHARED_LIMIT}"
            )
        self.local = 0
        for variable in variables:
            # What a kernel passes to functions (.param variables of its body) is local memory.
            if variable.space in ("local", "param"):
                at = _up(self.local, variable.align)
                self.symbols[variable.name] = at
                self.local = at + variable.size
        self.local = _up(self.local, 16)


def _declared_cluster(kernel: Kernel) -> Triple | None:
    shape = kernel.directives.get("reqnctapercluster")
    if not shape:
        return None
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z


def _check_launch(
    kernel: Kernel, grid: Triple, block: Triple, cluster: Triple | None, size: int
) -> None:
    threads = math.prod(block)
    if not 1 <= threads <= 1024 or min(block) < 1:
        raise EmulationError(f"block {block} has {threads} threads; allowed are 1 to 1024")
    if min(grid) < 1:
        raise EmulationError(f"grid {grid} is empty")
    required = kernel.directives.get("reqntid")
    if required and tuple((*required, 1, 1)[:3]) != block:
        raise EmulationError(f"{kernel.name} requires blocks of {required} threads, not {block}")
    most = kernel.directives.get("maxntid")
    if most and threads > math.prod(most):
        raise EmulationError(f"{kernel.name} allows {math.prod(most)} threads, not {threads}")
    if cluster is not None:
        if any(all_ % each for all_, each in zip(grid, cluster, strict=True)):
            raise EmulationError(f"grid {grid} is no multiple of the cluster {cluster}")
        if math.prod(cluster) > 16:
            raise EmulationError(f"cluster {cluster} has more than 16 CTAs")
    needed = max((p.offset + p.size for p in kernel.parameters), default=0)
    if size < needed:
        raise EmulationError(f"{kernel.name} takes {needed} bytes of parameters; got {size}")


def _registers(kernel: Kernel, threads: int, given: int | None) -> tuple[int, bool]:
    """Registers per thread at launch, and whether that is known and not just what fits."""
    if given is not None:
        return given, True
    if limit := kernel.directives.get("maxnreg"):
        return limit[0], True
    blocks = (kernel.directives.get("minnctapersm") or (1,))[0] or 1
    warps = -(-threads // LANES)
    return min(256, _REGISTERS // (warps * LANES * blocks) // 8 * 8), False


def _up(value: int, align: int) -> int:
    return -(-value // max(align, 1)) * max(align, 1)
