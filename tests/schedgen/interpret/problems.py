"""Kernels with small tiles, and inputs for them."""

from __future__ import annotations

import math

import torch

from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

_SCALARS = {"alpha": torch.tensor(1.5), "beta": torch.tensor(-0.5)}
SMALL = {"tile_m": "16", "tile_n": "32", "tile_k": "16", "slice_n": "16"}


def kernel(name: str, target: str, **settings: str) -> Kernel:
    """The first kernel of a shipped spec."""
    spec, space = read_spec(name), read_machine(target).accumulators
    return bind(spec.source, spec.file, target, settings, accumulators=space)[0]


def kernel_of(text: str, **settings: str) -> Kernel:
    """The kernel of a spec text for its first target."""
    spec = parse_spec(text)
    return bind(spec.source, spec.file, spec.file.targets[0], settings)[0]


def random(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    """Normally distributed numbers, the same each time."""
    generator = torch.Generator().manual_seed(seed + 1000 * sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def attention_inputs(
    seq_q: int, seq_k: int, *, heads: int = 2, heads_k: int = 1, dtype: torch.dtype = torch.bfloat16
) -> dict[str, torch.Tensor]:
    """Two batches of head dimension 64, with the plain softmax scale 1/8."""
    return {
        "q": random(2, seq_q, heads, 64, dtype=dtype, seed=1),
        "k": random(2, seq_k, heads_k, 64, dtype=dtype, seed=2),
        "v": random(2, seq_k, heads_k, 64, dtype=dtype, seed=3),
        "scale": torch.tensor(math.log2(math.e) / 8),
    }


def gemm_inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16
) -> dict[str, torch.Tensor]:
    """Two batches for any of the matrix products; a bias for those that have one."""
    return {
        "a": random(2, m, k, dtype=dtype, seed=1),
        "b": random(2, n, k, dtype=dtype, seed=2),
        "c": random(2, m, n, dtype=dtype, seed=3),
        "bias": random(n, dtype=dtype, seed=4),
        "alpha": torch.tensor(1.5),
        "beta": torch.tensor(-0.5),
    }


def symmetric_inputs(m: int, k: int) -> dict[str, torch.Tensor]:
    """Inputs with a symmetric result."""
    inputs = gemm_inputs(m, m, k)
    return {**inputs, "b": inputs["a"], "c": inputs["c"] + inputs["c"].mT}


def step_of(kernel: Kernel) -> int:
    """Elements that the main loop goes on by in an iteration."""
    return next((p.step for o in kernel.body for p in o.places if p.step), 1)


def full_size_inputs(name: str, trips: int, walked: int) -> dict[str, torch.Tensor]:
    """Inputs for a shipped spec with its own tile sizes, whose loop goes on by ``walked``: several
    output tiles, ragged edges.
    """
    inner = max(walked * trips - 7, 0)
    if name.startswith("attention_bwd"):
        return gradient_inputs(name, inner)
    if name == "attention_fwd":
        return {
            "q": random(1, 300, 2, 128, seed=1),
            "k": random(1, inner, 1, 128, seed=2),
            "v": random(1, inner, 1, 128, seed=3),
            "scale": torch.tensor(math.log2(math.e) / 128**0.5),
        }
    if name == "attention_fp8":
        return scaled_attention_inputs(300, inner)
    # two tokens of 75 heads, splits as equal as can be
    if name in ("attention_parts", "attention_whole"):
        return {
            "q": random(1, 1, 150, 128, seed=1),
            "k": random(1, inner, 1, 128, seed=2),
            "v": random(1, inner, 1, 128, seed=3),
            "scale": torch.tensor(math.log2(math.e) / 128**0.5),
            "split_trips": torch.tensor(float(max(-(-trips // 2), 1))),
            "group": torch.tensor(75.0),
        }
    if name == "attention_combine":
        return {
            "p": random(1, 1, trips, 150, 64, dtype=torch.float32, seed=1),
            "part_lse": random(1, 1, trips, 150, dtype=torch.float32, seed=2),
        }
    if name == "gemm_chain":
        shapes = {"a": (1, 300, 128), "b": (1, inner, 128), "c": (1, inner, 128)}
        return {key: random(*shape, seed=len(key)) for key, shape in shapes.items()}
    if name == "gemm_rotary":
        weights = {
            key: random(3, 64, inner, seed=n) for n, key in enumerate(("b_first", "b_second"))
        }
        turns = {key: random(2, 200, 64, dtype=torch.float32, seed=5) for key in ("cosine", "sine")}
        return {"a": random(2, 200, inner, seed=4), **weights, **turns}
    m, n = (300, 300) if "symmetric" in name else (200, 300)
    if name.endswith("_sum"):
        p = random(1, trips, m, n, dtype=torch.float32, seed=1)
        return {"p": p, "c": random(1, m, n, seed=3), **_SCALARS}
    if name == "rms_factors":
        squares = random(1, trips, m, dtype=torch.float32, seed=1).square()
        return {"squares": squares, "inverse": torch.tensor(0.25), "eps": torch.tensor(0.5)}
    if name.startswith("gemm_fp8"):
        blocks = -(-inner // 128) if name.endswith("_blocks") else None
        return scaled_inputs(m, n, inner, blocks)
    if name.endswith("dropout"):
        drawn = {"p": torch.tensor(0.25), "scale": torch.tensor(4 / 3)}
        drawn |= {"seed_low": torch.tensor(-5), "seed_high": torch.tensor(7)}
        if name == "dropout":
            return {"x": random(m, n, seed=1), **drawn}
        beside = {"bias": random(n, seed=4), "c": random(1, m, n, seed=3), "beta": torch.tensor(1)}
        b = random(1, n, inner, seed=2)
        return {"a": random(1, m, inner, seed=1), "b": b, **beside, **drawn}
    if name == "gemm_lse":
        n = 128  # one tile on each target
        target = torch.arange(m, dtype=torch.float32)[None] - 30
        scale = torch.tensor(0.25)
        inputs = {"a": random(1, m, inner, seed=1), "b": random(1, n, inner, seed=2)}
        return {**inputs, "target": target, "scale": scale}
    if name == "gemm_mixed":
        w = random(1, n, inner, seed=2).to(torch.float8_e4m3fn)
        scale = random(1, n, dtype=torch.float32, seed=3)
        return {"a": random(1, m, inner, seed=1), "w": w, "scale": scale}
    inner *= parts_of(name).get("part", 1)
    b = random(1, n, inner, seed=1)
    return {
        "a": random(1, m, inner, seed=1),
        **({"b_gate": b, "b_up": random(1, n, inner, seed=2)} if "gated" in name else {"b": b}),
        "scale": random(1, m, dtype=torch.float32, seed=5),
        "c": random(1, m, n, seed=3) * (m != n),
        "bias": random(n, seed=4),
        **({"least": torch.tensor(1e-4)} if "quantized" in name else {}),
        **_SCALARS,
    }


def gradient_inputs(name: str, inner: int) -> dict[str, torch.Tensor]:
    """Inputs of the kernels of attention's gradients; ``inner`` is what their loops walk."""
    if name.endswith("delta"):
        both = {key: random(1, 300, 2, inner, seed=n) for n, key in enumerate(("do", "o"))}
        return {**both, "lse": random(1, 2, 300, dtype=torch.float32, seed=3)}
    if name.endswith("convert"):
        return {
            "sum": random(1, 300, 2, inner, dtype=torch.float32, seed=1),
            "scale": torch.tensor(0.125),
        }
    sums, walks_queries = name == "attention_bwd", name in ("attention_bwd", "attention_bwd_kv")
    seq_q, seq_k = (inner, 300) if walks_queries else (300, inner)
    d = 64 if sums else 128
    return {
        "q": random(1, seq_q, 2, d, seed=1),
        "k": random(1, seq_k, 1, d, seed=2),
        "v": random(1, seq_k, 1, d, seed=3),
        "do": random(1, seq_q, 2, d, seed=4),
        "lse": random(1, 2, seq_q, dtype=torch.float32, seed=5),
        "delta": random(1, 2, seq_q, dtype=torch.float32, seed=6),
        "scale": torch.tensor(math.log2(math.e) / d**0.5),
        **({"dq": torch.zeros(1, seq_q, 2, d)} if sums else {}),
    }


def scaled_inputs(m: int, n: int, k: int, blocks: int | None) -> dict[str, torch.Tensor]:
    """Operands of 8 bits with factors of rows, or those of each of ``blocks`` blocks of k."""
    each = (1,) if blocks is None else (1, blocks)
    rows, columns = (*each, m), (*each, n)
    return {
        "a": random(1, m, k, seed=1).to(torch.float8_e4m3fn),
        "b": random(1, n, k, seed=2).to(torch.float8_e4m3fn),
        "scale_a": random(*rows, dtype=torch.float32, seed=3),
        "scale_b": random(*columns, dtype=torch.float32, seed=4),
    }


def scaled_attention_inputs(seq_q: int, seq_k: int) -> dict[str, torch.Tensor]:
    """Operands of 8 bits, of two heads with the same keys, with factors of heads of q. One spec has
    values of keys, the other of whole sixteens, in an order of its own.
    """
    operands = {"q": (seq_q, 2), "k": (seq_k, 1), "v": (1, seq_k)}
    along = random(1, 1, 128, -(-seq_k // 16) * 16, seed=7).to(torch.float8_e4m3fn)
    return {
        "v_results": along,
        **{
            key: random(1, *shape, 128, seed=n).to(torch.float8_e4m3fn)
            for n, (key, shape) in enumerate(operands.items())
        },
        **{
            f"scale_{key}": random(1, 2, dtype=torch.float32, seed=3 + n).abs() + 0.1
            for n, key in enumerate(operands)
        },
        "scale": torch.tensor(math.log2(math.e) / 128**0.5),
    }


def parts_of(name: str) -> dict[str, int]:
    """Extents of a shipped spec that its inputs do not have: parts of k, splits of keys, tiles."""
    more = {"gemm_parts": {"part": 2}, "attention_parts": {"split": 2}, "gemm_rms": {"n_tiles": 2}}
    more |= {"gemm_quantized": {"n_blocks": 3}, "gemm_lse": {"n_tiles": 1}}
    return more.get(name, {})
