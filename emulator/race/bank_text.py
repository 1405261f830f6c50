"""Bank conflicts for a person, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedgen.emulator.race.banks import Banks


def bank_lines(banks: Banks) -> Iterator[str]:
    """What accesses to shared memory lose by bank conflicts, by line of the source."""
    total = banks.passes
    if not total.taken:
        yield "bank conflicts: no ld, st, ldmatrix or stmatrix of shared memory was executed"
        return
    if total.taken == total.least:
        yield f"bank conflicts: none in {total.taken} passes of shared memory"
        return
    yield (
        f"bank conflicts: {total.taken} passes of shared memory, {total.least} would be enough "
        f"({total.taken / total.least:.2f} times)"
    )
    for one in banks.accesses:
        if one.taken == one.least:
            break  # those behind it have none, either
        place = one.place
        yield f"  {place.name}{f'  {place.text}' if place.text else ''}"
        yield (
            f"    {one.instruction}: {one.taken} passes instead of {one.least} ({one.ways:.2f} "
            f"times), {one.requests} requests of {one.kernel}"
        )
        yield from (f"    called at {call.name}  {call.text}" for call in place.calls)


def bank_data(banks: Banks) -> dict[str, Any]:
    """The same of all accesses, with and without conflicts, as JSON has it."""
    total = banks.passes
    return {
        "passes": total.taken,
        "least": total.least,
        "accesses": [
            {
                "kernel": one.kernel,
                "instruction": one.instruction,
                "place": one.place.data(),
                "ptx_lines": list(one.lines),
                "requests": one.requests,
                "passes": one.taken,
                "least": one.least,
            }
            for one in banks.accesses
        ],
    }
