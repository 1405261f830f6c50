"""Undetected mutants without a reason, looked at more closely.

    PYTHONPATH=benchmarks python -m emulated_mutants.rest CAPTURES [--save]

Takes those that results/emulate_mutants.json lists. Each runs, beside the kernel itself, with the
registers at launch that the emulator takes for want of better (PTX does not say them) and with
those that ptxas assigns, under three schedules: how it ends, how often warps of the kernel execute
the instruction, and how often the next one of its kind: of tests of a phase, the next one comes
where the first one was False. Needs ptxas.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from emulate_capture_file import read
from emulated_mutants.run import Campaign
from report import RESULTS, keep, table

from schedgen.benchmarks.mutants.kernels import Mutant
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Rushed

NAME = "emulate_mutants_rest"
Row = dict[str, Any]


def assigned(ptx: str, target: str) -> int:
    """Registers per thread that ptxas gives the kernels of a PTX text."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(ptx, encoding="utf-8")
        command = ["ptxas", f"-arch={target}", "-v", str(path), "-o", str(path.with_suffix(".o"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    return max(int(n) for n in re.findall(r"Used (\d+) registers", said.stdout + said.stderr))


def rows_of(campaign: Campaign, mutant: Mutant, number: int) -> Iterator[Row]:
    """How a mutant and its kernel end in one launch."""
    recording = campaign.capture.runs[number].recording
    at = mutant.place()
    early: Policy = RoundRobin() if at is None else Rushed(0, [at], always=True)
    ptxas = assigned(recording.ptx, recording.target.name)
    for registers in (None, ptxas):
        for what, rewrite in (("kernel", None), ("mutant", mutant.module)):
            for schedule, policy in (
                ("round-robin", RoundRobin()), ("early", early), ("adversarial", Adversarial(1)),
            ):  # fmt: skip
                emulator = Emulator(
                    policy, "report", campaign.capture.switches, rewrite=rewrite,
                    registers=registers,
                )  # fmt: skip
                row: Row = {
                    "kernel": campaign.capture.name, "operator": mutant.operator,
                    "line": mutant.instruction.line, "launch": number, "runs": what,
                    "registers": registers or "what fits", "schedule": schedule,
                }  # fmt: skip
                try:
                    campaign.execute(number, emulator)
                except EmulationError as error:
                    yield row | {"ends": str(error).partition(":")[0], "executed": "", "next": ""}
                    continue
                report = emulator.reports[-1]
                ends = "clean" if not report.errors else f"{len(report.errors)} findings"
                lines = report.statistics.lines
                executed = lines.get(mutant.instruction.line, 0) if what == "kernel" else ""
                yield row | {"ends": ends, "executed": executed, "next": _behind(mutant, lines)}


def _behind(mutant: Mutant, lines: Mapping[int, int]) -> int:
    """How often the next instruction of the kind was executed: a test behind a test, if False."""
    body, one = mutant.original.body, mutant.instruction
    rest = body[body.index(one) + 1 :]
    following = next((other for other in rest if other.name == one.name), None)
    return 0 if following is None else lines.get(following.line, 0)


def main() -> None:
    folder = Path(next(word for word in sys.argv[1:] if not word.startswith("--")))
    listed = json.loads((RESULTS / "emulate_mutants.json").read_text("utf-8"))["rows"]
    rest = [(row, one) for row in listed for one in row["missed"]]
    found: list[Row] = []
    for one, missed in rest:
        campaign = Campaign(read(folder, one["kernel"]))
        line = int(re.findall(r"line (\d+)", missed["where"])[0])
        mutant = next(
            m for m in campaign.mutants
            if (m.operator, m.instruction.line) == (one["operator"], line)
        )  # fmt: skip
        for number in range(len(campaign.capture.runs)):
            for row in rows_of(campaign, mutant, number):
                found.append(row)
                print(row, file=sys.stderr, flush=True)
    print(table(found))
    keep(NAME, found)


if __name__ == "__main__":
    main()
