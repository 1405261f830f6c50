"""What an H200 computes: bit by bit the same, but for approximations and unspecified NaNs.

``h200.txt`` has a digest per form of the results of 512 threads; `gpu` wrote it (driver 580).
Left out is ``cvt.rna.satfinite.tf32``, which on the H200 makes numbers of some NaNs, against the
ISA. Where there is a GPU of compute capability 9.0, everything is compared directly.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulator.instructions.execution import decoded_all, run
from tests.emulator.instructions.forms import by_kind
from tests.emulator.instructions.gpu import (
    ROWS,
    Device,
    Words,
    digest,
    result,
    settled,
    sources,
    words_of,
)

EXACT = [kind for kind in by_kind() if not kind.startswith("approximate")]
KINDS = {"r": np.uint32, "rs": np.uint16, "rd": np.uint64, "f": np.uint32, "fd": np.uint64}


@cache
def digests() -> dict[str, dict[str, str]]:
    """Kind -> form -> digest."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in EXACT}
    for line in (Path(__file__).parent / "h200.txt").read_text(encoding="utf-8").splitlines():
        head, _, text = line.partition(": ")
        value, _, kind = head.partition(" ")
        found[kind][text] = value
    return found


def emulated(kind: str, words: Words) -> dict[str, Words]:
    """Form -> results, for (N, 3) words."""
    texts = list(dict.fromkeys(by_kind()[kind]))
    decoder, forms = decoded_all(texts)
    found: dict[str, Words] = {}
    for text, steps in zip(texts, forms, strict=True):
        parts: list[Words] = []
        for at in range(0, len(words), 32):
            registers: dict[str, Any] = {}
            for prefix, number in sources(text):
                column = words[at : at + 32, number - 1]
                registers[f"{prefix}{number}"] = (
                    (column & np.uint64(1)).astype(np.bool_)
                    if prefix == "p"
                    else column.astype(KINDS[prefix])
                )
            warp = run(decoder, steps, **registers)
            parts.append(warp[f"{result(text)}0"].astype(np.uint64))
        found[text] = np.concatenate(parts)
    return found


@pytest.mark.parametrize("kind", EXACT)
def test_same_results_as_an_h200(kind: str) -> None:
    wanted = digests()[kind]
    found = emulated(kind, words_of(kind)[ROWS])
    assert found.keys() == wanted.keys()
    differ = [text for text, words in found.items() if digest(text, words) != wanted[text]]
    assert not differ


@pytest.mark.gpu
@pytest.mark.parametrize("kind", EXACT)
def test_same_results_as_the_gpu_at_hand(kind: str) -> None:
    try:
        device = Device()
    except (OSError, RuntimeError) as problem:
        pytest.skip(f"no GPU: {problem}")
    if device.capability != (9, 0):
        pytest.skip(f"compute capability {device.capability}, 9.0 is needed")
    words = words_of(kind)
    for text, found in emulated(kind, words).items():
        there = device.run(text, words)
        assert np.array_equal(settled(text, found), settled(text, there)), text
