"""A kernel's PTX becomes a program, and the program is proven.

See docs/lift.md for what is assumed and what a proof covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Instruction, Kernel
from schedgen.lift.build import Builder, Made, setup_of
from schedgen.lift.items import Item, Role, Word
from schedgen.lift.numbering import Numbering, numbered
from schedgen.lift.roles import Threads, Traces, threads_of
from schedgen.lift.rolling import Sign, Steps, agrees, rolled
from schedgen.lift.simulate import Cells, Simulation, every
from schedgen.program.model import AwaitKernel

ENOUGH = 12
"""Iterations of the tiles that steps are made of: more than pipelines need to fill and drain."""


@dataclass
class Run:
    """All roles for one trip count, which every tile has."""

    trips: int
    traces: Traces
    roles: list[Role]
    counts: dict[Word, int]
    cells: Cells


def run(threads: Threads, trips: int, tiles: int) -> Run:
    """Executes all roles.

    Raises:
        Refusal: something is not known. Hang, Miscount: the kernel is wrong.
    """
    traces = Traces(threads, (trips,) * tiles)
    roles = traces.roles()
    if not roles:
        raise Refusal("no warp waits, copies or multiplies")
    counts = _counts(traces, roles)
    cells = Cells(roles)
    Simulation(roles, counts, cells).run()
    return Run(trips, traces, roles, counts, cells)


def _counts(traces: Traces, roles: Sequence[Role]) -> dict[Word, int]:
    """What each barrier takes."""
    found: dict[Word, int] = {}
    for warp in traces.found:
        for event in traces.setup(warp):
            if event.kind != "init":
                continue
            word = "mbarrier", event.word or 0
            if word in found or event.lanes != 1:
                raise Refusal("an mbarrier is initialized more than once", event.instruction)
            found[word] = event.value or 0
    for role in roles:
        for item in every(role):
            if item.word is None or item.word[0] == "mbarrier":
                continue
            if item.word[0] == "copies":
                found[item.word] = 1
            elif item.word not in found or not role.beside:
                found[item.word] = _threads(item, traces, roles)
    return found


def _threads(item: Item, traces: Traces, roles: Sequence[Role]) -> int:
    """Threads that a numbered barrier takes; what a warp does beside its warpgroup meets as well."""
    from schedgen.lift.items import Reader

    beside = [r for r in roles if r.beside and any(i.word == item.word for i in every(r))]
    return Reader(roles[0], traces.threads.block).expected_at(item.instruction) + 32 * len(beside)


@dataclass(frozen=True)
class Lifted:
    """A program, and what it was made of."""

    made: Made
    numbering: Numbering
    steps: Mapping[str, Steps]
    checked: tuple[int, ...]


def lifted(kernel: Kernel, arch: str) -> Lifted:
    """The program of a kernel.

    Raises:
        Refusal: it cannot be lifted. Hang, Miscount: it is wrong for some trip count.
    """
    threads = threads_of(kernel)
    tiles = 3
    more, fewer = run(threads, ENOUGH + 1, tiles), run(threads, ENOUGH, tiles)
    numbering = numbered(fewer.roles, fewer.counts, fewer.cells, ENOUGH, more.roles)
    steps: dict[str, Steps] = {}
    at = min(1, len(more.roles[0].tiles) - 1)
    for role, other in zip(more.roles, fewer.roles, strict=True):
        made = rolled(
            _signs(numbering, other, ENOUGH, at),
            _signs(numbering, role, ENOUGH + 1, at),
            ENOUGH + 1,
        )
        if made is None:
            raise Refusal(
                f"{role.name} does not repeat with its iterations in one loop", _first(role)
            )
        steps[role.name] = made
    kinds = [event.kind for event in more.traces.setup(0)]
    setup = setup_of(kinds)
    if not any(isinstance(s, AwaitKernel) for s in setup):
        setup.append(AwaitKernel())
    builder = Builder(kernel.name, arch, numbering, more.counts, setup)
    made = builder.build(
        more.roles, [steps[r.name] for r in more.roles], [r.tiles[at] for r in more.roles]
    )
    checked = []
    for trips in range(1, ENOUGH + 14):
        _check(run(threads, trips, tiles), numbering, steps)
        checked.append(trips)
    return Lifted(made, numbering, steps, tuple(checked))


def _signs(numbering: Numbering, role: Role, trips: int, tile: int) -> list[Sign]:
    return [numbering.sign(item, trips, tile) for item in role.tiles[tile]]


def _check(found: Run, numbering: Numbering, steps: Mapping[str, Steps]) -> None:
    for role in found.roles:
        for tile in range(len(role.tiles)):
            signs = _signs(numbering, role, found.trips, tile)
            where = agrees(steps[role.name], signs, found.trips)
            if where is not None:
                items = role.tiles[tile]
                at = items[min(where, len(items) - 1)].instruction if items else None
                raise Refusal(
                    f"{role.name} does something else in tile {tile} of {found.trips} iterations",
                    at,
                )


def _first(role: Role) -> Instruction | None:
    return next((item.instruction for item in every(role)), None)
