"""Schedules to draw, solved once."""

from functools import cache

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.schedule import Schedule
from schedgen.spec.reader import read_spec

SHIPPED = [
    ("attention_fwd", "b200"),
    ("attention_fwd", "h200"),
    ("fa4_unit", "abstract"),
    ("gemm", "b200"),
    ("gemm_chain", "b200"),
    ("gemm_symmetric", "h200"),
]


@cache
def solved(spec: str, target: str, *settings: str) -> Schedule:
    """The schedule of a shipped spec; ``settings`` are NAME=VALUE."""
    values = dict(text.split("=", 1) for text in settings)
    return solve(read_spec(spec), read_machine(target), settings=values).schedule
