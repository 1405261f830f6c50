"""How kernels are written where only a GPU tells what is faster (`schedgen.codegen.style`): those
that are shipped, and those that functions make of the same specs, or of edits of these.

Words are taken for what took fewer cycles so on an H200, ``prompt`` by 1 to 26 %; others took as
many, or more (`benchmarks/styles.py`). Kernels of ``attention_bwd`` took 2 to 5 % less time with
``prompt``, and those with a causal mask 1 to 3 % with ``peeled`` (by hand, docs/backward.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from schedgen.driver import lock_file

if TYPE_CHECKING:
    from schedgen.driver.emitting import Emission
    from schedgen.machine import Machine
    from schedgen.spec.reader import Spec
    from schedgen.stored import Store

NARROW = {"tile_n": "32", "tile_k": "256"}
"""Tiles whose loads are so small that issuing them is what takes time."""
Kernels = Mapping[str, Sequence[Mapping[str, str]]]
"""Specs, and settings that their kernels have, one of each list; "" where there is none."""
_PROMPT: Kernels = {
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
_STRAIGHT: Kernels = {}
"""Those that move such tiles in their loops took 8 to 24 % longer so."""
_PEELED: Kernels = {"attention_bwd": [{"causal": "true"}]}
"""Others are peeled where machine code says so."""
_SHARED: Kernels = {
    "attention_bwd": [{}],
    "attention_fwd": [{"head_dim": "96", "causal": "true"}],
}
"""Gradients that were measured beside flash-attn-4 (`benchmarks/backward.py`) were written so; the
other kernel takes 4 to 10 % less time (H200, by hand), and is too short to be written so by itself.
"""
_LOOSE: Kernels = {
    "attention_bwd": [{}],
    "attention_fp8": [{}],
    "attention_fwd": [
        *({"head_dim": columns} for columns in ("32", "64", "96", "128")),
        {"head_dim": "160", "causal": "true"},
        {"head_dim": "192", "head_dim_v": "128"},
    ],
}
"""Where softmax asks seldom, that takes 2 to 5 % less time (docs/conform.md); other attention as
much as before."""
_LATE: Kernels = {"attention_bwd": [{"head_dim": "128", "causal": ""}]}
"""Registers for what is read early there."""
_O1: Kernels = {
    "attention_bwd": [
        {"head_dim": "64", "dtype": "bf16", "causal": "", "ordered": "true"},
        {"head_dim": "128", "causal": "true", "ordered": "true"},
    ],
}
"""1.5 to 2 % less time (docs/conform.md); other gradients as much as before, or spills."""
_FEWER: Kernels = {"attention_fwd": [{}], "attention_fp8": [{}]}
"""Their softmax asks once whether there is a new maximum (ADR 42)."""
FASTER: Mapping[str, Kernels] = {
    "prompt": _PROMPT,
    "straight": _STRAIGHT,
    "peeled": _PEELED,
    "shared": _SHARED,
    "loose": _LOOSE,
    "late": _LATE,
    "threes": _FEWER,
    "seldom": _FEWER,
    "o1": _O1,
}
"""By word of a style: where it is taken."""
SUFFICING: Mapping[str, Kernels] = {
    "o1": {"attention_fwd": [{"head_dim": "256", "causal": "true"}]},
}
"""Where registers of Blackwell suffice so, and no budget was found with which they suffice for both
assemblers otherwise (`schedgen.kernels.budgets`). By machine code the softmax takes no longer."""
_UNDECIDED = {"prompt", "straight", "loose", "late", "threes", "seldom", "o1"}
"""What no compiler decides: taken nowhere else."""
_MASKED = {"causal": "true"}
LIKE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "attention_varlen": ("attention_fwd", {}),
    "attention_kvcache": ("attention_fwd", {}),
    "attention_varlen_kvcache": ("attention_fwd", {}),
    "attention_variant": ("attention_fwd", {}),
    "attention_varlen_bwd": ("attention_bwd", {}),
    "attention_varlen_bwd_q": ("attention_bwd_q", {}),
    "attention_variant_bwd": ("attention_bwd", _MASKED),
    "attention_variant_bwd_q": ("attention_bwd_q", _MASKED),
    "attention_variant_varlen_bwd": ("attention_bwd", _MASKED),
    "attention_variant_varlen_bwd_q": ("attention_bwd_q", _MASKED),
}
"""Specs of which no kernels are shipped, that which they are like, and settings beside theirs."""
MEASURED = "h200"
TAKEN: Mapping[str, Mapping[str, Kernels]] = {MEASURED: FASTER, "b200": SUFFICING}
"""By machine model: what is taken for it."""


def styled(
    words: tuple[str, ...],
    spec: str,
    target: str,
    settings: Mapping[str, str],
    own: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """``words`` of a style, with those of `TAKEN`: that were measured to be faster, or suffice;
    ``own``: what parameters are that ``settings`` leave out.
    """
    found = set(words) - _UNDECIDED
    spec, more = LIKE.get(spec, (spec, {}))
    settings = {**settings, **more}
    for word, kernels in TAKEN.get(target, {}).items():
        if any(fits(settings, one, own) for one in kernels.get(spec, ())):
            found.add(word)
    if "loose" in found:  # blocks of their own are what is not mixed
        found.discard("blocks")
    return found


def fits(
    settings: Mapping[str, str],
    wanted: Mapping[str, str],
    own: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Whether an entry of `TAKEN` is of a kernel with these settings; an empty word there is what
    the spec says by itself, which is ``own``.
    """
    given = {**own, **settings}
    return all(
        given.get(name, "") == (value or own.get(name, "")) for name, value in wanted.items()
    )


def in_style(
    made: Emission, spec: Spec, machine: Machine, settings: Mapping[str, str], store: Store
) -> Emission:
    """``made``, or the same kernel as was measured to be faster, where the compiler accepts that.

    Raises what solving and compiling raise.
    """
    from schedgen.codegen.style import Style
    from schedgen.driver.attempts import acceptable, compiled
    from schedgen.driver.emitting import emission, restyled
    from schedgen.driver.variations import Variation

    name, chosen = spec.file.kernel, dict(settings)
    own = lock_file.by_itself(spec, machine.name)
    measured = styled((), name, machine.name, settings, own)
    if not measured:
        return made
    first = [emission(spec, machine, chosen, store=store)] if "late" in measured else []
    for one in (*first, made):  # what was measured ``late`` is the schedule as it was planned
        words = (
            measured
            if one is not made
            else styled(made.style.words, name, machine.name, chosen, own)
        )
        other = restyled(one, Style.of(words))
        if acceptable(compiled(other, Variation(), store, conform=False).report):
            return other
    return made
