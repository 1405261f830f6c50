"""Objectives of the CP-SAT model, in the order in which the search takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from schedgen.dependence import EdgeClass
from schedgen.kernel import LOADS

if TYPE_CHECKING:
    from schedgen.solver.model import ModuloModel

Linear = cp_model.LinearExpr | int


def uneven_stages(model: ModuloModel) -> Linear:
    """Pairs of buffers that the same operations wait for, but with different numbers of slots.

    With as many slots they share their barriers, so that one wait is enough for both, and the one
    with fewer decides how far loads run ahead anyhow. Products on an H200 were faster for it, or as
    fast (`benchmarks/stages.py`).
    """
    kernel, readers = model.problem.kernel, dict[frozenset[str], list[str]]()
    for load in (o for o in kernel.body if o.kind in LOADS):
        for region in dict.fromkeys(kernel.piece[piece].region for piece in load.writes):
            pieces = {p.name for p in kernel.pieces if p.region == region}
            users = {o.name for o in kernel.body if pieces & {read.piece for read in o.reads}}
            if kernel.region[region].ring is None:
                readers.setdefault(frozenset(users), []).append(region)
    total: Linear = 0
    for one, other in (pair for regions in readers.values() for pair in combinations(regions, 2)):
        uneven = model.cp.new_bool_var(f"{one} and {other} differ in slots")
        even = model.cp.add(model.depth[one] == model.depth[other])
        even.only_enforce_if(uneven.negated())
        total = total + uneven
    return total


def load_slack(model: ModuloModel) -> cp_model.IntVar:
    """Smallest slack of a value that comes from memory, up to its latency when all SMs load."""
    costs = model.problem.costs
    margins = [
        max(c.loaded - c.latency.at(model.problem.end), 0) for c in costs.values() if c.loaded
    ]
    slack = model.cp.new_int_var(0, max(margins, default=0), "slack of loads")
    for dependence in model.problem.dependences:
        edge, cost = dependence.edge, costs[dependence.edge.src]
        if cost.loaded and edge.kind in (EdgeClass.FLOW, EdgeClass.CARRIED):
            enough = max(cost.loaded - dependence.delay, 0)
            room = model.cp.new_int_var(0, model.ii * (model.stages + 64), "")
            model.cp.add(room == model.slack(dependence))
            capped = model.cp.new_int_var(0, max(margins), "")
            model.cp.add_min_equality(capped, [room, enough])
            model.cp.add(slack <= capped + (max(margins) - enough))
    return slack


def role_count(model: ModuloModel) -> Linear:
    """Roles of the main loop."""
    return sum(model.opens.values())


def synchronizations(model: ModuloModel) -> Linear:
    """Dependences between different roles that no in-order unit discharges, given the storage
    chosen.
    """
    total: Linear = 0
    seen: dict[tuple[str, str, tuple[str, ...], str], list[cp_model.IntVar | None]] = {}
    for dependence in model.problem.dependences:
        edge = dependence.edge
        if (
            edge.kind is EdgeClass.ORDER
            or model.problem.group_of[edge.src] is model.problem.group_of[edge.dst]
        ):
            continue
        one, other = model.problem.group_of[edge.src].name, model.problem.group_of[edge.dst].name
        literal = (
            None
            if edge.condition is None
            else model.option[edge.condition.choice, edge.condition.option]
        )
        seen.setdefault((one, other, edge.about, edge.kind), []).append(literal)
    for (one, other, _, _), literals in seen.items():
        need = model.cp.new_bool_var(f"synchronize {one} to {other}")
        apart = model.same_role(one, other).negated()
        for literal in dict.fromkeys(literals):
            given = [apart] if literal is None else [apart, literal]
            model.cp.add(need == 1).only_enforce_if(given)
        total = total + need
    return total


def storage_bytes(model: ModuloModel) -> Linear:
    """Bytes of shared memory, tensor memory and live registers."""
    return model.smem + 512 * model.tmem + 512 * sum(model.registers.values())


def length(model: ModuloModel) -> cp_model.IntVar:
    """Cycles from the first start to the last result of one iteration."""
    length = model.cp.new_int_var(0, model.ii * (2 * model.stages + 8), "length")
    first = model.cp.new_int_var(-model.ii * model.stages, model.ii * model.stages, "first start")
    for name in model.problem.body:
        model.cp.add(first <= model.start[name])
        model.cp.add(length >= model.start[name] + model.problem.latency(name) - first)
    return length


def total_start(model: ModuloModel) -> Linear:
    """Sum of all start times: leaves nothing to chance among equals."""
    return sum(model.start.values())


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the lexicographic objective."""

    name: str
    expression: Callable[[ModuloModel], Linear]
    largest: bool = False


# After the II itself. Each level is optimized under the values of those before it.
LEVELS = (
    Level("uneven stages", uneven_stages),
    Level("load slack", load_slack, largest=True),
    Level("roles", role_count),
    Level("synchronizations", synchronizations),
    Level("storage bytes", storage_bytes),
    Level("length", length),
    Level("total start", total_start),
)
