"""How shipped kernels are written where only a GPU tells what is faster (`schedgen.codegen.style`).

``prompt`` is taken for what took fewer cycles so on an H200, by 1 to 26 %; others took as many, or
more (`benchmarks/styles.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WORDS = ("prompt",)
"""What no compiler decides."""
NARROW = {"tile_n": "32", "tile_k": "256"}
"""Tiles whose loads are so small that issuing them is what takes time."""
PROMPT: Mapping[str, Sequence[Mapping[str, str]]] = {
    "attention_bwd": [{}],
    "attention_bwd_convert": [{}],
    "attention_bwd_q": [{}],
    "attention_fp8": [{}],
    "gemm": [NARROW],
    "gemm_epilogue": [NARROW],
    "gemm_gated": [{"tile_m": "64"}],
    "gemm_mixed": [
        {"weights": "i4x2"},
        {"weights": "i8", "tile_m": "64"},
        {"weights": "i8", "tile_m": "16"},
    ],
    "gemm_sum": [{}],
    "gemm_symmetric": [NARROW],
    "gemm_transposed": [{"tile_m": "64"}],
    "rms_factors": [{}],
}
"""Specs, and settings that their kernels have, one of each list."""
MEASURED = "h200"


def styled(words: tuple[str, ...], spec: str, target: str, settings: Mapping[str, str]) -> set[str]:
    """``words`` of a style, with those of `WORDS` that were measured to be faster."""
    found = set(words) - {*WORDS}
    wanted: Sequence[Mapping[str, str]] = PROMPT.get(spec, ()) if target == MEASURED else ()
    if any(one.items() <= settings.items() for one in wanted):
        found.add("prompt")
    return found
