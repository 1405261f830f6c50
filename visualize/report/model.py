"""The data of a page: everything that it shows, ready for JSON."""

from __future__ import annotations

from typing import Any

from schedgen.schedule import Schedule
from schedgen.visualize.report import graph, memory, operations, proofs, reasons
from schedgen.visualize.report.source import Source
from schedgen.visualize.unrolled import unroll


def model(source: Source) -> dict[str, Any]:
    """What the page of ``source`` shows. Times are model cycles.

    Raises ScheduleError for a schedule that contradicts itself.
    """
    schedule, program = source.schedule, source.program
    subject = schedule or program
    assert subject is not None
    data: dict[str, Any] = {
        "kernel": subject.kernel,
        "target": subject.target,
        "arch": subject.arch,
        "ii": subject.ii_cycles,
        "missing": source.missing,
        "schedule": None,
        "ops": [],
        "edges": [],
        "loads": [],
        "cycles": [],
        "timeline": None,
        "memory": [],
        "graph": None,
        "roles": operations.roles(schedule, program),
        "pace": reasons.program_pace(program) if program else None,
        "barriers": proofs.barriers(program) if program else [],
        "removals": len(program.removals) if program else 0,
        "proofs": proofs.proofs(program) if program else None,
        "helps": reasons.helps(schedule, program, source.problem),
        "helps_tried": program is None or reasons.tried(program),
        "why": list(source.explanation),
    }
    if schedule is None:
        return data
    view = unroll(schedule, cut=True)
    return data | {
        "schedule": _schedule(schedule),
        "ops": operations.operations(schedule, program),
        "edges": operations.dependences(schedule),
        "loads": reasons.loads(schedule, program, source.problem),
        "cycles": reasons.cycles(schedule),
        "timeline": operations.timeline(view),
        "memory": memory.memory(program, view, schedule),
        "graph": graph.graph(schedule),
    }


def _schedule(schedule: Schedule) -> dict[str, Any]:
    """The figures of the header and where they come from."""
    tile, certificate = schedule.tile, schedule.certificate
    return {
        "proven": schedule.proven_optimal,
        "bound": schedule.lower_bound_cycles,
        "certificate": {
            "kind": certificate.kind,
            "text": certificate.text,
            "confirmed_by": certificate.confirmed_by,
        },
        "latencies": schedule.latencies,
        "ratios": dict(schedule.cycle_ratios),
        "stages": schedule.stages,
        "length": schedule.length_cycles,
        "trips": tile.trips,
        "period": tile.period_cycles,
        "floor": tile.floor_cycles,
        "choices": dict(schedule.choices),
        "parameters": dict(schedule.parameters),
        "objectives": [[o.name, o.value, o.proven] for o in schedule.objectives],
        "notes": list(schedule.notes),
        "spec": schedule.spec,
        "spec_sha256": schedule.spec_sha256,
        "machine_sha256": schedule.machine_sha256,
        "schedgen": schedule.schedgen,
    }
