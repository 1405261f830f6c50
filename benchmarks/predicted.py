"""Cycles that the h200 model predicts, of iterations and of whole launches, beside those measured.

    python benchmarks/predicted.py [--save] [TABLE ...]
    python benchmarks/predicted.py [--save] --kernel SPEC ...      # *kernels* of these specs

Eight tables: the *constants* that `schedgen calibrate` measured, beside what the model had when the
measured kernels were scheduled; the *experiments* of the calibration about iterations, and those
about *launches*; *waits*, arrivals, orders of pace and sums on an H100; *streams* of loads, narrow
products and reads of shared memory (`streams.yaml`); *code*: experiments about iterations by the
machine code of their kernels; every shipped Hopper kernel (*kernels*), by its machine code and by
its program alone; and *orders*: what is lost if tiles of products are chosen by what `schedgen
tune` estimates, for the times that `choices.py` measured.
Predictions are cycles of the machine model for roles that share units *in turn* and *in step*
(`schedgen.execution.contended`); *predicted* lies a third of the way from one to the other. *By
machine code*: roles execute what the assembler wrote (`schedgen.cycles`), for which kernels are
compiled; that of all shipped ones takes a quarter of an hour on two cores.
Measured cycles come from `results/calibration.json` and `results/launches.json`, of the kernels
that were scheduled by the models in them, and those of shipped kernels from `results/shipped.json`
and, for kernels that they have, `results/shipped_wide.json` and `results/shipped_ordered.json`,
which `schedgen calibrate --only kernels --keep` writes. These are of parts of its list: kernels
that changed since and those whose tiles are 32 or 64 columns of matrices of 4096, and gradients
that are added in turns. Needs no GPU, but the assembler that made what was measured, CUDA 13's
(`nvidia-cutlass-dsl-libs-cu13` in place of `-cu12`), since machine code differs. Tables that are
not named stay as they are in what is saved.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import assembled
import choices
from report import RESULTS, keep, table

from schedgen.calibration.experiments import read_experiments
from schedgen.calibration.measuring import Record, read_record
from schedgen.calibration.predicting import Predicted, of_program, said, solved
from schedgen.calibration.shipped import program_of_lock, shipped_experiments
from schedgen.driver.solution import solve
from schedgen.execution.launched import BUSY, FAR, SHARED
from schedgen.kernel import Kernel
from schedgen.kernels import tiling
from schedgen.machine import Machine
from schedgen.machine_constants import with_constants
from schedgen.machine_file import machine_from, read_machine
from schedgen.spec.reader import read_spec
from schedgen.spec.source import parse_source
from schedgen.synchronize.synthesize import synthesize
from schedgen.tuning.estimating import Pace, cycles, paced
from schedgen.tuning.shapes import complete

NAME = "predicted"
TARGET = "h200"
RECORD, LAUNCHES = RESULTS / "calibration.json", RESULTS / "launches.json"
KERNELS = tuple(RESULTS / f"shipped{part}.json" for part in ("", "_wide", "_ordered"))
"""Of shipped kernels; of one that several have, the last."""
BARRIERS, STREAMS = RESULTS / "barriers.json", RESULTS / "streams.json"
LONGER = {"wait": Fraction(80), "handoff": Fraction(6)}
"""Cycles with which experiments on waits agree within 2 %, and other kernels do not
(docs/calibration.md): the model keeps its own."""
Row = dict[str, Any]


def constants(record: Record, machine: Machine) -> Iterator[Row]:
    """What was measured of the model, beside what it had before."""
    before = ran_on(record).constant
    launches = ran_on(recorded(LAUNCHES)).constant
    for constant in machine.constants:
        if constant.certainty == "measured":
            there = launches if constant.name in (*SHARED, FAR, BUSY) else before
            old = there.get(constant.name)
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
    for one in read_experiments(about="iterations"):
        if one.name in record.measured:
            found = said(one, solved(one, ran_on(record)), machine)
            measured = record.measured[one.name].cycles
            yield {"table": "experiments", "experiment": one.name} | _compared(found, measured)


def waits(record: Record, machine: Machine) -> Iterator[Row]:
    """What waits, arrivals, orders of pace and sums take, and what the model says with `LONGER`
    waits.
    """
    del record
    there = recorded(BARRIERS)
    longer = with_constants(machine, LONGER)
    for one in read_experiments(about="iterations"):
        if one.name in there.measured:
            solution = solved(one, ran_on(there))
            row: Row = {"table": "waits", "experiment": one.name}
            row |= _compared(said(one, solution, machine), there.measured[one.name].cycles)
            yield row | {"with longer waits": round(said(one, solution, longer).expected)}


def streams(record: Record, machine: Machine) -> Iterator[Row]:
    """The same of loads that follow each other, and of what bounds narrow tiles beside them."""
    del record
    there = recorded(STREAMS)
    for one in read_experiments(Path(__file__).with_name("streams.yaml")):
        if one.name in there.measured:
            found = said(one, solved(one, ran_on(there)), machine)
            row: Row = {"table": "streams", "experiment": one.name}
            yield row | _compared(found, there.measured[one.name].cycles)


def launches(record: Record, machine: Machine) -> Iterator[Row]:
    """The same of whole launches, and of what surrounds main loops."""
    del record
    there = recorded(LAUNCHES)
    for one in read_experiments(about="launches"):
        if one.name in there.measured:
            found = said(one, solved(one, ran_on(there)), machine)
            measured = there.measured[one.name]
            row: Row = {"table": "launches", "experiment": one.name, "of": one.per}
            yield row | _compared(found, measured.cycles) | {"MHz": round(measured.mhz)}


def orders(record: Record, machine: Machine) -> Iterator[Row]:
    """What the tile that is first in an order takes longer than the best one."""
    del record
    without = replace(
        machine, constants=tuple(c for c in machine.constants if c.name not in SHARED)
    )
    found: dict[Any, tuple[Kernel, Pace]] = {}
    lost: dict[str, list[float]] = {}
    for (one, (batch, m, n, k), added), ways in choices.kept().items():
        measured = ways["graph"]
        guesses: dict[str, dict[tiling.Tile, float]] = {}
        for tile in measured:
            settings = {name: v for name, v in one.settings(tile).items() if name != "dtype"}
            key = one.spec, tuple(settings.items())
            if key not in found:
                solution = solve(read_spec(one.spec), machine, settings=settings, advise=False)
                kernel, schedule = solution.problem.kernel, solution.schedule
                found[key] = kernel, paced(schedule, synthesize(kernel, schedule, machine))
            kernel, pace = found[key]
            extents = {extent for argument in kernel.arguments for extent in argument.shape}
            sizes = {"batch": batch, "m": m, "n": n, "k": k}
            shape = complete(kernel, {e: float(s) for e, s in sizes.items() if e in extents})
            for by, model in (("this model", machine), ("a model of one SM", without)):
                guesses.setdefault(by, {})[tile] = cycles(kernel, pace, shape, model, choices.SMS)
            guess = tiling.cycles(one, (batch, m, n, k), choices.SMS, tile, addend=added)
            guesses.setdefault("schedgen.kernels.tiling", {})[tile] = guess
        for by, each in guesses.items():
            chosen = min(each, key=each.__getitem__)
            lost.setdefault(by, []).append(measured[chosen] / min(measured.values()) - 1)
    for by, losses in lost.items():
        yield {
            "table": "orders",
            "chosen by": by,
            "products": len(losses),
            "lost on average": f"{fmean(losses):.1%}",
            "at most": f"{max(losses):.1%}",
        }


def kernels(record: Record, machine: Machine, specs: Collection[str] = ()) -> Iterator[Row]:
    """Every shipped kernel, or those of ``specs``, of data types of the same speed one."""
    del record
    longer = with_constants(machine, LONGER)
    every = [one for one in shipped_experiments(TARGET) if not specs or one.spec in specs]
    by_code = assembled.iterations(assembled.shipped(every, machine), machine)
    for one in every:
        program, kernel = program_of_lock(one, machine)
        there = record_of(one.name)
        cycles = there.measured[one.name].cycles if one.name in there.measured else None
        row: Row = {"table": "kernels", "kernel": one.name, "II": program.ii_cycles}
        row |= {"with longer waits": round(of_program(program, kernel, longer).expected)}
        row |= _of_code(by_code.get(one.name), cycles)
        yield row | _compared(of_program(program, kernel, machine), cycles)


def code(record: Record, machine: Machine) -> Iterator[Row]:
    """Experiments about iterations by the machine code of the kernels that were measured."""
    sources = (
        (read_experiments(about="iterations"), record),
        (read_experiments(about="iterations"), recorded(BARRIERS)),
        (read_experiments(Path(__file__).with_name("streams.yaml")), recorded(STREAMS)),
    )
    done: set[str] = set()
    for every, there in sources:
        chosen = [one for one in every if one.name in there.measured and one.name not in done]
        done |= {one.name for one in chosen}
        tasks = assembled.emitted(chosen, ran_on(there), machine)
        found = assembled.iterations(tasks, machine)
        for one in chosen:
            cycles = there.measured[one.name].cycles
            row: Row = {"table": "code", "device": there.device, "measured on": there.date}
            row |= {"experiment": one.name, "measured": round(cycles, 1)}
            yield row | _of_code(found.get(one.name), cycles)


def _compared(found: Predicted, measured: float | None) -> Row:
    return {
        "measured": "" if measured is None else round(measured, 1),
        "predicted": round(found.expected),
        "off": "" if measured is None else f"{found.expected / measured - 1:+.1%}",
        "in turn": round(found.in_turn),
        "in step": round(found.in_step),
    }


def _of_code(found: float | None, measured: float | None) -> Row:
    """Cycles by machine code, and how far they are off."""
    off = "" if found is None or measured is None else f"{found / measured - 1:+.1%}"
    return {"by machine code": "" if found is None else round(found), "code off": off}


def _interval(low: Any, high: Any) -> str:
    return " to ".join(dict.fromkeys(f"{float(number):.4g}" for number in (low, high)))


@cache
def recorded(path: Path) -> Record:
    return read_record(path.read_text("utf-8"), path.name)


def record_of(kernel: str) -> Record:
    """The latest record that has a shipped kernel, or else the first."""
    records = [recorded(path) for path in KERNELS]
    return next((one for one in reversed(records) if kernel in one.measured), records[0])


def ran_on(record: Record) -> Machine:
    """The model by which the kernels of ``record`` were scheduled."""
    return machine_from(parse_source(record.model, "the model of a record"))


def when(record: Record, row: Row) -> Row:
    """Where and when what is in a row was measured."""
    if row["table"] == "orders":
        where = json.loads((RESULTS / f"{choices.NAME}.json").read_text("utf-8"))["environment"]
        return {"device": where["gpu"], "measured on": where["date"]}
    if row["table"] == "launches" or row.get("constant") in (*SHARED, FAR, BUSY):
        source = recorded(LAUNCHES)
    else:
        path = {"waits": BARRIERS, "streams": STREAMS}.get(row["table"])
        source = record if path is None else recorded(path)
    if row["table"] == "kernels":
        source = record_of(row["kernel"])
    return {"device": source.device, "measured on": source.date}


def some_kernels(
    there: list[Row], specs: Collection[str], record: Record, machine: Machine
) -> None:
    """Puts the kernels of ``specs`` into the rows of all tables, in place of those of before."""
    made: dict[str, list[Row]] = {}
    for row in kernels(record, machine, specs):
        made.setdefault(row["kernel"].split()[0], []).append(when(record, row) | row)
    every = [row for rows in made.values() for row in rows]
    print(table([{k: v for k, v in row.items() if k != "table"} for row in every]))
    found: list[Row] = []
    for row in there:
        spec = row["kernel"].split()[0] if row["table"] == "kernels" else ""
        found += made.pop(spec, []) if spec in specs else [row]
    keep(NAME, found)


def main() -> None:
    wanted = [word for word in sys.argv[1:] if word != "--save"]
    record, machine = recorded(RECORD), read_machine(TARGET)
    there: list[Row] = json.loads((RESULTS / f"{NAME}.json").read_text("utf-8"))["rows"]
    if wanted[:1] == ["--kernel"]:
        some_kernels(there, wanted[1:], record, machine)
        return
    print(f"{record.device}, {record.date}, {record.mhz:.0f} MHz at the lowest")
    found: list[Row] = []
    for part in (constants, experiments, waits, streams, code, launches, kernels, orders):
        name = part.__name__
        if wanted and name not in wanted:
            found += [row for row in there if row["table"] == name]
            continue
        rows = list(part(record, machine))
        print("", table([{k: v for k, v in r.items() if k != "table"} for r in rows]), sep="\n")
        sys.stdout.flush()
        found += [when(record, row) | row for row in rows]
    keep(NAME, found)


if __name__ == "__main__":
    main()
