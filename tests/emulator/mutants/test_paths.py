"""What all paths through a kernel have in common: which instructions are superfluous."""

from __future__ import annotations

import pytest

from tests.emulator.mutants.campaigns import benchmark, kernel, line

LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r8];"
WAIT = "tcgen05.wait::ld.sync.aligned;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"
FENCE = "fence.proxy.async.shared::cta;"
STORE = "st.shared.b32 [%r3], %r1;"


def said(text: str, operator: str, fragment: str, nth: int = 0) -> str:
    paths = benchmark("emulated_mutants.paths")
    return paths.superfluous(kernel(text), operator, line(text, fragment, nth))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{LOAD}\n{WAIT}\n{ARRIVE}", False),  # others learn of it
        (f"{LOAD}\n{WAIT}\n{LOAD}\n{WAIT}\n{ARRIVE}", True),  # the second one comes first
        (f"{LOAD}\n{WAIT}\n@%p1 bra L;\n{WAIT}\nL:\n{ARRIVE}", False),  # but not on all paths
        (f"{LOAD}\n{WAIT}\n@%p1 {WAIT}\n{ARRIVE}", False),  # nor under a guard
        (f"{STORE}\n{WAIT}\n{ARRIVE}", True),  # nothing to wait for
        (f"L:\n{WAIT}\n{LOAD}\n@%p1 bra L;\n{ARRIVE}", False),  # but round the loop there is
    ],
)
def test_waits_for_loads(text: str, found: bool) -> None:
    assert bool(said(text, "M3 wait::ld removed", "wait::ld")) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{STORE}\n{FENCE}\n{ARRIVE}", False),
        (f"{FENCE}\n{ARRIVE}", True),
        (f"{STORE}\n{FENCE}\nmov.b32 %r20, 0;\n{FENCE}\n{ARRIVE}", True),
        (f"{STORE}\n{FENCE}\n{ARRIVE}\n{FENCE}", False),
    ],
)
def test_proxy_fences(text: str, found: bool) -> None:
    assert bool(said(text, "M2/M4 proxy fence removed", "fence.proxy")) == found


def test_instructions_without_a_rule() -> None:
    assert said(f"{STORE}\n{ARRIVE}", "arrive removed", "arrive") == ""


# -- fence.mbarrier_init ---------------------------------------------------------------------------

INIT = "@!%p1 mbarrier.init.shared.b64 [bar], 64;"
INIT_FENCE = "fence.mbarrier_init.release.cluster;"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{INIT}\n{INIT_FENCE}\nbar.sync 0;\n{ARRIVE}", False),
        (f"{INIT}\n{INIT_FENCE}\n{INIT}\n{INIT_FENCE}\nbar.sync 0;\n{ARRIVE}", True),
        # a use between the two, or before the barrier, or round it
        (f"{INIT}\n{INIT_FENCE}\n{ARRIVE}\n{INIT_FENCE}\nbar.sync 0;\n{ARRIVE}", False),
        (f"{INIT}\n{INIT_FENCE}\n{INIT_FENCE}\n{ARRIVE}\nbar.sync 0;", False),
        (f"@%p2 bra L;\n{INIT}\n{INIT_FENCE}\n{INIT_FENCE}\nbar.sync 0;\nL:\n{ARRIVE}", False),
        # a barrier that not all threads meet at, and a fence that not all paths have
        (f"{INIT}\n{INIT_FENCE}\n{INIT_FENCE}\nbar.sync 1, 32;\n{ARRIVE}", False),
        (f"{INIT}\n{INIT_FENCE}\n@%p2 bra L;\n{INIT_FENCE}\nL:\nbar.sync 0;\n{ARRIVE}", False),
    ],
)
def test_init_fences(text: str, found: bool) -> None:
    assert bool(said(text, "M5 fence.mbarrier_init removed", "fence.mbarrier")) == found


# -- wgmma.fence -----------------------------------------------------------------------------------

WG = "wgmma.fence.sync.aligned;"


def product(first: int, shape: str = "m64n8k16") -> str:
    registers = ", ".join(f"%r{first + at}" for at in range(4))
    kind = f"wgmma.mma_async.sync.aligned.{shape}.f32.f16.f16"
    return f"{kind} {{{registers}}}, %rd2, %rd3, 1, 1, 1, 0, 0;"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{WG}\n{product(20)}\n{WG}\n{product(20)}", True),
        (f"{WG}\n{product(20)}\n{WG}\n{product(30)}", True),
        (f"{WG}\n{product(20)}\nmov.b32 %r21, 0;\n{WG}\n{product(20)}", False),
        (f"{WG}\n{product(20)}\nadd.s32 %r50, %r23, 1;\n{WG}\n{product(20)}", False),
        (f"{WG}\n{product(20)}\nmov.b32 %r21, 0;\n{WG}\n{product(30)}", True),
        # another shape, a path on which there was none, and the loop
        (f"{WG}\n{product(20)}\n{WG}\n{product(20, 'm64n16k16')}", False),
        (f"@%p1 bra L;\n{WG}\nL:\n{WG}\n{product(20)}", False),
        (f"{WG}\nL:\n{WG}\n{product(20)}\nmov.b32 %r20, 0;\n@%p1 bra L;", False),
    ],
)
def test_wgmma_fences(text: str, found: bool) -> None:
    """The second one."""
    assert bool(said(text, "wgmma.fence removed", "wgmma.fence", 1)) == found


def test_the_first_wgmma_fence_is_needed() -> None:
    assert said(f"{WG}\n{product(20)}", "wgmma.fence removed", "wgmma.fence") == ""


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        ("mov.b32 %r20, 1;", True),
        ("ld.shared.b32 %r20, [%r3];", True),  # bulk stores read shared memory
        (STORE, False),
        ("st.global.b32 [%rd1], %r1;", False),
        (f"@%p1 bra END;\n{STORE}\nEND:\nmov.b32 %r20, 1;", False),
    ],
)
def test_nothing_comes_behind_the_last_wait(behind: str, found: bool) -> None:
    paths = benchmark("emulated_mutants.paths")
    text = f"cp.async.bulk.wait_group 0;\n{behind}"
    assert paths.last(kernel(text), line(text, "wait_group")) == found
