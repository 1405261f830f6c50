"""Mutants of other people's kernels: operators, their order, and the table of results."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest

from schedgen.benchmarks.mutants.kernels import UNREPEATED, mutants
from schedgen.conform.assembly import disassembler
from schedgen.emulator.machine.switches import Switches, Uninitialized
from tests.emulator.mutants.campaigns import benchmark, campaign, kernel, line

HANDED = """@!%p1 mbarrier.init.shared.b64 [bar], 32;
bar.sync 0;
@%p2 bra WRITES;
W:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0, 10000;
@%p3 bra DONE;
bra W;
DONE:
ld.shared.b32 %r7, [%r6];
bra END;
WRITES:
mov.b32 %r7, 0;
I:
add.s32 %r7, %r7, 1;
setp.lt.s32 %p4, %r7, 4000;
@%p4 bra I;
st.shared.b32 [%r3], %r1;
mbarrier.arrive.shared.b64 _, [bar];
END:
"""
"""Warp 1 is slow to write what warp 0 waits for."""


def names(text: str) -> Counter[str]:
    return Counter(one.operator for one in mutants(kernel(text)))


def test_a_wait_without_its_loop_shows_under_the_first_schedule() -> None:
    one = campaign(HANDED, switches=Switches(uninitialized=Uninitialized.WARNING))
    mutant = next(m for m in one.mutants if m.operator == UNREPEATED)
    assert len(mutant.kernel.body) == len(mutant.original.body) - 1
    assert mutant.kernel.body[mutant.place()].opcode == "mbarrier"
    found = one.end(mutant)
    assert (found.end, found.rule, found.seed) == ("race", "K1", 0)
    assert one.end(one.mutants[0]).end == "undetected", "the kernel itself is silent"


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("bar.arrive 1, 64;", "M7 barrier arrive removed"),
        ("fence.acq_rel.gpu;", "fence removed"),
        ("griddepcontrol.launch_dependents;", "L1 griddepcontrol.launch_dependents removed"),
        ("cp.async.bulk.commit_group;", "bulk commit_group removed"),
        (
            "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;",
            "arrive.expect_tx removed",
        ),
        ("mbarrier.expect_tx.shared.b64 [bar], 16;", "expect_tx removed"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
            "[data], [%rd1], 16, [bar];",
            "M12 copy tells the next barrier",
        ),
    ],
)
def test_operators(text: str, operator: str) -> None:
    assert names(text)[operator] == 1


def test_a_copy_tells_the_next_barrier_and_copies_to_the_same_place() -> None:
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
    one = next(m for m in mutants(kernel(f"{copy} [data], [%rd1], 16, [bar];")))
    old, new = one.instruction.operands, one.kernel.body[one.place() or 0].operands
    assert old[:-1] == new[:-1]
    assert old[-1] != new[-1]


def test_a_fence_moves_behind_what_tells_others_and_not_behind_a_barrier_of_the_warp() -> None:
    text = """st.shared.b32 [%r3], %r1;
fence.proxy.async.shared::cta;
bar.warp.sync -1;
mbarrier.arrive.shared.b64 _, [bar];
"""
    moved = next(m for m in mutants(kernel(text)) if m.operator.startswith("M6"))
    opcodes = [one.opcode for one in moved.kernel.body]
    assert opcodes.index("fence") == opcodes.index("mbarrier") + 1


CONVERGED = """st.shared.b32 [%r3], %r1;
bar.warp.sync -1;
elect.sync %r7|%p4, -1;
@%p4 mbarrier.arrive.shared.b64 _, [bar];
"""
DIVERGED = """setp.lt.s32 %p3, %r1, 7;
@%p3 bra FEW;
ld.shared.b32 %r7, [%r6];
add.s32 %r8, %r7, %r8;
st.shared.b32 [%r3], %r8;
FEW:
bar.warp.sync -1;
ld.shared.b32 %r7, [%r3+4];
st.shared.b32 [%r6], %r7;
"""


@pytest.mark.medium
@pytest.mark.skipif(
    disassembler() is None or shutil.which("ptxas") is None, reason="needs ptxas and nvdisasm"
)
@pytest.mark.parametrize(("text", "found"), [(CONVERGED, True), (DIVERGED, False)])
def test_barriers_of_a_warp_that_are_no_machine_code(text: str, found: bool) -> None:
    code = benchmark("emulated_mutants.machine_code")
    ptx = campaign(text).capture.runs[0].recording.ptx
    assert bool(code.nothing(ptx, "sm_100a", line(text, "bar.warp"))) == found


def test_first_mutants_of_lines_come_first() -> None:
    race = benchmark("race_mutants")
    one = campaign("setmaxnreg.inc.sync.aligned.u32 240;\nbar.sync 0;\nbar.sync 0;")
    first, rest = race.divided(one, range(len(one.mutants)))
    assert sorted(one.mutants[n].operator for n in first) == ["M7 barrier removed", "unchanged"]
    assert [one.mutants[n].operator for n in rest] == ["M7 barrier removed"]


def row(**changes: Any) -> dict[str, Any]:
    return {
        "kernel": "k", "version": "1", "number": 1, "operator": "M15 wait removed", "line": 5,
        "instruction": "mbarrier.try_wait", "source": "k.py:7", "end": "race", "seed": 0,
        "rule": "K1", "seconds": 0.5, **changes,
    }  # fmt: skip


def test_sums() -> None:
    race, files = benchmark("race_mutants"), benchmark("emulate_capture_file")
    rows = [
        row(operator="unchanged", end="undetected"), row(), row(seed=5),
        row(end="deadlock", rule=""), row(end="not executed"),
        row(end="undetected", reason="nobody uses it"), row(end="undetected", reason=""),
        row(end="undetected"),
    ]  # fmt: skip
    (found,) = race.summed(rows, [files.Entry("k", "1", 8, 1.0, 0)], {"k": 7})
    assert (found["mutants"], found["judged"], found["not executed"]) == (7, 7, 1)
    assert found["not examined"] == 1
    assert (found["detected"], found["by default schedules"]) == (3, 2)
    assert found["rules"] == {"K1": 2, "deadlock": 1}
    assert found["equivalent"] == 1
    assert found["missed"] == ["M15 wait removed, line 5: mbarrier.try_wait (k.py:7)"]


def test_a_kernel_that_is_not_silent_itself_is_refused() -> None:
    race, files = benchmark("race_mutants"), benchmark("emulate_capture_file")
    with pytest.raises(SystemExit, match="itself is not silent"):
        race.summed([row(operator="unchanged")], [files.Entry("k", "1", 8, 1.0, 0)], {"k": 7})
