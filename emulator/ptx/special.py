"""Registers and constants that PTX predefines (PTX ISA 9.1, chapter 10)."""

from __future__ import annotations

WARP_SIZE = 32
"""Value of the constant ``WARP_SZ`` (4.5.1)."""

_VECTORS = (
    *("tid", "ntid", "ctaid", "nctaid"),
    *("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"),
)
_U32 = (
    *("laneid", "warpid", "nwarpid", "smid", "nsmid", "cluster_ctarank", "cluster_nctarank"),
    *("lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"),
    *("clock", "clock_hi", "globaltimer_lo", "globaltimer_hi"),
    *("total_smem_size", "aggr_smem_size", "dynamic_smem_size"),
    *(f"pm{i}" for i in range(8)),
)
_B32 = (
    *(f"envreg{i}" for i in range(32)),
    *(f"reserved_smem_offset_{which}" for which in ("begin", "end", "cap", "0", "1")),
)
_U64 = ("gridid", "clock64", "globaltimer", "current_graph_exec", *(f"pm{i}_64" for i in range(8)))

SPECIAL_VECTORS = {f"%{name}": tuple(f"%{name}.{part}" for part in "xyzw") for name in _VECTORS}
"""Special registers that are vectors -> their components."""

SPECIAL_REGISTERS: dict[str, str] = {
    **{f"%{name}.{part}": "u32" for name in _VECTORS for part in "xyzw"},
    **{f"%{name}": "u32" for name in _U32},
    **{f"%{name}": "b32" for name in _B32},
    **{f"%{name}": "u64" for name in _U64},
    "%is_explicit_cluster": "pred",
}
"""Name with percent sign -> type without dot. Vectors only by their components."""
