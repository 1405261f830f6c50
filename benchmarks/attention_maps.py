"""Three storage maps of FlashAttention-4 forward on b200 side by side: FA4's, the CUTLASS
example's, the solver's.

    python benchmarks/attention_maps.py [--save]

The two hand-written kernels are fixed through parameters of the same spec: where P is stored, the
order of products, and how far V loads lag. `published` are the recurrence bounds that an
independent transcription of both kernels gave (FA4's graph 2513 / 2954, the CUTLASS graph with
FA4's split and emulation 2072 / 2092, both without shared-memory limits). All cycles are model
cycles; nothing here was measured on a Blackwell GPU.
"""

from __future__ import annotations

from report import keep, table

from schedgen.bounds import critical_cycle
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.solver.search import arithmetic_bound
from schedgen.spec.reader import read_spec

COMMON = {"head_dim": "128", "exp2_polynomial": "3/16"}
MAPS = {
    "FA4: P in its own S, PV first": {
        "p_storage": "own",
        "product_order": "pv_first",
        "kv_lag": "0",
    },
    "CUTLASS: P in the other S, QK first": {
        "p_storage": "other",
        "product_order": "qk_first",
        "kv_lag": "1",
    },
    "solver: alias auto": {"p_storage": "auto", "product_order": "auto", "kv_lag": "auto"},
}
PUBLISHED = {
    "FA4: P in its own S, PV first": {"low": 2513, "high": 2954},
    "CUTLASS: P in the other S, QK first": {"low": 2072, "high": 2092},
}


def rows() -> list[dict[str, object]]:
    """One row per map and end of the latency intervals."""
    found: list[dict[str, object]] = []
    for name, settings in MAPS.items():
        for end in ("low", "high"):
            solution = solve(
                read_spec("attention_fwd"),
                read_machine("b200"),
                settings={**COMMON, **settings},
                latencies=end,
            )
            schedule = solution.schedule
            recurrence = critical_cycle(solution.problem.unconditional())
            published = PUBLISHED.get(name, {}).get(end)
            ratio = schedule.max_cycle_ratio_cycles
            found.append(
                {
                    "map": name,
                    "latencies": end,
                    "published": published or "",
                    "recurrence": recurrence.bound if recurrence else 0,
                    "arithmetic bound": arithmetic_bound(solution.problem).cycles,
                    "II": schedule.ii_cycles,
                    "proven": schedule.proven_optimal,
                    "cycle ratio": schedule.max_cycle_ratio_cycles,
                    "off": f"{ratio / published - 1:+.1%}" if published else "",
                    "certificate": schedule.certificate.kind,
                }
            )
    return found


if __name__ == "__main__":
    result = rows()
    print(table(result))
    print("\nModel cycles per iteration of 128 keys and two query tiles, not measured ones.")
    keep("attention_maps", result)
