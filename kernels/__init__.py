"""Generated kernels as functions of torch tensors.

    from schedgen.kernels import attention, gemm, symmetric_gemm, polar, Muon

    out = attention(q, k, v, causal=True)  # (batch, seq, heads, head_dim)
    y = gemm(x, weight.mT)
    h = gemm_gated(x, gate.mT, up.mT)  # SwiGLU
    seen = attention(q, k, v, mask="column <= row and doc[row] == doc[column]", doc=doc)
    u = polar(x)  # all singular values near 1

    product = kernel("my_product.yaml", tile_n=128)  # from a spec of your own
    d = product(a, b)

Importing this needs no GPU and no compiler. The first call of a kernel on a machine emits it from
its lock, without solving, and compiles it, which takes some ten seconds; both are kept on disk
(`schedgen.stored`).
"""

from schedgen.kernels import gemm_gradients as _  # noqa: F401  # products learn their gradients
from schedgen.kernels.attention_backward import attention_backward
from schedgen.kernels.attention_decode import attention_decode
from schedgen.kernels.attention_op import attention, attention_blocks
from schedgen.kernels.attention_scaled_op import attention_values, scaled_attention
from schedgen.kernels.by_spec import kernel
from schedgen.kernels.cross_entropy_op import linear_cross_entropy
from schedgen.kernels.dropout_op import dropout, gemm_dropout
from schedgen.kernels.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    GradientError,
    KernelError,
    LaunchError,
)
from schedgen.kernels.flash_attn import flash_attn_func
from schedgen.kernels.flash_attn_kvcache import flash_attn_with_kvcache
from schedgen.kernels.flash_attn_varlen import flash_attn_varlen_func
from schedgen.kernels.gated_op import gemm_gated
from schedgen.kernels.gemm_op import gemm, symmetric_gemm
from schedgen.kernels.grouped_op import grouped_gemm
from schedgen.kernels.library import load
from schedgen.kernels.mixed_op import mixed_gemm
from schedgen.kernels.newton_schulz.muon import Muon
from schedgen.kernels.newton_schulz.polar_op import polar
from schedgen.kernels.newton_schulz.sharded_ranks import RankError
from schedgen.kernels.of_file import GeneratedKernel
from schedgen.kernels.of_plan import PlanKernel
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.quantized_op import quantized_gemm
from schedgen.kernels.rms_op import gemm_rms, gemm_scaled
from schedgen.kernels.rotary_op import gemm_rotary
from schedgen.kernels.scaled_op import block_factors, scaled_gemm
from schedgen.kernels.variants.blocks import Blocks
from schedgen.kernels.variants.errors import VariantError

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "Blocks",
    "DeviceError",
    "GeneratedKernel",
    "GradientError",
    "KernelError",
    "LaunchError",
    "Muon",
    "PlanKernel",
    "RankError",
    "SpecKernel",
    "VariantError",
    "attention",
    "attention_backward",
    "attention_blocks",
    "attention_decode",
    "attention_values",
    "block_factors",
    "dropout",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "gemm",
    "gemm_dropout",
    "gemm_gated",
    "gemm_rms",
    "gemm_rotary",
    "gemm_scaled",
    "grouped_gemm",
    "kernel",
    "linear_cross_entropy",
    "load",
    "mixed_gemm",
    "polar",
    "quantized_gemm",
    "scaled_attention",
    "scaled_gemm",
    "symmetric_gemm",
]
