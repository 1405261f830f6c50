"""From winners to the file that `schedgen emit --tuned` reads."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from schedgen.driver.tuned import Tuned, TunedShape
from schedgen.tuning.choosing import Choices, candidate
from schedgen.tuning.records import Record


def tuned(record: Record, choices: Choices) -> Tuned:
    """The winners of ``record``: the one over all shapes, and each shape's own."""
    names = dict.fromkeys((choices.overall.winner, *(one.winner for one in choices.shapes)))
    number = {name: at for at, name in enumerate(names)}
    locks = [candidate(record, name).lock for name in names]
    lock = replace(locks[0], schedules=tuple(one.schedules[0] for one in locks))
    shapes = tuple(
        TunedShape(
            dict(shape),
            number[choice.winner],
            _eager(record, choice.winner, at),
            _graph(record, choice.winner, at),
            _eager(record, choices.overall.winner, at),
            _eager(record, choices.overall.before, at),
        )
        for at, (shape, choice) in enumerate(
            zip(record.prepared.shapes, choices.shapes, strict=True)
        )
    )
    return Tuned(
        record.device,
        record.software,
        record.date,
        choices.by,
        record.rounds,
        len(record.times),
        number[choices.overall.winner],
        shapes,
        lock,
    )


def _eager(record: Record, name: str, shape: int) -> float:
    return round(median(record.times[name][shape].eager), 5)


def _graph(record: Record, name: str, shape: int) -> float | None:
    found = record.times[name][shape].graph
    return round(median(found), 5) if found else None
