"""Kernels of a checkout of NVIDIA/cutlass, called with small CPU tensors.

Nothing of CUTLASS is here: the examples are imported from the checkout and compiled. To be used
inside of `schedgen.emulator.emulation.device`, which sets the architecture and takes the launches.

    prepared = prepare(folder, "fp16_gemm_0")    # compiles; see NAMES
    prepared.run()
    prepared.check()                             # compares with torch in float32
"""

# CUTLASS and the DSL have no types that would say something here.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

EXAMPLES = "examples/python/CuTeDSL"
_TUTORIAL = "cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_{}.py"
_BLACKWELL = "cute/blackwell/kernel"
_HOPPER = "cute/hopper/kernel"

FILES = {
    f"fp16_gemm_{i}": _TUTORIAL.format(i) for i in ("0", "1", "2", "3", "3_1", "4", "5", "6")
} | {
    "blackwell_dense_gemm": f"{_BLACKWELL}/dense_gemm/dense_gemm.py",
    "blackwell_dense_gemm_2cta": f"{_BLACKWELL}/dense_gemm/dense_gemm.py",
    "blackwell_dense_gemm_tf32": f"{_BLACKWELL}/dense_gemm/dense_gemm.py",
    "blackwell_dense_gemm_persistent": f"{_BLACKWELL}/dense_gemm/dense_gemm_persistent.py",
    "blackwell_dense_gemm_persistent_2cta": f"{_BLACKWELL}/dense_gemm/dense_gemm_persistent.py",
    "blackwell_fmha": f"{_BLACKWELL}/attention/fmha/fmha.py",
    "blackwell_fmha_causal": f"{_BLACKWELL}/attention/fmha/fmha.py",
    "blackwell_fmha_persistent": f"{_BLACKWELL}/attention/fmha/fmha.py",
    "hopper_dense_gemm": f"{_HOPPER}/dense_gemm/dense_gemm.py",
    "hopper_dense_gemm_cluster": f"{_HOPPER}/dense_gemm/dense_gemm.py",
    "hopper_dense_gemm_persistent": f"{_HOPPER}/dense_gemm/dense_gemm_persistent.py",
    "hopper_fmha": f"{_HOPPER}/attention/fmha.py",
    "hopper_fmha_causal": f"{_HOPPER}/attention/fmha.py",
    "hopper_fmha_persistent": f"{_HOPPER}/attention/fmha.py",
}
"""Name here -> file in `EXAMPLES` of the checkout."""
NAMES = tuple(FILES)
LISTED = tuple(name for name in NAMES if not name.endswith(("tf32", "causal", "fmha")))
"""Those whose synchronization differs; of attention, the kernels with several tiles per CTA."""
CLUSTERS = 8
"""What persistent kernels are told of the number of clusters that fit, unless said otherwise."""


def architecture(name: str) -> str:
    """The target of an example."""
    return "sm_90a" if name.startswith("hopper") else "sm_100a"


@dataclass(frozen=True)
class Prepared:
    """A compiled example. ``check`` raises AssertionError if the result is wrong."""

    run: Callable[[], None]
    check: Callable[[], None]


def _load(folder: Path, name: str) -> Any:
    """The example as a module; its folders are put on sys.path as its own imports need."""
    path = folder / EXAMPLES / FILES[name]
    if not path.exists():
        raise SystemExit(f"{path} does not exist: is {folder} a checkout of NVIDIA/cutlass?")
    for one in (folder / EXAMPLES, path.parent):
        if str(one) not in sys.path:
            sys.path.insert(0, str(one))
    spec = importlib.util.spec_from_file_location("example_" + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def prepare(
    folder: Path, name: str, k: int = 256, clusters: int = CLUSTERS, extent: int = 256
) -> Prepared:
    """Imports and compiles an example, for the current device, with inputs from a fixed seed.

    ``k`` is how long the main loops of products are, ``extent`` how many rows and columns the
    result has, or keys there are. Persistent kernels are told that ``clusters`` fit: with one, a
    CTA works on several tiles. Those of attention have three tiles per 256 keys and ask the device.
    """
    module = _load(folder, name)
    torch.manual_seed(1111)
    if name.startswith("fp16_gemm"):
        return _tutorial(name, module, (extent, extent, k), clusters)
    if "dense_gemm" in name:
        return _dense(name, module, (extent, extent, k, 1), clusters)
    if name.startswith("blackwell_fmha"):
        s_q = 3 * extent if name.endswith("persistent") else extent
        return _blackwell_fmha(name, module, s_q, extent, 128)
    sizes = (3 * extent // 2, extent) if name.endswith("persistent") else (extent // 2, extent // 2)
    return _hopper_fmha(name, module, *sizes, 128)


def _from_dlpack(tensor: Any, assumed_align: int | None = None) -> Any:
    from cutlass.cute import runtime

    return runtime.from_dlpack(tensor, assumed_align=assumed_align)


def _prepared(compiled: Any, arguments: tuple[Any, ...], check: Callable[[], None]) -> Prepared:
    return Prepared(lambda: compiled(*arguments), check)


def _integers(shape: tuple[int, ...], dtype: Any) -> Any:
    return torch.randint(-2, 3, shape).to(dtype)


def _compile(function: Any, *arguments: Any, **options: Any) -> Any:
    from cutlass import cute

    return cute.compile(function, *arguments, **options)


def _tutorial(name: str, module: Any, shape: tuple[int, ...], clusters: int) -> Prepared:
    import cutlass.torch as cutlass_torch

    m, n, k = shape[:3]
    io = cutlass_torch.dtype(module.io_dtype)
    a, c = _integers((m, k), io), torch.zeros((m, n), dtype=io)
    which = name.removeprefix("fp16_gemm_")
    quantized = which == "6"
    b = _integers((n, k), cutlass_torch.dtype(module.quant_dtype) if quantized else io)

    def fixed(tensor: Any) -> Any:
        cute_tensor = _from_dlpack(tensor, assumed_align=32).mark_layout_dynamic(leading_dim=1)
        whole = math.gcd(tensor.shape[1], 256)  # the same kernel for all sizes that are used here
        return cute_tensor.mark_compact_shape_dynamic(mode=1, divisibility=whole)

    def free(tensor: Any) -> Any:
        return _from_dlpack(tensor).mark_layout_dynamic()

    if which in ("0", "1"):
        arguments = (fixed(a), fixed(b), fixed(c))
        static: tuple[Any, ...] = ()
    elif which == "2":
        arguments, static = (free(a), free(b), free(c)), ()
    elif quantized:
        import cuda.bindings.driver as cuda

        dequantized = torch.zeros((n, k), dtype=io)
        arguments = (free(a), fixed(b), fixed(dequantized), free(c), 2.33, cuda.CUstream(0))
        compiled = _compile(module.host_function, *arguments[:5], clusters, arguments[5])
        b_exact = (b.to(torch.float32) * 2.33).to(io)
        return _prepared(compiled, arguments, lambda: _compare(c, a, b_exact))
    else:
        arguments = (free(a), free(b), free(c))
        static = (clusters, clusters) if which == "4" else (clusters,)
    compiled = _compile(module.host_function, *arguments, *static)
    return _prepared(compiled, arguments, lambda: _compare(c, a, b))


def _compare(c: Any, a: Any, b: Any, tolerance: float = 0.1) -> None:
    reference = torch.einsum("mk,nk->mn", a.float(), b.float())
    torch.testing.assert_close(c, reference.to(c.dtype), atol=tolerance, rtol=1e-3)


def _same(value: Any) -> Any:
    return value


def _dense(name: str, module: Any, shape: tuple[int, ...], clusters: int) -> Prepared:
    import cuda.bindings.driver as cuda
    import cutlass

    m, n, k, batch = (*shape, 1)[:4]
    tf32 = name.endswith("tf32")
    dtype = torch.float32 if tf32 else torch.float16
    blackwell_persistent = name.startswith("blackwell_dense_gemm_persistent")

    def tensor(rows: int, columns: int, kind: Any, zero: bool = False) -> tuple[Any, Any]:
        # memory (l, rows, columns); seen as (rows, columns, l), by `bmm` as (l, rows, columns)
        memory = _integers((batch, rows, columns), kind)
        if zero:
            memory.zero_()
        seen = memory if blackwell_persistent else memory.permute(1, 2, 0)
        cute_tensor = _from_dlpack(seen, assumed_align=16)
        return memory, cute_tensor.mark_layout_dynamic(leading_dim=2 if blackwell_persistent else 1)

    a, a_cute = tensor(m, k, dtype)
    b, b_cute = tensor(n, k, dtype)
    c, c_cute = tensor(m, n, dtype, zero=True)
    stream = cuda.CUstream(0)
    single, double = ((128, 128), (1, 1), False), ((256, 128), (2, 1), True)
    static: tuple[Any, ...] = ()
    if name.startswith("blackwell"):
        tile, cluster, two = double if name.endswith("2cta") else single
        kind = module.PersistentDenseGemmKernel if blackwell_persistent else module.DenseGemmKernel
        gemm = kind(cutlass.Float32, two, tile, cluster, True)
    elif name == "hopper_dense_gemm_persistent":
        gemm = module.HopperWgmmaGemmPersistentKernel(cutlass.Float32, (128, 128), (1, 1), 1, True)
        static = (clusters,)
    else:
        cluster = (2, 2) if name.endswith("cluster") else (1, 1)
        gemm = module.HopperWgmmaGemmKernel(cutlass.Float32, (128, 128), cluster)
    if blackwell_persistent:
        # `bmm` wants b as (l, k, n) with k contiguous
        b_cute = _from_dlpack(b.permute(0, 2, 1), assumed_align=16)
        b_cute = b_cute.mark_layout_dynamic(leading_dim=1)
        compiled = _compile(module.bmm, gemm, a_cute, b_cute, c_cute, clusters, stream, _same)
    else:
        compiled = _compile(gemm, a_cute, b_cute, c_cute, *static, stream)
    arguments = (a_cute, b_cute, c_cute, stream)

    def check() -> None:
        reference = torch.einsum("lmk,lnk->lmn", a.float(), b.float())
        torch.testing.assert_close(c, reference.to(dtype), atol=0.1, rtol=1e-3)

    return _prepared(compiled, arguments, check)


def _heads(s_q: int, s_k: int, d: int) -> tuple[Any, Any, Any, Any]:
    """q, k, v and o as (1, s, 1, 1, d) in float16."""
    q = _integers((1, s_q, 1, 1, d), torch.float16)
    k, v = (_integers((1, s_k, 1, 1, d), torch.float16) for _ in range(2))
    return q, k, v, torch.zeros_like(q)


def _mask(name: str, module: Any, s_k: int) -> Any:
    masks = module.fmha_utils.MaskEnum
    whole = name.endswith("causal") or s_k % 128 == 0
    return masks.WINDOW_MASK if whole else masks.RESIDUAL_MASK


def _attention(name: str, q: Any, k: Any, v: Any, o: Any, lse: Any = None) -> None:
    """Compares with torch; ``lse`` is (b, s, 1, 1, 1)."""
    q, k, v, found = (tensor[:, :, :, 0].float() for tensor in (q, k, v, o))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if name.endswith("causal"):
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(later, -torch.inf)
    wanted = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, -1), v)
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=1e-2)
    if lse is not None:
        sums = torch.logsumexp(scores, -1)
        torch.testing.assert_close(lse[:, :, :, 0, 0].permute(0, 2, 1), sums, atol=0.02, rtol=1e-2)


def _blackwell_fmha(name: str, module: Any, s_q: int, s_k: int, d: int) -> Prepared:
    import cuda.bindings.driver as cuda
    import cutlass

    fmha = module.BlackwellFusedMultiHeadAttentionForward(
        *(cutlass.Float32, cutlass.Float32, (128, 128), d, name.endswith("persistent")),
        _mask(name, module, s_k),
        *(False, False),
        use_tma_store=True,
    )
    tensors = _heads(s_q, s_k, d)
    seen = [
        _from_dlpack(one, assumed_align=32).mark_layout_dynamic(leading_dim=4) for one in tensors
    ]
    scale = 1.0 / math.sqrt(d)
    right = cutlass.Int32(0) if name.endswith("causal") else None
    arguments = (
        *(*seen, (1, s_q, s_q, s_k, 1, 1, d, d), None, None, None, None),
        *(scale * math.log2(math.e), scale, 1.0, None, None, right, None, None),
        *(cuda.CUstream(0), False),
    )
    compiled = _compile(fmha, *arguments, options="--opt-level=2")
    return _prepared(compiled, arguments, lambda: _attention(name, *tensors))


def _hopper_fmha(name: str, module: Any, s_q: int, s_k: int, d: int) -> Prepared:
    import cuda.bindings.driver as cuda
    import cutlass

    fmha = module.HopperFusedMultiHeadAttentionForward(
        cutlass.Float32,
        cutlass.Float32,
        (64, 128, d),
        name.endswith("persistent"),
        _mask(name, module, s_k),
    )
    tensors = (*_heads(s_q, s_k, d), torch.zeros((1, s_q, 1, 1, 1)))

    def seen(tensor: Any) -> Any:  # (b, s, h_k, h_r, d) -> (s, d, h_r, h_k, b)
        found = _from_dlpack(tensor.permute(1, 4, 3, 2, 0), assumed_align=16)
        return found.mark_layout_dynamic(leading_dim=1)

    scale = 1.0 / math.sqrt(d)
    right = cutlass.Int32(0) if name.endswith("causal") else None
    arguments = (
        *(seen(tensor) for tensor in tensors),
        *(scale * math.log2(math.e), scale, 1.0, None, right, cuda.CUstream(0)),
    )
    compiled = _compile(fmha, *arguments)
    return _prepared(compiled, arguments, lambda: _attention(name, *tensors))
