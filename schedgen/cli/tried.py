"""What `schedgen emit` says about attempts at a kernel: what was tried, and why one was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedgen.driver.attempts import Attempt


def tried_text(attempts: Sequence[Attempt]) -> list[str]:
    """Lines for a person: each attempt, if there are several, and what the chosen one keeps."""
    lines = [f"  tried        {one.variation.text}: {_outcome(one)}" for one in attempts[:-1]]
    if lines:
        lines.append(f"  tried        {attempts[-1].variation.text}: {_outcome(attempts[-1])}")
        lines.append(f"  chosen       {_chosen(attempts)}")
        return lines
    found = attempts[0].overlap
    return (
        [] if found is not None and not found.loops else [f"  overlap      {_outcome(attempts[0])}"]
    )


def _chosen(attempts: Sequence[Attempt]) -> str:
    """Which, and by what."""
    chosen = next(one for one in attempts if one.chosen)
    others = [one for one in attempts if one.usable and one is not chosen]
    if not others:
        return f"{chosen.variation.text}: the only one that is acceptable"
    if all(one.cycles is not None for one in (chosen, *others)):
        return f"{chosen.variation.text}: the fewest cycles by its machine code, or as few"
    if chosen.overlap is None or chosen.overlap.unknown:
        return f"{chosen.variation.text}: the first one that is acceptable"
    if chosen.keeps and not any(one.keeps for one in others):
        return f"{chosen.variation.text}: it keeps what was planned beside products"
    return f"{chosen.variation.text}: most beside products, then fewest instructions"


def _outcome(attempt: Attempt) -> str:
    """What came of an attempt."""
    problems = attempt.report.problems
    if problems and not attempt.usable:
        return problems[0]
    if attempt.differences:
        return f"it is not its program, {attempt.differences[0]}"
    if attempt.overlap is None:
        return "acceptable; not compared with the cubin (pip install nvidia-cuda-nvdisasm)"
    cycles = "" if attempt.cycles is None else f"; {attempt.cycles:.0f} cycles by its machine code"
    return attempt.overlap.text + cycles
