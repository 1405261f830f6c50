"""schedgen derives optimal software-pipelined, warp-specialized GPU kernel schedules from specs.

    from schedgen import read_spec, read_machine, solve

    solution = solve(read_spec("attention_fwd"), read_machine("b200"))
    print(solution.schedule.ii_cycles, solution.schedule.certificate.text)

Names are imported when first used, so that `import schedgen` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Kernel",
    "Machine",
    "SchedgenError",
    "Schedule",
    "SpecError",
    "derive",
    "read_machine",
    "read_schedule",
    "read_spec",
    "solve",
]

if TYPE_CHECKING:
    from schedgen.dependence import derive
    from schedgen.driver.solution import solve
    from schedgen.errors import SchedgenError, SpecError
    from schedgen.kernel import Kernel
    from schedgen.machine import Machine
    from schedgen.machine_file import read_machine
    from schedgen.schedule import Schedule, read_schedule
    from schedgen.spec.reader import read_spec

_HOMES = {
    "Kernel": "schedgen.kernel",
    "Machine": "schedgen.machine",
    "Schedule": "schedgen.schedule",
    "SchedgenError": "schedgen.errors",
    "SpecError": "schedgen.errors",
    "derive": "schedgen.dependence",
    "read_machine": "schedgen.machine_file",
    "read_schedule": "schedgen.schedule",
    "read_spec": "schedgen.spec.reader",
    "solve": "schedgen.driver.solution",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'schedgen' has no attribute '{name}'")
    return getattr(import_module(home), name)
