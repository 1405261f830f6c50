"""`attention_fwd` for each head dimension: its schedule, what the compiler makes of it, whether
that is its program, and what the emulator says of it at small extents. No GPU is needed.

    python benchmarks/head_dims.py [--save] [HEAD_DIM[/HEAD_DIM_V] ...]

Cycles are those of the machine model, not measured ones.
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from report import keep, table

from schedgen.driver.emitting import Emission
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import default_extents
from schedgen.driver.selecting import Attempt, compiled_emission
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

DIMS = ("32", "96", "160", "192", "224", "256", "192/128")
"""Of q and k, or of q and k / v; 64 and 128 are in the tables of kernels."""
TARGETS = ("h200", "b200")
COLUMNS = (
    *("tile", "II", "bound", "proven", "certificate", "K and V slots", "O over Q", "registers"),
    *("spilled", "shared bytes", "tensor columns", "conform", "correct", "clean", "of bound"),
)
"""What rows have beside the case, and a problem."""
PROCESSES = 2


def row(case: tuple[str, str, bool]) -> dict[str, object]:
    """One kernel in bf16: of q and k / v, for a target, with the causal mask or without."""
    dims, target, causal = case
    head_dim, _, head_dim_v = dims.partition("/")
    settings = {"head_dim": head_dim} | ({"head_dim_v": head_dim_v} if head_dim_v else {})
    settings |= {"causal": "true"} if causal else {}
    found: dict[str, object] = {"head_dim": dims, "target": target, "causal": causal}
    try:
        return found | _measured(settings, target) | {"problem": ""}
    except SchedgenError as error:  # what is said of the first attempt, if there were several
        said = re.search(r"\(([^,)]*)", str(error).splitlines()[0])
        problem = said[1] if said else str(error).splitlines()[0]
        return found | dict.fromkeys(COLUMNS, "") | {"problem": problem}


def _measured(settings: dict[str, str], target: str) -> dict[str, object]:
    machine, spec = read_machine(target), read_spec("attention_fwd")
    emitted, attempts = compiled_emission(spec, machine, settings, conform=True)
    kernel = emitted.solution.problem.kernel
    taken = next(one for one in attempts if one.chosen)
    return made_of(emitted, taken) | executed(emitted.text, kernel, machine.arch)


def made_of(emitted: Emission, attempt: Attempt) -> dict[str, object]:
    """What solver and compiler say of a kernel."""
    schedule, report = emitted.solution.schedule, attempt.report
    values = dict(emitted.solution.problem.kernel.parameters)
    ring = next(b for b in schedule.buffers if b.name == "sK")
    return {
        "tile": f"{values['tiles']} x {values['rows']} x {values['keys']}",
        "II": schedule.ii_cycles,
        "bound": schedule.lower_bound_cycles,
        "proven": schedule.proven_optimal,
        "certificate": schedule.certificate.kind,
        "K and V slots": ring.depth,
        "O over Q": values["over_q"] == "true",
        "registers": max(role.registers for role in emitted.proven.program.roles),
        "spilled": report.local_bytes,
        "shared bytes": report.facts.shared_bytes,
        "tensor columns": report.facts.tensor_columns,
        "conform": attempt.differences == (),
    }


def executed(text: str, kernel: Kernel, arch: str) -> dict[str, object]:
    """What the emulator says of a generated file; the largest error is in parts of its bound."""
    sizes = default_extents(kernel, {})
    if dict(kernel.parameters)["causal"] == "true":  # each row has to see a key
        sizes["seq_k"] = max(sizes["seq_q"], sizes["seq_k"])
    with compiled(text, kernel, arch) as made:
        outcome = made.run(sizes)
    worst = max(result.ratio for result in outcome.results.values())
    return {"correct": outcome.correct, "clean": outcome.clean, "of bound": round(worst, 2)}


def main() -> None:
    """The command line."""
    dims = [name for name in sys.argv[1:] if not name.startswith("-")] or DIMS
    cases = list(product(dims, TARGETS, (False, True)))
    with ProcessPoolExecutor(PROCESSES) as pool:
        rows: list[dict[str, object]] = []
        for found in pool.map(row, cases):
            rows.append(found)
            print(*found.values(), sep="  ", file=sys.stderr, flush=True)
    print(table(rows))
    keep("head_dims", rows)


if __name__ == "__main__":
    main()
