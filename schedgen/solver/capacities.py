"""Capacity constraints of the CP-SAT model: shared memory, tensor memory, registers."""

from __future__ import annotations

from ortools.sat.python import cp_model

from schedgen.dependence import RingOption, home_choice, ring_choice
from schedgen.kernel import Region, Ring, Space
from schedgen.solver.model import ModuloModel
from schedgen.solver.problem import Group
from schedgen.solver.registers import register_tiles, streaming_registers
from schedgen.solver.storage import BARRIER_BYTES, aligned_bytes, ring_bytes, ring_columns

Linear = cp_model.LinearExpr | int


def add_shared_memory(model: ModuloModel) -> None:
    """Slots of every region and ring fit into shared memory."""
    kernel = model.problem.kernel
    parts: list[Linear] = [BARRIER_BYTES]
    for region in kernel.regions:
        if region.space is Space.SMEM and region.ring is None:
            parts.append(_own_slots(model, region, aligned_bytes(region)))
    for ring in kernel.rings:
        slot = ring_bytes(kernel, ring)
        if slot:
            parts.append(_ring_slots(model, ring, slot))
    model.smem = sum(parts)
    model.cp.add(model.smem <= model.problem.machine.smem_bytes)


def add_tensor_memory(model: ModuloModel) -> None:
    """Columns of regions with storage of their own, and of rings, fit into tensor memory."""
    kernel = model.problem.kernel
    regions = [region for region in kernel.regions if region.space is Space.TMEM]
    parts: list[Linear] = [
        _own_slots(model, region, region.tmem_columns) for region in regions if region.ring is None
    ]
    for ring in kernel.rings:
        columns = ring_columns(kernel, ring)
        if columns:
            parts.append(_ring_slots(model, ring, columns))
    model.tmem = sum(parts)
    if regions:
        model.cp.add(model.tmem <= model.problem.machine.tmem_columns)


def _ring_slots(model: ModuloModel, ring: Ring, size: int) -> Linear:
    """``size`` times the slots of ``ring``; a ring filled once per tile counts with its fewest."""
    choice = model.problem.graph.choice.get(ring_choice(ring))
    if choice is None:
        return size * ring.depth.low
    total: Linear = 0
    for number, option in enumerate(choice.options):
        assert isinstance(option, RingOption)
        total = total + size * option.depth * model.option[choice.name, number]
    return total


def _own_slots(model: ModuloModel, region: Region, size: int) -> Linear:
    """``size`` times the slots that ``region`` has of its own: none while it lives in a host."""
    own = [n for n, option in enumerate(region.options) if option.host is None]
    if not own:
        return 0
    if len(region.options) == 1:
        return size * model.depth[region.name]
    slots = model.cp.new_int_var(0, region.depth.high, f"own slots of {region.name}")
    literal = model.option[home_choice(region), own[0]]
    model.cp.add(slots == model.depth[region.name]).only_enforce_if(literal)
    return size * slots


def add_registers(model: ModuloModel) -> None:
    """Tiles in registers, addresses and temporaries of each warpgroup fit into the register file.

    Every piece counts for the whole iteration, whatever its live range: a tile keeps its registers.
    """
    machine, groups = model.problem.machine, _warpgroups(model)
    budgets: list[Linear] = []
    for group in groups:
        tiles: Linear = sum(
            size * model.depth[region] for region, size in register_tiles(model.problem, group)
        )
        model.registers[group.name] = tiles
        blocks = model.cp.new_int_var(0, machine.max_registers // 8, f"registers {group.name}")
        model.cp.add(8 * blocks >= tiles + _temporaries(model, group))
        budgets.append(8 * blocks)
    for group in groups:
        _limit_role(model, group, groups)
    narrow = [g.role_class.registers for g in model.problem.body_groups if _narrow(g)]
    if budgets:
        reserve = -(-max(narrow, default=0) // 8) * 8
        model.cp.add(sum(budgets) + reserve <= machine.registers_per_thread_sum)
        roles = sum(model.opens[group.name] for group in groups)
        model.cp.add(roles + -(-len(narrow) // 4) <= machine.warpgroups)


def _narrow(group: Group) -> bool:
    return group.role_class.issues_ahead


def _warpgroups(model: ModuloModel) -> list[Group]:
    return [g for g in model.problem.body_groups if not (_narrow(g) or g.role_class.per_unit)]


def _limit_role(model: ModuloModel, group: Group, groups: list[Group]) -> None:
    """A thread of the role that ``group`` is in has room for everything that this role keeps."""
    limit = model.problem.machine.max_registers
    total: Linear = model.registers[group.name] + group.role_class.registers
    streaming = model.cp.new_int_var(0, limit, f"streaming registers of {group.name}'s role")
    model.cp.add(streaming >= streaming_registers(model.problem, group))
    for other in groups:
        literal = model.known(group.name, other.name)
        if literal is None or other.name == group.name:
            continue
        extra = model.cp.new_int_var(0, limit, f"registers of {other.name} beside {group.name}")
        model.cp.add(extra >= model.registers[other.name]).only_enforce_if(literal)
        need = streaming_registers(model.problem, other)
        model.cp.add(streaming >= need).only_enforce_if(literal)
        total = total + extra
    model.cp.add(total + streaming <= limit)


def _temporaries(model: ModuloModel, group: Group) -> Linear:
    """Addresses once per role, and room for a streaming tile unless a role mate has it."""
    need = streaming_registers(model.problem, group)
    overhead = group.role_class.registers * model.opens[group.name]
    if not need:
        return overhead
    lone = model.cp.new_bool_var(f"{group.name} streams alone")
    mates = [
        model.same[a.name, b.name]
        for a, b in model.mergeable
        if b.name == group.name and streaming_registers(model.problem, a) >= need
    ]
    model.cp.add_bool_or([lone, *mates])
    return overhead + need * lone
