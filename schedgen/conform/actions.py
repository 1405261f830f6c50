"""Which instructions are compared with the program, and which of their operands."""

from __future__ import annotations

import re

from schedgen.emulator.ptx.tree import Instruction

PURE = frozenset(
    (
        *("abs", "activemask", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz"),
        *("cnot", "copysign", "cos", "cvt", "cvta", "div", "dp4a", "elect", "ex2", "fma", "fns"),
        *("isspacep", "lg2", "lop3", "mad", "madc", "max", "min", "mov", "mul", "mul24", "neg"),
        *("not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf"),
        *("shfl", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp"),
        *("vote", "xor", "match", "redux"),
    )
)
"""Instructions that touch nothing but registers."""
IGNORED = frozenset(("prefetch", "prefetchu", "applypriority", "pmevent", "nanosleep", "nop"))
"""Instructions that change nothing that a program says."""


def kind(one: Instruction) -> str:
    """What an instruction is to the comparison; its own name if nothing is known of it."""
    name, modifiers = one.name, one.modifiers
    for beginning, found in _KINDS:
        if name.startswith(beginning):
            return found
    space = next((m for m in modifiers if m.startswith("shared")), None)
    if one.opcode in ("ld", "ldmatrix") and space in ("shared", "shared::cta"):
        return "read"
    if one.opcode in ("st", "stmatrix") and space in ("shared", "shared::cta"):
        return "write"
    return name


COPIED = "copied write"
"""Copies that threads begin: writes of theirs once their group is waited for."""
_KINDS = (
    ("mbarrier.init.shared", "init"),
    ("mbarrier.try_wait.parity.shared", "wait"),
    ("mbarrier.test_wait.parity.shared", "wait"),
    ("mbarrier.arrive.expect_tx.shared.", "expect"),
    ("mbarrier.arrive.expect_tx.shared::cta.", "expect"),
    ("mbarrier.arrive.shared.", "arrive"),
    ("mbarrier.arrive.shared::cta.", "arrive"),
    ("cp.async.cg.shared.global", COPIED),
    ("cp.async.commit_group", "close rows"),
    ("cp.async.wait_group", "wait_group rows"),
    ("cp.async.bulk.commit_group", "close copies"),
    ("cp.async.bulk.wait_group.read", "wait_group copies read"),
    ("cp.async.bulk.wait_group", "wait_group copies"),
    ("wgmma.fence", "wgmma.fence"),
    ("wgmma.mma_async", "wgmma"),
    ("wgmma.commit_group", "close products"),
    ("wgmma.wait_group", "wait_group products"),
    ("tcgen05.mma.cta_group::1.", "mma"),
    ("tcgen05.cp.cta_group::1.32x128b.warpx4", "factors"),
    ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.", "commit"),
    ("tcgen05.ld.", "tmem read"),
    ("tcgen05.st.", "tmem write"),
    ("tcgen05.wait::ld", "tcgen05.wait::ld"),
    ("tcgen05.wait::st", "tcgen05.wait::st"),
    ("tcgen05.fence::before_thread_sync", "tcgen05.fence::before_thread_sync"),
    ("tcgen05.fence::after_thread_sync", "tcgen05.fence::after_thread_sync"),
    ("tcgen05.alloc.", "alloc"),
    ("tcgen05.dealloc.", "dealloc"),
    ("tcgen05.relinquish_alloc_permit", "relinquish"),
    ("fence.proxy.async.shared::cta", "fence.proxy.async"),
    ("fence.proxy.async.global", "fence.proxy.async.global"),
    ("st.release.gpu.global.b32", "pass turn"),
    ("red.release.gpu.global.add.u32", "count tile"),
    ("fence.mbarrier_init.release.cluster", "fence.mbarrier_init"),
    ("bar.sync", "bar.sync"),
    ("bar.arrive", "bar.arrive"),
    ("barrier.arrive", "bar.arrive"),
    ("bar.warp.sync", "bar.warp.sync"),
    ("barrier.sync", "bar.sync"),
    ("atom.relaxed.gpu.global.inc.u32", "draw"),
    ("griddepcontrol.wait", "griddepcontrol.wait"),
    ("griddepcontrol.launch_dependents", "griddepcontrol.launch_dependents"),
    ("setmaxnreg.inc", "setmaxnreg.inc"),
    ("setmaxnreg.dec", "setmaxnreg.dec"),
)

TURNED = {"a": 15, "b": 16}
"""Bits of the descriptor of an instruction that say whether the rows of an operand lie along m or
n, and not along k (PTX ISA, instruction descriptor of tcgen05.mma)."""

ACCESSES = frozenset(("read", "write", COPIED, "tmem read", "tmem write"))
"""Accesses by threads, which are compared by where they are, not one by one."""


_ADDS = re.compile(r"cp\.reduce\.async\.bulk\.tensor\.\dd\.global\.shared::cta\.add\.")


def bulk_kind(one: Instruction) -> str | None:
    """``load``, ``store`` or ``add`` (a store that adds) for copies of tiles; None for other
    instructions.
    """
    modifiers = one.modifiers
    if _ADDS.match(one.name) and "bulk_group" in modifiers:
        return "add"
    if one.opcode != "cp" or modifiers[:3] != ("async", "bulk", "tensor"):
        return None
    if len(modifiers) > 5 and modifiers[4:6] in (
        ("shared::cta", "global"),
        ("shared::cluster", "global"),
    ):
        return "load" if "mbarrier::complete_tx::bytes" in modifiers else None
    if modifiers[4:6] == ("global", "shared::cta") and "bulk_group" in modifiers:
        return "store"
    return None
