"""Registers of a role: what its tiles take, and what a thread needs beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schedgen.kernel import Space
from schedgen.solver.problem import Group, Problem

# Bytes of one register in every thread of a warpgroup.
_BYTES_PER_REGISTER = 4 * 128


def register_tiles(problem: Problem, group: Group) -> list[tuple[str, int]]:
    """Regions in registers that ``group`` uses in the main loop, registers of one slot of each; of
    those that take turns in a ring, which has one slot, the largest.
    """
    largest: dict[str, tuple[str, int]] = {}
    for name, size in _tiles(problem, problem.in_body(group)).items():
        ring = problem.kernel.region[name].ring
        key = name if ring is None else f"ring {ring}"
        largest[key] = max(largest.get(key, (name, 0)), (name, size), key=lambda one: one[1])
    return list(largest.values())


def _tiles(problem: Problem, names: Iterable[str]) -> dict[str, int]:
    """Registers per thread of one slot of each region in use that has storage of its own; pieces
    are rounded up one by one.
    """
    kernel = problem.kernel
    used: set[str] = set()
    for name in names:
        operation = kernel.operation[name]
        used.update(operation.writes, (read.piece for read in operation.reads))
    sizes: dict[str, int] = {}
    for piece in kernel.pieces:
        region = kernel.region_of(piece.name)
        if region.space is Space.REGISTERS and piece.name in used and not region.guest:
            sizes[region.name] = sizes.get(region.name, 0) + max(
                1, -(-piece.bytes // _BYTES_PER_REGISTER)
            )
    return sizes


def streaming_registers(problem: Problem, group: Group) -> int:
    """Registers for a tile that an operation of ``group`` passes through in chunks."""
    return max((problem.costs[name].registers for name in problem.in_body(group)), default=0)


def role_registers(
    problem: Problem, role: Mapping[str, str], depth: Mapping[str, int]
) -> dict[str, int]:
    """Registers per thread that each role needs for the operations that ``role`` maps to it, in
    steps of 8.
    """
    needs: dict[str, int] = {}
    for name in dict.fromkeys(role.values()):
        members = [operation for operation, owner in role.items() if owner == name]
        ring_of = {r: ring for ring in problem.kernel.rings for r in ring.regions}
        tiles: dict[str, int] = {}
        for region, size in _tiles(problem, members).items():
            ring = ring_of.get(region)
            # Regions of one ring take turns in its slots.
            key, slots = (
                (region, depth.get(region, 1)) if ring is None else (ring.name, ring.depth.low)
            )
            tiles[key] = max(tiles.get(key, 0), size * slots)
        streaming = max((problem.costs[member].registers for member in members), default=0)
        beside = problem.machine.role[problem.costs[members[0]].role].registers
        needs[name] = max(24, -(-(sum(tiles.values()) + streaming + beside) // 8) * 8)
    return needs
