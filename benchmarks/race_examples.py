"""CUTLASS's CuTe DSL examples for Hopper and Blackwell: their arguments, and which are left out.

Paths are relative to ``examples/python/CuTeDSL`` of a checkout. Arguments are small ones with which
an example does all that it does by default; where none are given, the example has none or
its defaults are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

FOLDER = "examples/python/CuTeDSL"
COUNTED = {
    "cute/hopper": "sm_90a",
    "cute/blackwell": "sm_100a",
    "cute_ext/blackwell": "sm_100a",
    "experimental/primitives": "sm_100a",
    "experimental/task_scheduling": "sm_100a",
    "dsl_tutorials/fp16_gemm_4_iket": "sm_100a",
    "dsl_tutorials/programmatic_dependent_launch": "sm_90a",
    "dsl_tutorials/launch_completion_and_programmatic_events": "sm_90a",
}
"""Beginnings of paths, and the architecture to run them for: the folders of both architectures, and
tutorials that ask for one of them."""

_ONCE = "--warmup_iterations 0 --iterations 1"
_PRODUCT = f"--mnkl 256,256,128,1 {_ONCE}"
_PAIRS = "--use_2cta_instrs --mma_tiler_mn 256,128 --cluster_shape_mn 2,1"
_HOPPER = "cute/hopper/kernel"
_KERNEL = "cute/blackwell/kernel"
_EFC = "cute/blackwell/efc"
_TUTORIAL = "cute/blackwell/tutorial"
_TASKS = "experimental/task_scheduling/blackwell/tutorial"
_TCGEN05 = "experimental/primitives/tcgen05"

ARGUMENTS = {
    f"{_HOPPER}/dense_gemm/dense_gemm": _PRODUCT,
    f"{_HOPPER}/dense_gemm/dense_gemm_persistent": _PRODUCT,
    f"{_HOPPER}/dense_gemm/dense_gemm_fp8_2xacc": f"--mnkl 256,256,256,1 {_ONCE}",
    f"{_HOPPER}/dense_gemm/dense_gemm_fp8_gelu_persistent": f"--mnkl 256,256,256,1 {_ONCE}",
    f"{_HOPPER}/attention/fmha": f"--q_shape 1,128,2,64 --k_shape 1,128,2,64 {_ONCE}",
    f"{_HOPPER}/cta_norm/cta_norm": f"--M 16 --N 1024 {_ONCE}",
    f"{_HOPPER}/grouped_gemm/grouped_gemm": (
        f"--num_groups 2 --problem_sizes_mnkl (128,128,128,1),(128,128,64,1) {_ONCE}"
    ),
    f"{_KERNEL}/attention/fmha/fmha": f"--q_shape 1,256,2,64 --k_shape 1,256,2,64 {_ONCE}",
    f"{_KERNEL}/attention/fmha/fmha_bwd": f"--s_q 256 --s_k 256 --d 64 --h_q 1 --h_k 1 {_ONCE}",
    f"{_KERNEL}/attention/mamba2_ssd/mamba2_ssd": f"--gbehcdln 1,2,1,2,2,64,128,128 {_ONCE}",
    f"{_KERNEL}/attention/mixed_input_fmha/mixed_input_fmha_decode": (
        "--seqlen 512 --heads_q 8 --heads_k 1 --warmup_iterations 0 --iterations 0"
    ),
    f"{_KERNEL}/attention/mixed_input_fmha/mixed_input_fmha_prefill_d256": (
        f"--q_shape 1,1,256,256 --k_shape 1,1,256,256 {_ONCE}"
    ),
    f"{_KERNEL}/attention/mixed_input_fmha/mixed_input_fmha_prefill_d512": (
        f"--q_shape 1,1,256,512 --k_shape 1,1,256,512 {_ONCE}"
    ),
    f"{_KERNEL}/blockscaled_gemm/dense_blockscaled_gemm_persistent_amax": (
        f"--mnkl 128,128,256,1 {_ONCE}"
    ),
    f"{_KERNEL}/rmsnorm/rmsnorm": f"--M 16 --N 1024 {_ONCE}",
    f"{_KERNEL}/moe/torch_grouped_mm": (
        "--tokens 32 --experts 2 --top_k_select 1 --hidden 128 --intermediate 128"
    ),
    f"{_KERNEL}/moe/torch_scaled_grouped_mm": (
        "--tokens 32 --experts 2 --top_k_select 1 --hidden 128 --intermediate 128"
    ),
    "cute_ext/blackwell/dense_block_scaled_gemm": "--mnkl 256,128,256,1",
    f"{_TUTORIAL}/tutorial_tma/tma_v0": "--num_warmup 1 --num_iters 1",
    f"{_TUTORIAL}/tutorial_tma/tma_v1": "--num_warmup 1 --num_iters 1",
    f"{_TUTORIAL}/tutorial_tma/tma_v2": "--num_warmup 1 --num_iters 1",
    f"{_TCGEN05}/slicek_m32n8k128": "async_s32_smem",
    "experimental/primitives/tma/tma_pipeline_pingpong": "--k_tiles 8",
    f"{_TASKS}/02_gemm_simple_ts/01_fp16_bf16_gemm_3": "--mnk 256,256,128",
    f"{_TASKS}/04_gemm_bf16_advanced_ts/01_fp16_bf16_gemm_3_cluster": "--mnk 512,512,128",
    f"{_TASKS}/04_gemm_bf16_advanced_ts/02_fp16_bf16_gemm_3_cute_cluster": "--mnk 512,512,128",
    f"{_TASKS}/05_gemm_nvfp4_ts/01_gemm_nvfp4": "--mnkl 256,256,256,1",
    f"{_TASKS}/07_group_pipeline_ts/02_merge_gemm": "--mnk 256,256,128",
    f"{_TASKS}/07_group_pipeline_ts/03_merge_gemm_resadd": "--mnk 256,256,128",
    f"{_TASKS}/07_group_pipeline_ts/04_fork_load_gemm_act": "--mnk 256,256,128",
    "dsl_tutorials/fp16_gemm_4_iket": "--mnk 256,256,128",
    "dsl_tutorials/programmatic_dependent_launch": f"--M 16 --N 256 {_ONCE}",
} | {
    f"{_KERNEL}/dense_gemm/{name}": words
    for name, words in {
        "dense_gemm": _PRODUCT,
        "dense_gemm_alpha_beta_persistent": f"{_PRODUCT} --beta 1.0",
        "dense_gemm_persistent": _PRODUCT,
        "dense_gemm_persistent_dynamic": _PRODUCT,
        "dense_gemm_persistent_prefetch": _PRODUCT,
        "dense_gemm_software_pipeline": _PRODUCT,
    }.items()
} | {
    f"{_KERNEL}/{name}": f"--mnkl 256,128,256,1 {_ONCE}"
    for name in (
        "blockscaled_gemm/dense_blockscaled_gemm_persistent",
        "blockscaled_gemm/dense_blockscaled_gemm_persistent_prefetch",
        "blockwise_gemm/blockwise_gemm",
        "blockwise_gemm/contiguous_grouped_gemm",
        "blockwise_gemm/masked_grouped_gemm",
    )
} | {
    f"{_EFC}/{name}": _PRODUCT
    for name in (
        *("activation_custom_epilogue_dense_gemm", "custom_epilogue_dense_gemm"),
        "synthetic_custom_epilogue_dense_gemm",
    )
} | {
    f"cute_ext/blackwell/{name}": _PRODUCT
    for name in ("dense_gemm", "dense_gemm_cute_pipeline", "dense_gemm_ptr_array")
} | {
    f"{_TUTORIAL}/tutorial_gemm/fp16_gemm_{name}": "--mnk 256,256,128"
    for name in ("0", "1", "2", "3", "3_1", "4", "5", "6")
} | {
    f"{_TUTORIAL}/tutorial_gemm/nvfp4_gemm_{name}": "--mnkl 256,256,256,1" for name in "01"
}  # fmt: skip

PARTS = {
    f"{_EFC}/common_dense_gemm_efc", f"{_EFC}/common_efc",
    f"{_KERNEL}/attention/mamba2_ssd/mamba2_ssd_reference",
    f"{_KERNEL}/attention/mamba2_ssd/mamba2_ssd_tile_scheduler",
    f"{_KERNEL}/attention/mixed_input_fmha/prefill_helpers",
    f"{_KERNEL}/attention/mla/mla_helpers",
    f"{_KERNEL}/mixed_input_gemm/mixed_input_host_utils",
    f"{_KERNEL}/moe/moe_persistent_scheduler", f"{_KERNEL}/moe/moe_sched_extension",
    f"{_KERNEL}/moe/moe_utils", f"{_KERNEL}/reduce/reduce",
    f"{_TUTORIAL}/tutorial_gemm/utils", f"{_TASKS}/07_group_pipeline_ts/__init__",
}  # fmt: skip
"""Modules that examples import; they run nothing."""

LEFT_OUT = {
    f"{_KERNEL}/distributed/": "needs several GPUs and NVSHMEM",
    f"{_KERNEL}/blockscaled_gemm/sm103_": "for sm_103a, which is another architecture",
    f"{_KERNEL}/blockscaled_grouped_gemm/sm103_": "for sm_103a, which is another architecture",
    f"{_TASKS}/04_gemm_bf16_advanced_ts/bench_": "times 01_fp16_bf16_gemm_3_cluster, which is here",
    f"{_TASKS}/05_gemm_nvfp4_ts/bench_": "times 01_gemm_nvfp4, which is here",
    f"{_TASKS}/06_gemm_split_k_fp16_ts/bench_": "times 01_gemm_split_k_fp16, which is here",
}  # fmt: skip
"""Beginnings of paths of examples that are not run, and why."""

TOO_LARGE = {
    "experimental/primitives/tutorial/02_naive_gemm": "32768 warps that go over 1024 elements",
    "experimental/primitives/tutorial/03_gemm_tiled_smem": "1024 CTAs of 1024 threads",
    f"{_TASKS}/01_copy_basics_ts/01_copy_grid_stride": "copies 2^24 elements",
}
"""Examples whose size is fixed in the file, and takes hours here; they count as not executed."""


def examples(checkout: Path) -> Iterator[tuple[str, str, str]]:
    """Path without ``.py``, architecture and arguments of each example that is run."""
    folder = checkout / FOLDER
    for beginning, arch in COUNTED.items():
        for file in sorted(folder.glob(f"{beginning}/**/*.py")) or [folder / f"{beginning}.py"]:
            path = file.relative_to(folder).with_suffix("").as_posix()
            if path not in PARTS and not path.startswith(tuple(LEFT_OUT)):
                yield path, arch, ARGUMENTS.get(path, "")
