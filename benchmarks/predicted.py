"""Cycles per iteration that the h200 model predicts, beside those that were measured.

    python benchmarks/predicted.py [--save]

Three tables: the constants that `schedgen calibrate` measured, beside what the model had when the
measured kernels were scheduled; the experiments of the calibration; and every shipped kernel for
Hopper. Predictions are cycles of the machine model for roles that share units *in turn* and *in
step* (`schedgen.execution.contended`); *predicted* is the middle, *with --pace* what it would be if
warpgroups were kept to their order on the tensor cores. Measured cycles come from
`results/calibration.json`, of the kernels that were scheduled by the model in it. Needs no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from report import keep, table

from schedgen.calibration.experiments import read_experiments
from schedgen.calibration.measuring import Record, read_record
from schedgen.calibration.predicting import Predicted, predicted, solved
from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.kernels.regenerate import shipped
from schedgen.machine import Machine
from schedgen.machine_file import machine_from, read_machine
from schedgen.spec.reader import Spec, read_spec
from schedgen.spec.source import parse_source
from schedgen.synchronize.build import ProgramError

NAME = "predicted"
TARGET = "h200"
PACE = ("TENSOR",)
RECORD = Path(__file__).parent / "results" / "calibration.json"
Row = dict[str, Any]


def constants(record: Record, machine: Machine) -> Iterator[Row]:
    """What was measured of the model, beside what it had before."""
    before = machine_from(parse_source(record.model, RECORD.name)).constant
    for constant in machine.constants:
        if constant.certainty == "measured":
            old = before.get(constant.name)
            yield {
                "table": "constants",
                "constant": constant.name,
                "before": _interval(old.low, old.high) if old else "",
                "measured": _interval(constant.low, constant.high),
                "unit": constant.unit,
                "by": constant.source.rpartition(": ")[2],
            }


def experiments(record: Record, machine: Machine) -> Iterator[Row]:
    """What was measured, beside what the model says of the kernels that were."""
    ran_on = machine_from(parse_source(record.model, RECORD.name))
    for one in read_experiments():
        if one.name in record.measured:
            found = predicted(solved(one, ran_on), machine)
            measured = record.measured[one.name].cycles
            yield {"table": "experiments", "experiment": one.name} | _compared(found, measured)


def kernels(record: Record, machine: Machine) -> Iterator[Row]:
    """Every shipped kernel of one data type; the others take as long."""
    known = {
        (one.spec, _own(one.read(), one.settings)): record.measured[one.name].cycles
        for one in read_experiments()
    }
    for one in shipped():
        settings = {name: value for name, value in one.settings if name != "dtype"}
        if one.target == TARGET and ("dtype", "bf16") in one.settings:
            spec = read_spec(one.spec)
            own = _own(spec, settings)
            solution = solve(spec, machine, settings=settings, advise=False)
            row: Row = {
                "table": "kernels",
                "kernel": " ".join([one.spec, *(f"{k}={v}" for k, v in own)]),
                "II": solution.schedule.ii_cycles,
            }
            measured = known.get((one.spec, own))
            if any(operation.work.apart for operation in solution.problem.kernel.body):
                measured = None  # the record is of a program that added such sums up in each turn
            row |= _compared(predicted(solution, machine), measured)
            yield row | {"with --pace": _paced(solution, machine)}


def _paced(solution: Solution, machine: Machine) -> int | str:
    """What is predicted if roles are kept to their order on the tensor cores."""
    try:
        return round(predicted(solution, machine, PACE).middle)
    except ProgramError:  # one role has them, or roles are too far apart
        return ""


def _own(spec: Spec, settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Settings other than the spec's defaults."""
    defaults = {name: str(entry.default) for name, entry in spec.file.parameters.items()}
    return tuple((name, value) for name, value in settings.items() if defaults[name] != value)


def _compared(found: Predicted, measured: float | None) -> Row:
    return {
        "measured": "" if measured is None else round(measured, 1),
        "predicted": round(found.middle),
        "off": "" if measured is None else f"{found.middle / measured - 1:+.1%}",
        "in turn": round(found.in_turn),
        "in step": round(found.in_step),
    }


def _interval(low: Any, high: Any) -> str:
    return " to ".join(dict.fromkeys(f"{float(number):.4g}" for number in (low, high)))


def main() -> None:
    record, machine = read_record(RECORD.read_text("utf-8"), RECORD.name), read_machine(TARGET)
    print(f"{record.device}, {record.date}, {record.mhz:.0f} MHz at the lowest")
    found: list[Row] = []
    for part in (constants, experiments, kernels):
        rows = list(part(record, machine))
        print("", table([{k: v for k, v in r.items() if k != "table"} for r in rows]), sep="\n")
        sys.stdout.flush()
        found += rows
    keep(NAME, [row | {"device": record.device, "measured on": record.date} for row in found])


if __name__ == "__main__":
    main()
